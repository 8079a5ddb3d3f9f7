import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ValidatorCache } from '../../../../src/capabilities/tools/arguments.ts';
import { builtinTools } from '../../../../src/capabilities/tools/builtin/index.ts';
import { call, makeWorkspace, testCall } from './support.ts';

const entry = new URL('../../../../src/capabilities/tools/builtin/index.ts', import.meta.url);

test('the shell can be left out', () => {
  const names = (options = {}) => builtinTools(options).map(({ name }) => name);
  const files = ['read_file', 'write_file', 'edit_file', 'list_dir', 'glob', 'grep', 'http_get'];
  assert.deepEqual(names(), [...files, 'shell']);
  assert.deepEqual(names({ shell: false }), files);
});

test('every tool describes itself, its arguments and its risks', async () => {
  const checkers = new ValidatorCache();
  for (const tool of builtinTools({ shell: true })) {
    assert.ok(tool.description.length > 100 && tool.description.length < 1024, tool.name);
    assert.ok(tool.kind !== undefined && tool.tags?.length && tool.risks?.length, tool.name);
    const input = tool.input as { type: string; properties: Record<string, { description?: string; type?: string }> };
    assert.equal(input.type, 'object');
    for (const [name, property] of Object.entries(input.properties)) {
      assert.ok(property.description && typeof property.type === 'string', `${tool.name}.${name}`);
    }
    const check = await checkers.compile(tool.input!, tool.name);
    await checkers.compile(tool.output!, tool.name);
    assert.throws(() => check({ unknown_argument: 1, path: 'x' }), { code: 'schema_violation' }, tool.name);
  }
});

test('the tools that write files carry the same risks, so that no rule lets one through and stops the other', () => {
  const risks = new Map(builtinTools().map((tool) => [tool.name, tool.risks]));
  assert.deepEqual(risks.get('edit_file'), ['reads', 'writes', 'destructive']);
  assert.deepEqual(risks.get('write_file'), risks.get('edit_file'));
});

test('defaults are filled in for what was left out', async () => {
  const checkers = new ValidatorCache();
  for (const tool of builtinTools({ shell: true })) {
    const { properties, required = [] } = tool.input as {
      properties: Record<string, { default?: unknown; type: string }>;
      required?: string[];
    };
    const sample: Record<string, unknown> = { string: 'x', array: ['x'] };
    const given = Object.fromEntries(required.map((name) => [name, sample[properties[name]!.type]]));
    if (tool.name === 'edit_file') given.edits = [{ old_text: 'a', new_text: 'b' }];
    const complete = (await (await checkers.compile(tool.input!, tool.name))(given)) as Record<string, unknown>;
    for (const [name, property] of Object.entries(properties)) {
      if (property.default !== undefined) assert.deepEqual(complete[name], property.default, `${tool.name}.${name}`);
    }
  }
});

test('loading the tools loads nothing heavy', async () => {
  const script = `
    const before = new Set(process.moduleLoadList);
    const { builtinTools } = await import(${JSON.stringify(entry.href)});
    builtinTools({ shell: true });
    console.log(JSON.stringify(process.moduleLoadList.filter((name) => !before.has(name))));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
  const loaded = JSON.parse(stdout) as string[];
  const heavy = /^NativeModule (http|https|net|tls|zlib|dns|child_process|worker_threads|crypto|fs\/promises)$/;
  assert.deepEqual(
    loaded.filter((name) => heavy.test(name)),
    [],
  );
});

test('no descriptor, child or timer stays behind, whether calls succeed or fail', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'a/b.txt': 'text', 'bait.txt': `${'a'.repeat(60)}!` });
  await symlink('..', join(workspace, 'out'));
  const tools = new Map(builtinTools({ shell: true }).map((tool) => [tool.name, tool]));
  const calls: [string, Record<string, unknown>][] = [
    ['read_file', { path: 'a/b.txt' }],
    ['read_file', { path: 'a' }],
    ['read_file', { path: 'a/x/y' }],
    ['read_file', { path: 'out/x' }],
    ['write_file', { path: 'n/o/p', content: 'x' }],
    ['write_file', { path: 'n/o/p', content: 'x', create_dirs: true }],
    ['write_file', { path: 'a/b.txt', content: 'x', overwrite: false }],
    ['edit_file', { path: 'a/b.txt', edits: [{ old_text: 'x', new_text: 'xy' }] }],
    ['edit_file', { path: 'a/b.txt', edits: [{ old_text: 'nothing', new_text: 'y' }] }],
    ['list_dir', { depth: 4 }],
    ['list_dir', { path: 'out' }],
    ['glob', { patterns: ['**'] }],
    ['glob', { patterns: ['**'], path: 'x' }],
    ['grep', { pattern: 'x' }],
    ['grep', { pattern: '^(a+)+$', time_limit_seconds: 0.2 }],
    ['http_get', { url: 'http://127.0.0.1:9/' }],
    ['shell', { command: 'true' }],
    ['shell', { command: 'sleep 9 & exit 1' }],
    ['shell', { argv: ['no-such-program'] }],
  ];
  const round = async () => {
    let failed = 0;
    for (const [name, args] of calls) {
      await call(tools.get(name)!, args, testCall(workspace)).catch(() => {
        failed += 1;
      });
    }
    return failed;
  };
  const busy = () => process.getActiveResourcesInfo().filter((kind) => /Process|Timeout|Worker|MessagePort/.test(kind));
  // Descriptors that the first round opens permanently belong to the runtime.
  await round();
  await settled(() => busy().length === 0);
  const before = await openDescriptors();
  assert.ok((await round()) > 5);
  // Pipes are closed a turn of the event loop after their call has ended.
  await settled(async () => busy().length === 0 && (await openDescriptors()) <= before);
  assert.deepEqual(busy(), []);
  assert.ok((await openDescriptors()) <= before);
});

/** Waits until a condition holds, for at most a minute. */
async function settled(holds: () => boolean | Promise<boolean>): Promise<void> {
  const until = performance.now() + 60_000;
  while (!(await holds()) && performance.now() < until) {
    await delay(20);
    // Right after a timer, the timer itself still counts as active.
    await turn();
  }
}

/** Returns the number of open descriptors of this process; 0 if they cannot be counted. */
async function openDescriptors(): Promise<number> {
  return (await readdir('/proc/self/fd').catch(() => [])).length;
}
