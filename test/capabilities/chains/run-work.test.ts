/** Work on a run counts as under way until all of it has ended. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RunWork } from '../../../src/capabilities/chains/run-work.ts';
import type { CallContext } from '../../../src/host/context.ts';

const contextOf = (name: string) => ({ session: { principal: { name } } }) as CallContext;

test('work on a run is under way until the last of it has ended, in any order, and also where it fails', async () => {
  const work = new RunWork();
  const [ada, ben] = [contextOf('ada'), contextOf('ben')];
  const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
  const results = [work.do('r', ada, () => first.promise), work.do('r', ada, () => second.promise)];
  const ended = work.of('r', ada);
  assert.deepEqual(
    [work.count(ada), work.count(ben), work.of('r', ben), work.of('s', ada)],
    [1, 0, undefined, undefined],
  );
  second.reject(new Error('the second failed'));
  await assert.rejects(results[1] as Promise<string>, /the second failed/);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(work.of('r', ada), ended);
  first.resolve('done');
  assert.equal(await results[0], 'done');
  await ended;
  assert.deepEqual([work.count(ada), work.of('r', ada)], [0, undefined]);
});
