/** Threads and processes that get no environment start from the compiled code of the process that starts them. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { getCompileCacheDir } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { compiledCode } from '../../src/base/compiled-code.ts';

const FOLDER = "process.getBuiltinModule('node:module').getCompileCacheDir()";
const file = new URL('../../src/base/compiled-code.ts', import.meta.url).href;

test('a thread stores its code where this process does', async () => {
  const thread = new Worker(`process.getBuiltinModule('node:worker_threads').parentPort.postMessage(${FOLDER})`, {
    eval: true,
    execArgv: [],
    env: { ...compiledCode() },
  });
  const exited = once(thread, 'exit');
  const [folder] = await once(thread, 'message');
  assert.ok(folder !== undefined);
  assert.equal(folder, getCompileCacheDir());
  await exited;
});

test('a process passes on the folder that it enabled itself; one that stores nothing passes nothing on', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-compiled-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const passedOn = (before: string): unknown => {
    const code = `${before}; console.log(JSON.stringify((await import('${file}')).compiledCode()))`;
    return JSON.parse(
      execFileSync(process.execPath, ['--input-type=module', '-e', code], { env: {}, encoding: 'utf8' }),
    );
  };
  const enable = `process.getBuiltinModule('node:module').enableCompileCache(${JSON.stringify(folder)})`;
  assert.deepEqual(passedOn(enable), { NODE_COMPILE_CACHE: folder });
  assert.deepEqual(passedOn(''), {});
});
