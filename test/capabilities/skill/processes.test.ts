/** The processes in which skills run: each for one run, some waiting, all ended with the sandbox. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ProcessSandbox } from '../../../src/capabilities/skill/sandbox/process.ts';
import { below, isLauncher, runIn, sandboxesNow } from './sandbox-run.ts';
import { errorOf, skipTier, until } from './support.ts';

for (const tier of ['process', 'bubblewrap'] as const) {
  const sandboxOf = (t: TestContext, warm: number): ProcessSandbox => {
    const sandbox = new ProcessSandbox({
      tier,
      warm,
      memoryBytes: 64 * 1024 ** 2,
      maxMessageChars: 1024 ** 2,
      maxSeconds: 60,
      path: process.env.PATH ?? '',
    });
    t.after(() => sandbox.close());
    return sandbox;
  };

  test(`in ${tier} a process has one run, and another one waits`, {
    timeout: 120_000,
    ...skipTier(tier),
  }, async (t) => {
    const sandbox = sandboxOf(t, 2);
    await sandbox.probe();
    const code = `export default () => {
      const found = [typeof globalThis.mark, Object.prototype.mark ?? null, met.length];
      globalThis.mark = 1; Object.prototype.mark = 1; met.push(1);
      return found;
    };`;
    for (let round = 1; round <= 3; round++) assert.deepEqual(await runIn(sandbox, code), ['undefined', null, 0]);
    // More of them start while runs arrive faster than they do, and not more than that.
    const many = Array.from({ length: 12 }, () => runIn(sandbox, code));
    for (const run of many) assert.deepEqual(await run, ['undefined', null, 0]);
    assert.ok((await sandboxesNow()).length <= 2 + 4);
    await until(async () => (await sandboxesNow()).length === 2);
    // A waiting one is taken, and ends with its run; another one waits in its place.
    const before = await sandboxesNow();
    const stop = new AbortController();
    const running = errorOf(runIn(sandbox, 'export default () => { for (;;); };', stop.signal));
    stop.abort(new Error('over'));
    await running;
    await until(async () => {
      const now = await sandboxesNow();
      return now.length === 2 && now.some((pid) => !before.includes(pid));
    });
    const loops = errorOf(runIn(sandbox, 'export default () => { for (;;); };'));
    await sandbox.close();
    assert.equal((await loops).code, 'sandbox_crash');
    await until(async () => (await below(process.pid)).every((pid) => !isLauncher(pid)));
    assert.deepEqual(await sandboxesNow(), []);
    assert.equal((await errorOf(runIn(sandbox, code))).code, 'sandbox_crash');
  });

  test(`in ${tier} runs end with the process that starts theirs, and the next run has another one`, {
    timeout: 120_000,
    ...skipTier(tier),
  }, async (t) => {
    const sandbox = sandboxOf(t, 1);
    await sandbox.probe();
    const loops = errorOf(runIn(sandbox, 'export default () => { for (;;); };'));
    await until(async () => (await sandboxesNow()).length >= 2);
    const all = await below(process.pid);
    process.kill(all.find(isLauncher) as number, 'SIGKILL');
    assert.equal((await loops).code, 'sandbox_crash');
    assert.equal(await runIn(sandbox, 'export default () => 1;'), 1);
    await until(async () => (await sandboxesNow()).length === 1);
  });
}
