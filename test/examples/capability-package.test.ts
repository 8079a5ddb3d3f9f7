/**
 * The example of a capability package, used in the way of a package: named in a configuration, requested by its value,
 * called from the command line. `scripts/pack-test.ts` does the same with both packages installed.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { loadConfig } from '../../src/config/config.ts';
import { connect } from '../../src/connect.ts';
import { shareOwnPackage } from '../../src/server/plugin-modules.ts';
import { type Server, serve } from '../../src/server/serve.ts';
import { HandfastError } from '../../src/wire/errors.ts';
import { root } from '../rules/scan.ts';

const source = join(root, 'examples', 'capability-package', 'src', 'index.ts');
const folder = mkdtempSync(join(tmpdir(), 'handfast-notes-'));
const env = { ...process.env, HANDFAST_HOME: join(folder, 'home'), HANDFAST_TOKEN: 'writer-token-of-20-characters' };
const yaml = `listen: http://127.0.0.1:0
plugins:
  - tools
  - use: ${source}
    options: { max_notes: 3 }
auth:
  tokens:
    - { name: writer, token: writer-token-of-20-characters, capabilities: [tools], grants: { notes: { write: true } } }
    - { name: reader, token: reader-token-of-20-characters, capabilities: [tools], grants: { notes: {} } }
    - { name: none, token: tools-token-of-20-characters, capabilities: [tools] }
`;
const tokenOf = (name: string) => `${name}-token-of-20-characters`;
const run = promisify(execFile);

let server: Server;
let release: () => void;
let capability: typeof import('../../examples/capability-package/src/index.ts').capability;

const open = (name = 'writer') => connect(server.url as string, { capabilities: [capability], token: tokenOf(name) });
const start = async () =>
  serve(await loadConfig(join(folder, 'handfast.yaml'), { env, cwd: folder }), { announce: false });

before(async () => {
  writeFileSync(join(folder, 'handfast.yaml'), yaml);
  writeFileSync(join(folder, 'todo.txt'), 'from a file\n');
  release = shareOwnPackage();
  ({ capability } = await import('../../examples/capability-package/src/index.ts'));
  server = await start();
});
after(async () => {
  await server.close(0);
  release();
  rmSync(folder, { recursive: true });
});

describe('a capability from a package', { timeout: 120_000 }, () => {
  test('has a client, a store, pushes to every session of its principal, and offers that change', async () => {
    await using one = await open();
    await using two = await open();
    const changed = Promise.withResolvers<unknown>();
    two.notes.onChange(changed.resolve);
    assert.equal((await one.notes.set('a', 'first')).revision, 1);
    assert.equal(((await changed.promise) as { key: string }).key, 'a');
    assert.deepEqual(
      (await two.notes.list()).map(({ key, text }) => [key, text]),
      [['a', 'first']],
    );
    assert.equal(two.capabilities.get('notes')?.metadata.max_notes, 3);
    await two.ping();
    assert.equal(two.capabilities.get('notes')?.metadata.notes, 1);
  });

  test('has a subscription that continues behind its reply and ends', async () => {
    await using agent = await open();
    const seen: unknown[] = [];
    const watching = (async () => {
      for await (const { key } of agent.notes.watch('b', 2)) seen.push(key);
    })();
    await agent.ping();
    for (const key of ['b1', 'a', 'b1']) await agent.notes.set(key, 'x');
    await watching;
    assert.deepEqual(seen, ['b1', 'b1']);
  });

  test('asks its agent, and calls tools of the host under the same rights', async () => {
    await using agent = await open();
    await agent.notes.set('doomed', 'x');
    await assert.rejects(
      agent.notes.delete('doomed', () => false),
      { code: 'notes.kept' },
    );
    await agent.notes.delete('doomed', (key) => key === 'doomed');
    await assert.rejects(
      agent.notes.delete('doomed', () => true),
      { code: 'notes.missing', retryable: false },
    );
    const { text } = await agent.notes.import('a', 'todo.txt');
    assert.match(text, /from a file/);
    await assert.rejects(agent.notes.import('a', '../../etc/passwd'), { code: 'tool_denied' });
  });

  test('has its own limits, grants and error codes', async () => {
    await using agent = await open();
    await agent.notes.set('c', 'third');
    const full = await agent.notes.set('d', 'fourth').catch((error) => error);
    assert.ok(full instanceof HandfastError);
    assert.deepEqual([full.code, full.detail], ['notes.full', { row: 'quota_exceeded', max_notes: 3 }]);
    await using reader = await open('reader');
    await assert.rejects(reader.notes.set('a', 'x'), { code: 'notes.read_only' });
    assert.deepEqual(await reader.notes.list(), []);
    const none = await connect(server.url as string, { capabilities: [capability, 'tools'], token: tokenOf('tools') });
    assert.equal(none.capabilities.get('notes')?.enabled, false);
    await assert.rejects(none.notes.list(), { code: 'capability_missing' });
    await none.close();
  });

  test('has a folder of its own, and what it stored is there after a restart', async () => {
    const agent = await open();
    const { path, count } = await agent.notes.export();
    assert.deepEqual([JSON.parse(readFileSync(path, 'utf8')).length, count], [3, 3]);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    await agent.close();
    await server.close(0);
    server = await start();
    await using again = await open();
    assert.deepEqual(
      (await again.notes.list()).map(({ key, revision }) => [key, revision]),
      [
        ['a', 3],
        ['b1', 2],
        ['c', 1],
      ],
    );
  });

  test('has commands and a line of doctor', async () => {
    const handfast = async (...words: string[]) => {
      const args = ['-C', 'handfast-source', join(root, 'src', 'cli', 'main.ts'), ...words];
      return run(process.execPath, args, { cwd: folder, env, encoding: 'utf8' });
    };
    await handfast('trust', 'add', '--yes');
    const connected = ['--connect', server.url as string];
    await handfast(...connected, 'notes', 'set', 'c', 'from the command line', '--quiet');
    const { stdout } = await handfast('notes', 'ls', 'c', ...connected, '--json');
    assert.deepEqual(
      JSON.parse(stdout).map(({ text }: { text: string }) => text),
      ['from the command line'],
    );
    assert.equal((await handfast(...connected, 'notes', 'ls', 'c')).stdout, 'c: from the command line\n');
    assert.match((await handfast('help', 'notes')).stdout, /Notes that the agents of a principal share/);
    const full = await handfast(...connected, 'notes', 'set', 'e', 'x').catch((error) => error);
    assert.deepEqual([full.code, /\[notes\.full\]/.test(full.stderr)], [5, true]);
    const doctor = await handfast('doctor').catch((error) => error);
    assert.match(doctor.stdout, /^ok {4}notes {8}up to 3 notes for each principal$/m);
  });

  test('has options that are refused by line and column', async () => {
    const file = join(folder, 'wrong.yaml');
    writeFileSync(file, yaml.replace('max_notes: 3', 'max_notes: 0'));
    await assert.rejects(serve(await loadConfig(file, { env, cwd: folder }), { announce: false }), {
      code: 'config_invalid',
      message: /wrong\.yaml:5:27: .*max_notes/,
    });
  });
});
