/** The end of a long-lived thing: it ends once, closed by any caller, and everything that waits sees the same reason. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Lifetime } from '../../src/base/lifetime.ts';
import { fail } from '../../src/wire/errors.ts';

test('it is closing while it ends and closed afterwards; closing it again waits for the same end', async () => {
  const lifetime = new Lifetime();
  const ending = Promise.withResolvers<void>();
  let ends = 0;
  const end = (): Promise<void> => {
    ends += 1;
    return ending.promise;
  };
  assert.equal(lifetime.state, 'open');
  const states: string[] = [];
  const closes = [lifetime.close(end), lifetime.close(end)].map((closed) =>
    closed.then(() => states.push(lifetime.state)),
  );
  await new Promise(setImmediate);
  assert.deepEqual([lifetime.state, states], ['closing', []]);
  ending.resolve();
  await Promise.all(closes);
  await lifetime.close(end);
  assert.deepEqual([states, ends], [['closed', 'closed'], 1]);
});

test('every close has the promise of the first, also from within the end', async () => {
  const lifetime = new Lifetime();
  const closes: Promise<void>[] = [];
  const close = (): number =>
    closes.push(
      lifetime.close(async () => {
        if (closes.length < 2) close();
      }),
    );
  close();
  close();
  assert.equal(closes.length, 3, 'the end ran once');
  assert.equal(new Set(closes).size, 1);
  await closes[0];
  assert.equal(lifetime.state, 'closed');
});

test('closed tells why it ended: the error it ended with, nothing when its owner closed it, and the first reason counts', async () => {
  const byOwner = new Lifetime();
  await byOwner.close(async () => {});
  assert.equal(await byOwner.closed, undefined);
  const failed = new Lifetime();
  const error = fail('runtime_error', 'the disk is full');
  await Promise.all([failed.close(async () => {}, error), failed.close(async () => {})]);
  assert.equal(await failed.closed, error);
});

test('it is closed also when its end fails', async () => {
  const lifetime = new Lifetime();
  await assert.rejects(
    lifetime.close(() => Promise.reject(new Error('a bug'))),
    /a bug/,
  );
  assert.equal(lifetime.state, 'closed');
  assert.equal(await lifetime.closed, undefined);
});
