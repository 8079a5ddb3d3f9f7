/** The threads in which skills run: reused with a new interpreter for each run, replaced, bounded, and ended. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { QuickJs } from '../../../src/capabilities/skill/sandbox/quickjs.ts';
import { runIn, threadsOf } from './sandbox-run.ts';
import { agentOf, errorOf, skillHost, until, writeSkill } from './support.ts';

function quickJs(t: TestContext, warm = 1): QuickJs {
  const sandbox = new QuickJs({ memoryBytes: 64 * 1024 ** 2, warm, maxMessageChars: 1024 ** 2 });
  t.after(() => sandbox.close());
  return sandbox;
}

test('runs of one thread have nothing of each other', { timeout: 120_000 }, async (t) => {
  const threads = threadsOf(t);
  const sandbox = quickJs(t);
  const marks = `[typeof globalThis.mark, Object.prototype.mark, [].push === undefined, met.length, typeof console.mark, String(JSON.parse('1'))]`;
  const untouched = ['undefined', null, false, 0, 'undefined', '1'];
  for (let round = 0; round < 10; round++) {
    const found = await runIn(
      sandbox,
      `export default async (_, skill) => {
        const found = ${marks};
        globalThis.mark = 1; Object.prototype.mark = 1; met.push(1); console.mark = 1; skill.mark = 1;
        JSON.parse = () => 2; JSON.stringify = () => '2'; Promise.prototype.then = () => {}; Array.prototype.push = undefined;
        globalThis.Promise = undefined; Object.freeze(globalThis);
        return found;
      };`,
    );
    assert.deepEqual(found, untouched);
  }
  // Used up to its limit, and left full: the next run has all of it again.
  const fill = `const all = []; for (let at = 0; at < 40; at++) all.push(new Uint8Array(1e6).fill(7)); globalThis.all = all;`;
  for (let round = 0; round < 3; round++) {
    const found = await runIn(
      sandbox,
      `export default () => { const fresh = new Uint8Array(1e6).some((each) => each !== 0); ${fill} return fresh; };`,
    );
    assert.equal(found, false);
  }
  assert.equal(threads.all.length, 1);
});

test('a thread whose run is ended is replaced, and no run meets it', { timeout: 120_000 }, async (t) => {
  const threads = threadsOf(t);
  const sandbox = quickJs(t);
  assert.equal(await runIn(sandbox, 'export default () => 1;'), 1);
  for (let round = 1; round <= 3; round++) {
    const stop = new AbortController();
    const running = errorOf(runIn(sandbox, 'export default () => { for (;;); };', stop.signal));
    stop.abort(new Error('over'));
    await running;
    await until(() => threads.all.length === round + 1 && threads.live().length === 1);
    assert.equal(await runIn(sandbox, 'export default () => 2;'), 2);
  }
});

test('what code does behind its result neither counts nor stays', { timeout: 120_000 }, async (t) => {
  const threads = threadsOf(t);
  const sandbox = quickJs(t);
  const host = await skillHost(t, { skill: { sandbox } });
  const later = (body: string): string =>
    `export default () => { const more = (n) => Promise.resolve().then(() => { if (n > 0) more(n - 1); else ${body} }); more(20); return 1; };`;
  writeSkill(host.root, 'loops', { code: later('for (;;);') });
  writeSkill(host.root, 'throws', { code: later('throw new Error("late");') });
  writeSkill(host.root, 'native', { code: later(`for (;;) new Array(2e8) + '';`) });
  writeSkill(host.root, 'good', { code: 'export default () => 2;' });
  const agent = await agentOf(t, host);
  for (const name of ['loops', 'throws', 'native']) {
    assert.equal((await agent.skill.call(name)).data, 1, name);
    assert.equal((await agent.skill.call('good')).data, 2, `after ${name}`);
  }
  // Nothing of them retains a thread: the waiting one is left.
  await until(() => threads.live().length === 1);
});

test('threads that many runs at once leave end, and all end with the sandbox', { timeout: 120_000 }, async (t) => {
  const threads = threadsOf(t);
  const sandbox = quickJs(t);
  const code = 'export default async () => { for (let at = 0; at < 1e5; at++); return 1; };';
  assert.deepEqual(await Promise.all(Array.from({ length: 4 }, () => runIn(sandbox, code))), [1, 1, 1, 1]);
  assert.equal(threads.all.length, 4);
  await until(() => threads.live().length === 1);
  // One waits, one runs.
  const waits = errorOf(runIn(sandbox, `export default (_, skill) => skill.tool('x');`));
  const loops = errorOf(runIn(sandbox, 'export default () => { for (;;); };'));
  await sandbox.close();
  assert.equal((await waits).code, 'sandbox_crash');
  assert.equal((await loops).code, 'sandbox_crash');
  await until(() => threads.live().length === 0);
  assert.equal((await errorOf(runIn(sandbox, code))).code, 'sandbox_crash');
  assert.equal(threads.live().length, 0);
});

test('a run that waits for its thread to start ends with its signal', { timeout: 120_000 }, async (t) => {
  const threads = threadsOf(t);
  const sandbox = quickJs(t, 0);
  const stop = new AbortController();
  const early = errorOf(runIn(sandbox, 'export default () => 1;', stop.signal));
  stop.abort(new Error('not needed'));
  await early;
  await errorOf(runIn(sandbox, 'export default () => 1;', stop.signal));
  await until(() => threads.live().length === 0);
});

test('runs beyond the threads of the host wait for one, as long as their deadline and their caller', {
  timeout: 120_000,
}, async (t) => {
  const threads = threadsOf(t);
  const site = await skillHost(t, { limits: { maxThreads: 1, maxThreadsPerPrincipal: 1 }, skill: { maxRuns: 3 } });
  writeSkill(site.root, 'slowly', {
    front: 'allowed-tools: slow',
    code: `export default (_, skill) => skill.tool('slow');`,
  });
  writeSkill(site.root, 'good', { code: 'export default () => 1;' });
  const agent = await agentOf(t, site);
  assert.equal((await agent.skill.call('good')).data, 1);
  const stop = new AbortController();
  const first = errorOf(agent.skill.call('slowly', {}, { signal: stop.signal }));
  await until(() => site.called.includes('slow'));
  assert.equal((await errorOf(agent.skill.call('good', {}, { timeoutMs: 300 }))).code, 'timeout');
  const cancel = new AbortController();
  const second = errorOf(agent.skill.call('good', {}, { signal: cancel.signal }));
  cancel.abort();
  assert.equal((await second).code, 'cancelled');
  // Waiting ones count, too.
  const outcomes: unknown[] = [];
  const calls = Array.from({ length: 3 }, () =>
    agent.skill.call('good').then(
      ({ data }) => outcomes.push(data),
      ({ code, detail }) => outcomes.push([code, detail.limit]),
    ),
  );
  await until(() => outcomes.length === 1);
  assert.deepEqual(outcomes, [['over_capacity', 3]]);
  stop.abort();
  assert.equal((await first).code, 'cancelled');
  await Promise.all(calls);
  assert.deepEqual(outcomes.slice(1), [1, 1]);
  // The replacement of the ended one.
  await until(() => threads.live().length === 1);
  await site.host.close(0);
  await until(() => threads.live().length === 0);
});
