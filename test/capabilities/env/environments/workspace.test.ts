/** A workspace as an environment: a failing test is made to pass, and only by permitted changes. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Environment, Step } from '../../../../src/capabilities/env/environment.ts';
import { type WorkspaceTask, workspaceKind } from '../../../../src/capabilities/env/environments/workspace.ts';
import { makeEnvironment } from '../../../../src/capabilities/env/registry.ts';
import type { JsonObject } from '../../../../src/wire/json.ts';

const BROKEN = 'export const add = (a, b) => a - b;\n';
const MENDED = 'export const add = (a, b) => a + b;\n';

/** Makes a small project whose test fails. */
function project(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-task-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'test'));
  writeFileSync(join(folder, 'add.mjs'), BROKEN);
  writeFileSync(
    join(folder, 'test', 'add.mjs'),
    `import { add } from '../add.mjs';\nif (add(2, 3) !== 5) { console.log('2 + 3 is ' + add(2, 3)); process.exit(1); }\n`,
  );
  return folder;
}

/** Returns the folder for the copies of this test. */
function ownTemporaryFolder(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-copies-'));
  const before = process.env.TMPDIR;
  process.env.TMPDIR = folder;
  context.after(() => {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

async function open(folder: string, task: Partial<WorkspaceTask> = {}) {
  const check = [process.execPath, 'test/add.mjs'] as const;
  const kind = workspaceKind({
    id: 'workspace/add',
    task: 'Make the test pass',
    folder,
    check,
    protected: ['test'],
    ...task,
  });
  const environment = await makeEnvironment(kind);
  await environment.reset();
  const act = (operation: string, path = '', content = ''): Promise<Step<JsonObject>> =>
    environment.step({ operation, path, content }) as Promise<Step<JsonObject>>;
  return { kind, environment, act };
}

const output = ({ observation }: Step<JsonObject>): string => String(observation.output);

test('a failing test passes after the mistake was mended; the folder of the task is as it was', async (context) => {
  const folder = project(context);
  const copies = ownTemporaryFolder(context);
  const { kind, environment, act } = await open(folder);
  assert.equal(kind.runsCode, true);
  const failed = await act('check');
  assert.deepEqual(
    [failed.reward, failed.terminated, failed.info.exit_code, output(failed)],
    [0, false, 1, '2 + 3 is -1'],
  );
  assert.deepEqual(failed.observation.files, ['add.mjs', 'test/add.mjs']);
  assert.equal(output(await act('read', 'add.mjs')), BROKEN);
  assert.equal(output(await act('write', './add.mjs', MENDED)), 'wrote add.mjs');
  assert.equal(output(await act('read', 'add.mjs')), MENDED);
  const passed = await act('check');
  assert.deepEqual([passed.reward, passed.terminated, passed.observation.passed], [1, true, 1]);
  assert.ok(environment.observationSpace.contains(passed.observation));
  assert.equal(readFileSync(join(folder, 'add.mjs'), 'utf8'), BROKEN);
  assert.deepEqual(readdirSync(copies), [], 'no copy is left');
  await environment.reset();
  assert.equal((await act('check')).reward, 0, 'the next episode starts with the mistake');
});

test('a snapshot has the changes, and another environment continues from it', async (context) => {
  const folder = project(context);
  const { environment, act } = await open(folder);
  await act('write', 'add.mjs', MENDED);
  await act('write', 'notes/a.txt', 'deeper');
  const { environment: copy, act: actInCopy } = await open(folder);
  copy.restore!(JSON.parse(JSON.stringify(environment.snapshot!())) as JsonObject);
  const passed = await actInCopy('check');
  assert.deepEqual([passed.reward, passed.observation.files], [1, ['add.mjs', 'notes/a.txt', 'test/add.mjs']]);
});

test('a test cannot be passed by changing the test, also not through a link', async (context) => {
  const folder = project(context);
  symlinkSync('test', join(folder, 'alias'));
  const { act } = await open(folder);
  for (const path of ['test/add.mjs', './test/../test/add.mjs', 'test', 'test/new.mjs'])
    assert.match(output(await act('write', path, '')), /part of the task/);
  assert.match(output(await act('delete', 'test/add.mjs')), /part of the task/);
  await act('write', 'alias/add.mjs', '');
  const graded = await act('check');
  assert.deepEqual([graded.reward, output(graded)], [0, 'alias/add.mjs is part of the task and cannot be changed']);
});

test('paths that leave the workspace are neither read nor written', async (context) => {
  const folder = project(context);
  const outside = mkdtempSync(join(tmpdir(), 'handfast-outside-'));
  context.after(() => rmSync(outside, { recursive: true, force: true }));
  writeFileSync(join(outside, 'secret'), 'secret');
  symlinkSync(outside, join(folder, 'link'));
  const { act } = await open(folder);
  for (const path of ['../secret', '/etc/passwd', 'a/../../secret', '', '.', 'a\0b'])
    for (const operation of ['read', 'write', 'delete'])
      assert.match(output(await act(operation, path)), /must name a file in the workspace/, path);
  assert.match(output(await act('read', 'link/secret')), /no file link\/secret/);
  await act('write', 'link/secret', 'stolen');
  assert.match(output(await act('check')), /link\/secret cannot be changed/);
  assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'secret');
  assert.equal(output(await act('write', '..notes/a', 'a')), 'wrote ..notes/a', 'the name of a folder in it');
});

test('a command that does not end is stopped, its output is bounded, and it sees a small environment', async (context) => {
  const folder = project(context);
  process.env.HANDFAST_TEST_SECRET = 'secret';
  context.after(() => delete process.env.HANDFAST_TEST_SECRET);
  const run = (script: string, task: Partial<WorkspaceTask> = {}) =>
    open(folder, { check: [process.execPath, '-e', script], ...task });
  const endless = await run('setInterval(() => {}, 1000)', { timeoutMs: 300 });
  const stopped = await endless.act('check');
  assert.deepEqual([stopped.reward, stopped.info.timed_out], [0, true]);
  assert.match(output(stopped), /stopped after 300 ms/);
  const loud = await (await run('process.stdout.write("x".repeat(1e6))')).act('check');
  assert.deepEqual([loud.reward, loud.info.truncated, output(loud).length < 70_000], [1, true, true]);
  const names = await (await run('console.log(Object.keys(process.env).sort().join())')).act('check');
  assert.doesNotMatch(output(names), /HANDFAST_TEST_SECRET/);
  const inherits = ['HANDFAST_TEST_SECRET'];
  const granted = await (await run('console.log(process.env.HANDFAST_TEST_SECRET)', { inherits })).act('check');
  assert.equal(output(granted), 'secret');
});

test('an aborted check ends, and leaves no copy', async (context) => {
  const folder = project(context);
  const copies = ownTemporaryFolder(context);
  const { environment } = await open(folder, { check: [process.execPath, '-e', 'setInterval(() => {}, 1000)'] });
  const step = (environment as Environment).step(
    { operation: 'check', path: '', content: '' },
    { signal: AbortSignal.timeout(200) },
  );
  await assert.rejects(async () => step, { name: 'TimeoutError' });
  assert.deepEqual(readdirSync(copies), []);
});

test('unknown operations cost a step; malformed actions and too much text are refused', async (context) => {
  const { act, environment } = await open(project(context));
  assert.match(output(await act('run')), /unknown operation; use one of list, read, write, delete, check/);
  assert.match(output(await act('read', 'nothing.txt')), /no file/);
  await assert.rejects(async () => environment.step({ operation: 'check' }), { code: 'unknown_action' });
  await assert.rejects(act('write', 'a', 'x'.repeat(262_145)), { code: 'unknown_action' });
});
