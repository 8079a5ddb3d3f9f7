/** The processes that skills run in: each for one run, some waiting, all ended with the sandbox. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ProcessSandbox } from '../../../src/capabilities/skill/sandbox/process.ts';
import { processesOf, runIn } from './sandbox-run.ts';
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
    const processes = processesOf(t);
    const code = `export default () => {
      const found = [typeof globalThis.mark, Object.prototype.mark ?? null, met.length];
      globalThis.mark = 1; Object.prototype.mark = 1; met.push(1);
      return found;
    };`;
    for (let round = 1; round <= 3; round++) {
      assert.deepEqual(await runIn(sandbox, code), ['undefined', null, 0]);
      // It is replaced; the two that waited at the beginning were started before.
      await until(() => processes.all.length === round);
    }
    const many = Array.from({ length: 4 }, () => runIn(sandbox, code));
    for (const run of many) assert.deepEqual(await run, ['undefined', null, 0]);
    await until(() => processes.live().length <= 2);
    // One of those that wait is taken, and ends with its run.
    const stop = new AbortController();
    const running = errorOf(runIn(sandbox, 'export default () => { for (;;); };', stop.signal));
    stop.abort(new Error('over'));
    await running;
    await until(() => processes.live().length === 2);
    const loops = errorOf(runIn(sandbox, 'export default () => { for (;;); };'));
    await sandbox.close();
    assert.equal((await loops).code, 'sandbox_crash');
    await until(() => processes.live().length === 0);
    assert.equal((await errorOf(runIn(sandbox, code))).code, 'sandbox_crash');
  });
}
