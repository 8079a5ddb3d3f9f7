/** Work on a run counts as under way until all of it has ended, and requests wait for it until they are cancelled. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RunWork } from '../../../src/capabilities/chains/run-work.ts';
import { Runs, type RunsDeps } from '../../../src/capabilities/chains/runs.ts';
import type { CallContext } from '../../../src/host/context.ts';

const none = new Set<string>();

const contextOf = (name: string) => ({ session: { principal: { name } } }) as CallContext;

test('work on a run is under way until the last of it has ended, in any order, and also where it fails', async () => {
  const work = new RunWork();
  const [ada, ben] = [contextOf('ada'), contextOf('ben')];
  const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
  const results = [work.do('r', ada, () => first.promise), work.do('r', ada, () => second.promise)];
  const ended = work.of('r', ada);
  assert.deepEqual(
    [work.count(ada, none), work.count(ben, none), work.of('r', ben), work.of('s', ada)],
    [1, 0, undefined, undefined],
  );
  second.reject(new Error('the second failed'));
  await assert.rejects(results[1] as Promise<string>, /the second failed/);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(work.of('r', ada), ended);
  first.resolve('done');
  assert.equal(await results[0], 'done');
  await ended;
  assert.deepEqual([work.count(ada, none), work.of('r', ada)], [0, undefined]);
});

test('a run that has just started counts as one', async () => {
  const work = new RunWork();
  const ada = contextOf('ada');
  const active = new Set<string>();
  const started = Promise.withResolvers<void>();
  const counts: number[] = [];
  const count = () => counts.push(active.size + work.count(ada, active));
  void work.do('r', ada, async () => {
    await started.promise;
    active.add('r');
  });
  count();
  started.resolve();
  // Every moment from the start to the end of the work.
  for (; work.of('r', ada) !== undefined; await undefined) count();
  count();
  assert.deepEqual(new Set(counts), new Set([1]));
});

test('a request that waits for work on its run ends as soon as it is cancelled, and changes nothing', async () => {
  const runs = new Runs({} as RunsDeps);
  const stop = new AbortController();
  const ada = { ...contextOf('ada'), signal: stop.signal };
  const work = Promise.withResolvers<void>();
  void runs.announced.do('r', ada, () => work.promise);
  const waiting = Promise.allSettled([
    runs.settled('r', ada),
    runs.resume('r', {}, ada),
    runs.retry('r', 'a', {}, ada),
    runs.cancel('r', '', ada),
    runs.deliver('r', 'event', null, ada),
  ]);
  stop.abort('cancelled');
  assert.deepEqual(
    await waiting,
    Array.from({ length: 5 }, () => ({ status: 'rejected', reason: 'cancelled' })),
  );
  work.resolve();
});
