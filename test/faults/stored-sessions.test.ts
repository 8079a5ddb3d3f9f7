/**
 * Sessions that outlive their host: `handfast up` with a journal on disk is killed or stopped, started again, and a
 * real agent resumes over every transport. Stored entries arrive once, lost ones are one gap, and requests that ran are
 * reported as such.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type CallEvent, connect } from '../../src/index.ts';
import { serve } from '../../src/serve.ts';
import { failureOf, storedHost, until, WRITTEN_MS } from './support/stored-host.ts';

describe('a session outlives its host', () => {
  for (const transport of ['tcp', 'http', 'webSocket']) {
    test(`that was killed, over ${transport}: calls end with what is known of them, and the session continues`, async (t) => {
      const here = await storedHost(t);
      const host = await here.up();
      const states: string[] = [];
      await using agent = await here.agent(here.addresses()[transport] as string, states);
      const id = agent.sessionId;
      const seen: CallEvent[] = [];
      const onEvent = (event: CallEvent): void => void seen.push(event);
      assert.equal((await agent.tools.call<{ n: number }>('echo', { n: 1 })).data?.n, 1);
      const acts = failureOf(agent.tools.call('acts', { n: 2 }, { onEvent }));
      const looks = failureOf(agent.tools.call('looks', { n: 3 }, { onEvent }));
      await until(() => seen.length === 2, 'both run');
      await delay(WRITTEN_MS);
      await here.kill(host);
      // Made while the host is known to be away: it waits. One that was already on its way may have run.
      await until(() => states.includes('lost'), 'the loss is noticed');
      const later = agent.tools.call<{ n: number }>('echo', { n: 4 });
      await here.up();
      const [acted, looked] = [await acts, await looks];
      assert.deepEqual(
        [acted.code, acted.retryable, acted.detail.may_have_run],
        ['interrupted', false, true],
        acted.message,
      );
      assert.deepEqual([looked.code, looked.retryable, looked.detail.may_have_run], ['interrupted', true, undefined]);
      assert.equal((await later).data?.n, 4);
      assert.equal(agent.sessionId, id);
      assert.deepEqual(
        states.filter((state) => state === 'resumed'),
        ['resumed'],
      );
      assert.equal(seen.length, 2, 'no event came twice');
      assert.equal((await agent.tools.call<{ n: number }>('echo', { n: 5 })).data?.n, 5);
    });
  }

  test('what had not been written is one gap, and its calls may have run', async (t) => {
    const here = await storedHost(t);
    const host = await here.up();
    const gaps: { from: number; to: number }[] = [];
    await using agent = await connect(here.addresses().tcp as string, {
      capabilities: ['tools'],
      token: 'token-of-ann-in-this-test',
      onGap: (gap) => void gaps.push(gap),
    });
    await agent.tools.call<{ n: number }>('echo', { n: 1 });
    await delay(WRITTEN_MS);
    const id = agent.sessionId;
    const running = Array.from({ length: 3 }, (_, n) => agent.tools.call('acts', { n }));
    const failures = Promise.all(running.map(failureOf));
    await agent.ping();
    await here.kill(host);
    await here.up();
    for (const error of await failures) {
      // Milliseconds decide whether the last entries were written in time; the repeatable calls are fixed.
      assert.ok(['interrupted', 'reply_lost'].includes(error.code), error.code);
      assert.deepEqual([error.retryable, error.detail.may_have_run], [false, true]);
    }
    assert.equal(agent.sessionId, id);
    assert.equal(gaps.length, 1);
    assert.equal((await agent.tools.call<{ n: number }>('echo', { n: 2 })).data?.n, 2);
    assert.equal(gaps.length, 1);
  });

  test('that stopped in order, and again: nothing is lost, and there is no gap', async (t) => {
    const here = await storedHost(t);
    let host = await here.up();
    const gaps: unknown[] = [];
    await using agent = await connect(here.addresses().http as string, {
      capabilities: ['tools'],
      token: 'token-of-ann-in-this-test',
      onGap: (gap) => void gaps.push(gap),
    });
    const id = agent.sessionId;
    for (let n = 0; n < 2; n++) {
      await agent.tools.call<{ n: number }>('echo', { n });
      host.child.kill('SIGTERM');
      assert.equal((await host.ended()).code, 0);
      host = await here.up();
      assert.equal((await agent.tools.call<{ n: number }>('echo', { n: 9 })).data?.n, 9);
      assert.equal(agent.sessionId, id);
    }
    assert.deepEqual(gaps, []);
  });
});

test('with durable: replies a host killed at once has every reply that left it', async (t) => {
  const here = await storedHost(t);
  here.configure(60_000, ', durable: replies');
  const host = await here.up();
  const agent = await here.agent(here.addresses().tcp as string);
  const id = agent.sessionId;
  await Promise.all(Array.from({ length: 20 }, (_, n) => agent.tools.call('echo', { n })));
  await here.kill(host);
  await agent.close();
  await here.up();
  const kinds = (await here.tail(id)).map((line) => JSON.parse(line).kind);
  assert.equal(kinds.filter((kind) => kind === 'reply').length, 20);
});

describe('a stored session', () => {
  test('is resumed by its own principal alone', async (t) => {
    const here = await storedHost(t);
    const id = await here.leftBehind();
    await here.up();
    const stranger = await here.resume(id, 'bob');
    assert.notEqual(stranger.session_id, id);
    assert.equal(stranger.extensions['handfast/resume'].resumed, undefined);
    const owner = await here.resume(id);
    assert.equal(owner.session_id, id);
    const { resumed, restarts, running } = owner.extensions['handfast/resume'];
    assert.deepEqual({ resumed, restarts, running }, { resumed: true, restarts: 1, running: [] });
  });

  test('ends with its window, over any number of restarts, and is not taken up again', async (t) => {
    const here = await storedHost(t);
    const id = await here.leftBehind();
    here.configure(3_000);
    const host = await here.up();
    await delay(WRITTEN_MS);
    await here.kill(host);
    // The window began when the first of these hosts was there.
    await delay(3_000);
    await here.up();
    assert.notEqual((await here.resume(id)).session_id, id);
    const env = { HANDFAST_TOKEN: 'token-of-ann-in-this-test' };
    assert.match((await here.user.run(['tail', id], { env })).stdout, /#2 reply/);
  });

  test('is taken up by serve() as well', async (t) => {
    const here = await storedHost(t);
    const id = await here.leftBehind();
    const home = process.env.HANDFAST_HOME;
    process.env.HANDFAST_HOME = here.user.home;
    t.after(() => {
      if (home === undefined) delete process.env.HANDFAST_HOME;
      else process.env.HANDFAST_HOME = home;
    });
    const server = await serve(`${here.user.cwd}/handfast.yaml`, { announce: false });
    try {
      assert.equal((await here.resume(id)).session_id, id);
    } finally {
      await server.close(0);
    }
  });
});
