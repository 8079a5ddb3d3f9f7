import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Checkers } from '../../../../src/capabilities/tools/arguments.ts';
import { builtinTools } from '../../../../src/capabilities/tools/builtin/index.ts';

const entry = new URL('../../../../src/capabilities/tools/builtin/index.ts', import.meta.url);

test('the shell is offered only on request', () => {
  const names = (options = {}) => builtinTools(options).map(({ name }) => name);
  const files = ['read_file', 'write_file', 'edit_file', 'list_dir', 'glob', 'grep', 'http_get'];
  assert.deepEqual(names(), files);
  assert.deepEqual(names({ shell: true }), [...files, 'shell']);
});

test('every tool describes itself, its arguments and its risks', async () => {
  const checkers = new Checkers();
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

test('defaults are filled in for what was left out', async () => {
  const checkers = new Checkers();
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
