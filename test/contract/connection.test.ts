/**
 * Checks the connection's contract, on every dialect and over three kinds of link: rules that a specification changes,
 * or lacks, are in `dialects.ts`, and nothing else may differ. Sister of `transport.test.ts`.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CallEvent } from '../../src/connection/call.ts';
import type { ConnectionLimits } from '../../src/connection/connection.ts';
import { fail, type HandfastError } from '../../src/wire/errors.ts';
import { dialects } from './dialects.ts';
import { turns, within } from './recorder.ts';
import { connected, type Feature, type Side } from './side.ts';
import { type LinkPair, transports } from './transports.ts';

const kinds = transports.filter(({ name }) => ['memory', 'tcp', 'websocket'].includes(name));
/** Fills buffers. */
const PAD = 'x'.repeat(16 * 1024);
/** Problems that no message by reference can have. */
const ONLY_IN_TEXT = new Set(['E_NOT_JSON', 'E_NOT_OBJECT', 'E_DUP_KEY']);
const code = (error: unknown): string => (error as HandfastError).code;

for (const dialect of dialects) {
  for (const transport of kinds) {
    describe(`the connection, ${dialect.name} over ${transport.name}`, () => {
      /** Registers a test where the dialect has the feature that it is about. */
      const testOf = (feature: Feature, name: string, run: () => Promise<void>): void => {
        if (dialect.lacks[feature] === undefined) test(name, run);
      };

      /** Runs with two sides over a fresh pair of links; `far` has the limits. */
      const withSides = async (
        run: (near: Side, far: Side, links: LinkPair) => Promise<void>,
        limits: Partial<ConnectionLimits> = {},
        nearLimits: Partial<ConnectionLimits> = {},
      ): Promise<void> => {
        const links = await transport.pair();
        const near = dialect.side({ limits: nearLimits });
        const far = dialect.side({ limits });
        connected(near, far, links);
        try {
          await run(near, far, links);
        } finally {
          await links.dispose();
        }
      };

      test('a request gets one reply: its result', () =>
        withSides(async (near, far) => {
          far.serve('echo', (body) => body);
          far.serve('later', async (body) => body);
          assert.deepEqual(await near.call('echo', { n: 1, text: 'ü \u2028 "' }), { n: 1, text: 'ü \u2028 "' });
          assert.deepEqual(await near.call('later', { n: 2 }), { n: 2 });
          assert.deepEqual([near.connection.calls().size, far.connection.busy], [0, 0]);
        }));

      testOf('requests', 'a request that fails gets one reply: its error with code, message and detail', () =>
        withSides(async (near, far) => {
          far.serve('fails', () => {
            throw fail('not_found', 'gone', { at: 7 });
          });
          far.serve('breaks', () => Promise.reject(new Error('a bug')));
          await assert.rejects(near.call('fails'), (error: HandfastError) => {
            assert.deepEqual([error.code, error.message, error.detail.at], ['not_found', 'gone', 7]);
            return true;
          });
          await assert.rejects(near.call('breaks'), { code: 'runtime_error' });
          assert.equal(far.connection.busy, 0);
        }),
      );

      test('requests are served and replied to in the order in which they were made', () =>
        withSides(
          async (near, far) => {
            const served: unknown[] = [];
            far.serve('count', ({ n }) => {
              served.push(n);
              return { n };
            });
            const replied: unknown[] = [];
            const unlimited = { maxParallel: 5_000, queueLimit: 0, timeoutMs: 0 };
            const calls = Array.from({ length: 2_000 }, (_, n) =>
              near.call('count', { n }, {}, unlimited).then((reply) => replied.push((reply as { n: number }).n)),
            );
            await within(Promise.all(calls), 'the replies');
            const inOrder = Array.from({ length: 2_000 }, (_, n) => n);
            assert.deepEqual(served, inOrder);
            assert.deepEqual(replied, inOrder);
          },
          { maxParallel: 1, queueLimit: 0 },
        ));

      test('requests go in both directions at once, also from within each other, and replies need no capacity', () =>
        withSides(
          async (near, far) => {
            near.serve('down', async ({ depth }) => {
              if (depth === 0) return { reached: 'near' };
              return near.call('up', { depth: (depth as number) - 1 });
            });
            far.serve('up', async ({ depth }) => far.call('down', { depth }));
            far.serve('ask', async () => ({ answer: await far.call('name') }));
            near.serve('name', () => ({ name: 'near' }));
            assert.deepEqual(await near.call('ask'), { answer: { name: 'near' } });
            assert.deepEqual(await within(far.call('down', { depth: 3 }), 'the nested calls'), { reached: 'near' });
          },
          { maxParallel: 8 },
          { maxParallel: 8 },
        ));

      testOf(
        'requests',
        'the concurrency limit runs so many, queues so many in order, and refuses the rest with over_capacity',
        () =>
          withSides(
            async (near, far) => {
              const held = far.serveHeld('hold');
              const unlimited = { maxParallel: 10, queueLimit: 0, timeoutMs: 0 };
              const calls = ['a', 'b', 'c', 'd', 'e'].map((name) => near.call('hold', { name }, {}, unlimited));
              await assert.rejects(calls[4] as Promise<unknown>, (error: HandfastError) => {
                assert.deepEqual([error.code, error.detail.retry_after_ms], ['over_capacity', 100]);
                return true;
              });
              assert.deepEqual(held.started, ['a', 'b']);
              assert.deepEqual([far.connection.requests.running, far.connection.requests.waiting], [2, 2]);
              held.release('b');
              await calls[1];
              await far.until(() => held.started.length === 3, 'the next one');
              assert.deepEqual(held.started, ['a', 'b', 'c']);
              for (const name of ['a', 'c']) held.release(name);
              await Promise.all([calls[0], calls[2]]);
              await far.until(() => held.started.length === 4, 'the last one');
              held.release('d');
              assert.deepEqual(await calls[3], { name: 'd' });
              assert.equal(far.connection.busy, 0);
            },
            { maxParallel: 2, queueLimit: 2 },
          ),
      );

      testOf('requests', 'an exempt request runs although the limit is reached, up to as many again', () =>
        withSides(
          async (near, far) => {
            const held = far.serveHeld('hold');
            far.serve('look', (_body, request) => held.run('look', request), true);
            const unlimited = { maxParallel: 10, queueLimit: 0, timeoutMs: 0 };
            const first = near.call('hold', { name: 'a' }, {}, unlimited);
            const exempt = near.call('look');
            await far.until(() => held.started.length === 2, 'both to run');
            await assert.rejects(near.call('hold', { name: 'b' }), { code: 'over_capacity' });
            await assert.rejects(near.call('look'), { code: 'over_capacity' });
            held.release('look');
            held.release('a');
            await Promise.all([first, exempt]);
            assert.deepEqual(held.started, ['a', 'look']);
          },
          { maxParallel: 1, queueLimit: 0 },
        ),
      );

      test("the caller's own limit keeps calls back in order; past its queue a call fails and is not sent", () =>
        withSides(async (near, far) => {
          const held = far.serveHeld('hold');
          const own = { maxParallel: 1, queueLimit: 2, timeoutMs: 0 };
          const calls = ['a', 'b', 'c'].map((name) => near.call('hold', { name }, {}, own));
          await assert.rejects(near.call('hold', { name: 'd' }), { code: 'over_capacity' });
          await far.until(() => held.started.length === 1, 'the first one');
          await turns();
          assert.deepEqual(held.started, ['a']);
          for (const [at, name] of ['a', 'b', 'c'].entries()) {
            await far.until(() => held.started.length === at + 1, `${name} to start`);
            held.release(name);
            assert.deepEqual(await calls[at], { name });
          }
          assert.deepEqual(held.started, ['a', 'b', 'c']);
        }));

      test("a caller's time limit rejects the call; the late reply is dropped", () =>
        withSides(async (near, far) => {
          const held = far.serveHeld('hold');
          await assert.rejects(near.call('hold', { name: 'a' }, { timeoutMs: 40 }), { code: 'timeout' });
          await far.until(() => held.started.length === 1, 'the work to start');
          held.release('a');
          far.serve('echo', (body) => body);
          assert.deepEqual(await near.call('echo', { n: 1 }), { n: 1 });
          assert.equal(near.connection.calls().size, 0);
        }));

      testOf('cancel', "a caller's time limit stops the work; the late reply is dropped", () =>
        withSides(async (near, far) => {
          const held = far.serveHeld('hold');
          await assert.rejects(near.call('hold', { name: 'a' }, { timeoutMs: 40 }), { code: 'timeout' });
          await far.until(() => held.stopped.length === 1, 'the work to be aborted');
          assert.deepEqual(held.stopped, ['a:cancelled']);
          assert.equal(far.stillRunning, 1);
          held.release('a');
          far.serve('echo', (body) => body);
          assert.deepEqual(await near.call('echo', { n: 1 }), { n: 1 });
          assert.equal(far.stillRunning, 0);
        }),
      );

      testOf(
        'requests',
        'a deadline of the server gives the request its one reply, also while it waits in the queue',
        () =>
          withSides(
            async (near, far) => {
              const held = far.serveHeld('hold');
              far.serve('limited', (_body, request) => {
                request.limit(40);
                return held.run('limited', request);
              });
              const late = near.call('limited');
              await assert.rejects(late, { code: 'timeout' });
              assert.deepEqual(held.stopped, ['limited:timeout']);
              // The request no longer counts, although its handler still runs.
              const next = near.call('hold', { name: 'next' });
              await far.until(() => held.started.includes('next'), 'the next one to start');
              held.release('limited');
              held.release('next');
              assert.deepEqual(await next, { name: 'next' });
              await far.until(() => far.stillRunning === 0, 'the abandoned handler to be counted out');
            },
            { maxParallel: 1, queueLimit: 1 },
          ),
      );

      testOf('cancel', 'a cancel before the work starts, while it runs, and after its reply', () =>
        withSides(
          async (near, far) => {
            const held = far.serveHeld('hold');
            const own = { maxParallel: 10, queueLimit: 0, timeoutMs: 0 };
            const running = near.call('hold', { name: 'running' }, {}, own);
            const queued = near.call('hold', { name: 'queued' });
            await far.until(() => far.connection.busy === 2, 'both to be there');
            queued.cancel();
            await assert.rejects(queued, { code: 'cancelled' });
            await far.until(() => far.connection.busy === 1, 'the queued one to be withdrawn');
            running.cancel();
            await assert.rejects(running, { code: 'cancelled' });
            await far.until(() => far.connection.busy === 0, 'the running one to be withdrawn');
            assert.deepEqual([held.started, held.stopped], [['running'], ['running:cancelled']]);
            held.release('running');
            far.serve('echo', (body) => body);
            const done = near.call('echo', { n: 1 });
            assert.deepEqual(await done, { n: 1 });
            const { dropped } = near.connection;
            done.cancel();
            assert.deepEqual(await near.call('echo', { n: 2 }), { n: 2 });
            assert.deepEqual([near.connection.dropped, held.stopped.length], [dropped, 1], 'nothing follows a reply');
          },
          { maxParallel: 1, queueLimit: 4 },
        ),
      );

      testOf('cancel', 'an aborted signal stops the work', () =>
        withSides(async (near, far) => {
          const held = far.serveHeld('hold');
          const control = new AbortController();
          const call = near.call('hold', { name: 'a' }, { signal: control.signal });
          await far.until(() => held.started.length === 1, 'the work to start');
          control.abort();
          await assert.rejects(call, { code: 'cancelled' });
          await far.until(() => held.stopped.length === 1, 'the work to be aborted');
        }),
      );

      test('an aborted signal cancels the call; one that was aborted before sends nothing', () =>
        withSides(async (near, far) => {
          const held = far.serveHeld('hold');
          const control = new AbortController();
          const call = near.call('hold', { name: 'a' }, { signal: control.signal });
          await far.until(() => held.started.length === 1, 'the work to start');
          control.abort();
          await assert.rejects(call, { code: 'cancelled' });
          await assert.rejects(near.call('hold', { name: 'b' }, { signal: control.signal }), { code: 'cancelled' });
          far.serve('echo', (body) => body);
          await near.call('echo');
          assert.deepEqual(held.started, ['a']);
        }));

      testOf(
        'requests',
        'with a grace, a cancelled request replies for itself, and one that does not gets its error and keeps its slot',
        () =>
          withSides(
            async (near, far) => {
              const held = far.serveHeld('hold');
              const { requests } = far.connection;
              const polite = near.call('hold', { name: 'polite' });
              await far.until(() => held.started.length === 1, 'the work to start');
              requests.interrupt(fail('interrupted', 'stop'));
              held.release('polite');
              assert.deepEqual(await polite, { name: 'polite' });
              const deaf = near.call('hold', { name: 'deaf' });
              await far.until(() => held.started.length === 2, 'the work to start');
              requests.interrupt(fail('interrupted', 'stop'));
              await assert.rejects(deaf, { code: 'interrupted' });
              assert.deepEqual(held.stopped, ['polite:interrupted', 'deaf:interrupted']);
              await assert.rejects(near.call('hold', { name: 'more' }), { code: 'over_capacity' });
              held.release('deaf');
              await far.until(() => requests.running === 0, 'the slot to be free');
            },
            { maxParallel: 1, queueLimit: 0, settleMs: 40 },
          ),
      );

      testOf('requests', 'events are numbered from 0, in order, and all of them come before the reply', () =>
        withSides(async (near, far) => {
          far.serve('flood', async ({ count }, request) => {
            for (let at = 0; at < (count as number); at++) await request.emit('log', { at });
            return { count };
          });
          const seen: number[] = [];
          const onEvent = (event: CallEvent): unknown => seen.push(event.seq, event.data.at as number);
          const reply = await near.call('flood', { count: 300 }, { onEvent });
          assert.deepEqual(reply, { count: 300 });
          const events =
            dialect.lacks['events of requests'] === undefined
              ? seen
              : near.notices.flatMap(({ body }) => {
                  const { seq, payload } = body as { seq: number; payload: { at: number } };
                  return [seq, payload.at];
                });
          assert.deepEqual(events, Array.from({ length: 300 }, (_, at) => [at, at]).flat());
        }),
      );

      testOf(
        'events of requests',
        'a stream outlives its request until its handler ends it, its caller cancels it, or the connection ends',
        () =>
          withSides(
            async (near, far) => {
              const streams: { emit: (at: number) => void; end: () => void; signal: AbortSignal }[] = [];
              far.serve('follow', (_body, request) => {
                request.keepStream();
                streams.push({
                  emit: (at) => void request.emit('log', { at }),
                  end: () => request.endStream(),
                  signal: request.signal,
                });
                return { following: true };
              });
              far.serve('echo', (body) => body);
              const follow = async (): Promise<{ ats: number[]; call: ReturnType<Side['call']> }> => {
                const ats: number[] = [];
                const onEvent = ({ data }: CallEvent): unknown => ats.push(data.at as number);
                const call = near.call('follow', {}, { onEvent, keepStream: true });
                assert.deepEqual(await call, { following: true });
                return { ats, call };
              };
              const ended = await follow();
              streams[0]?.emit(1);
              streams[0]?.end();
              streams[0]?.emit(2);
              const cancelled = await follow();
              streams[1]?.emit(3);
              await near.until(() => cancelled.ats.length === 1, 'the event behind the reply');
              cancelled.call.cancel();
              await far.until(() => streams[1]?.signal.aborted === true, 'the stream to end');
              assert.deepEqual([ended.ats, cancelled.ats], [[1], [3]]);
              await follow();
              await follow();
              await assert.rejects(near.call('follow', {}, { keepStream: true }), { code: 'over_capacity' });
              far.connection.settle(() => fail('interrupted', 'the end'));
              assert.deepEqual(
                streams.map(({ signal }) => signal.aborted && code(signal.reason)),
                [false, 'cancelled', 'interrupted', 'interrupted'],
              );
            },
            { maxStreams: 2 },
          ),
      );

      test('notices arrive in order, both ways, and belong to no request', () =>
        withSides(async (near, far) => {
          for (let n = 0; n < 500; n++) {
            near.notify('tick', { n });
            far.notify('tock', { n });
          }
          await near.until(() => near.notices.length === 500, 'the notices at one end');
          await far.until(() => far.notices.length === 500, 'the notices at the other');
          for (const { notices } of [near, far]) {
            assert.ok(notices.every(({ body }, at) => (body as { n: number }).n === at));
          }
          assert.equal(far.notices[0]?.type, dialect.notice('tick'));
        }));

      test('past the inbox limit the link is not read from, until half of the notices are handled', () =>
        withSides(
          async (near, far) => {
            const hold = Promise.withResolvers<void>();
            far.holdNotices = hold.promise;
            for (let n = 0; n < 5; n++) near.notify('tick', { n });
            await far.until(() => far.notices.length === 5, 'the notices');
            assert.equal(far.connection.reading, false);
            far.holdNotices = undefined;
            hold.resolve();
            await far.until(() => far.connection.reading, 'the link to be read again');
            near.notify('tick', { n: 5 });
            await far.until(() => far.notices.length === 6, 'the notice behind');
          },
          { inboxLimit: 4 },
        ));

      testOf(
        'requests',
        'a handler that awaits its events waits for a reader that does not read, and continues when it does',
        () =>
          withSides(async (near, far, links) => {
            let emitted = 0;
            let enough = false;
            far.serve('flood', async (_body, request) => {
              for (; !enough; emitted++) await request.emit('log', { pad: PAD });
              return { emitted };
            });
            links.client.pause(true);
            const call = near.call('flood', {}, { streaming: true, timeoutMs: 0 });
            // The buffers of the system take some first.
            let before = -1;
            await far.until(() => {
              const stands = far.connection.congested && emitted === before;
              before = emitted;
              return stands;
            }, 'the handler to wait');
            enough = true;
            links.client.pause(false);
            const reply = await within(call, 'the reply');
            assert.deepEqual(reply, { emitted });
          }),
      );

      testOf(
        'requests',
        'while a reader is behind, progress is replaced by the newest, which still comes before the reply',
        () =>
          withSides(async (near, far, links) => {
            let emitted = 0;
            far.serve('work', async (_body, request) => {
              while (!far.connection.congested) {
                void request.emit('log', { pad: PAD });
                if (++emitted % 16 === 0) await turns(1);
              }
              for (let pct = 1; pct <= 100; pct++) void request.emit('progress', { pct });
              return { emitted };
            });
            links.client.pause(true);
            const seen: unknown[] = [];
            const onEvent = ({ kind, data }: CallEvent): unknown => kind === 'progress' && seen.push(data.pct);
            const call = near.call('work', {}, { onEvent, timeoutMs: 0 });
            await far.until(() => emitted > 0 && far.connection.busy === 0, 'the reply to be sent');
            links.client.pause(false);
            assert.deepEqual(await within(call, 'the reply'), { emitted });
            for (const { body } of near.notices) {
              const { type, payload } = body as { type: string; payload: { pct: number } };
              if (type === 'progress') seen.push(payload.pct);
            }
            assert.deepEqual(seen, [100]);
          }),
      );

      testOf('requests', 'a handler that does not wait for its reader fails with slow_consumer', () =>
        withSides(
          async (near, far) => {
            far.serve('flood', (_body, request) => {
              for (let n = 0; n < 2_000; n++) void request.emit('log', { pad: PAD });
              return {};
            });
            await assert.rejects(near.call('flood', {}, { streaming: true }), { code: 'slow_consumer' });
          },
          { sendBufferBytes: 64 * 1024 },
        ),
      );

      test('a reader that stays behind is dropped as slow_consumer', () =>
        withSides(
          async (_near, far, links) => {
            links.client.pause(true);
            while (far.losses.length === 0) {
              // Notices wait for nothing: the buffers of the system and of the link stay full.
              for (let n = 0; n < 64 && links.server.buffered <= 1024 * 1024; n++) {
                far.notify('tick', { pad: PAD });
              }
              await turns(1);
            }
            assert.equal(far.losses[0]?.reason, 'slow_consumer');
          },
          { sendBufferBytes: 512 * 1024, maxSendBufferBytes: Number.POSITIVE_INFINITY, slowConsumerMs: 60 },
        ));

      test('a peer that does not read is not read from, until it has caught up', () =>
        withSides(
          async (near, far, links) => {
            let served = 0;
            far.serve('count', () => ({ served: ++served }));
            links.client.pause(true);
            await far.until(() => {
              for (let n = 0; n < 64 && far.connection.reading; n++) {
                far.notify('tick', { pad: PAD });
              }
              return !far.connection.reading;
            }, 'the reader to be behind');
            const call = near.call('count', {}, { timeoutMs: 0 });
            await turns(20);
            assert.equal(served, 0);
            links.client.pause(false);
            assert.deepEqual(await within(call, 'the reply'), { served: 1 });
            assert.equal(far.connection.reading, true);
            assert.deepEqual(far.losses, []);
          },
          { sendBufferBytes: 512 * 1024, maxSendBufferBytes: Number.POSITIVE_INFINITY },
        ));

      test('a pile of notices drops the link at once', () =>
        withSides(
          async (_near, far) => {
            for (let n = 0; n < 10_000 && far.losses.length === 0; n++) {
              far.notify('tick', { pad: PAD });
            }
            await far.until(() => far.losses.length === 1, 'the link to be dropped');
            assert.equal(far.losses[0]?.reason, 'slow_consumer');
          },
          { sendBufferBytes: 64 * 1024, maxSendBufferBytes: 256 * 1024 },
        ));

      for (const which of ['near', 'far'] as const) {
        test(`a link that is closed by its ${which} end settles every call on both sides`, () =>
          withSides(async (near, far, links) => {
            const atFar = far.serveHeld('hold');
            const atNear = near.serveHeld('hold');
            const calls = [
              near.call('hold', { name: 'a' }, {}, { maxParallel: 1, queueLimit: 8, timeoutMs: 0 }),
              near.call('hold', { name: 'waits' }),
              far.call('hold', { name: 'b' }),
            ];
            const settled = Promise.allSettled(calls);
            await far.until(() => atFar.started.length === 1, 'one to run');
            await near.until(() => atNear.started.length === 1, 'the other to run');
            (which === 'near' ? links.client : links.server).destroy('the end');
            const outcomes = await within(settled, 'every call to settle');
            for (const outcome of outcomes) {
              assert.equal(outcome.status === 'rejected' && code(outcome.reason), 'connection_lost');
            }
            await near.until(() => near.losses.length === 1 && far.losses.length === 1, 'both ends to know');
            assert.deepEqual([near.connection.busy, far.connection.busy, near.connection.calls().size], [0, 0, 0]);
            await assert.rejects(near.call('hold', { name: 'late' }), { code: 'connection_lost' });
          }));

        testOf('requests', `a link that is closed by its ${which} end stops every request on both sides`, () =>
          withSides(async (near, far, links) => {
            const atFar = far.serveHeld('hold');
            const atNear = near.serveHeld('hold');
            const calls = Promise.allSettled([near.call('hold', { name: 'a' }), far.call('hold', { name: 'b' })]);
            await far.until(() => atFar.started.length === 1, 'one to run');
            await near.until(() => atNear.started.length === 1, 'the other to run');
            (which === 'near' ? links.client : links.server).destroy('the end');
            await within(calls, 'every call to settle');
            await near.until(() => near.losses.length === 1 && far.losses.length === 1, 'both ends to know');
            assert.deepEqual([atFar.stopped, atNear.stopped], [['a:connection_lost'], ['b:connection_lost']]);
            assert.deepEqual([near.connection.busy, far.connection.busy], [0, 0]);
          }),
        );
      }

      test('a link that is replaced carries on with what is open, and the old one is ignored', () =>
        withSides(async (near, far, links) => {
          const held = far.serveHeld('hold');
          near.settlesWhenLost = false;
          far.settlesWhenLost = false;
          const call = near.call('hold', { name: 'a' }, { timeoutMs: 0 });
          await far.until(() => held.started.length === 1, 'the work to start');
          const next = await transport.pair();
          near.connection.detach();
          far.connection.detach();
          connected(near, far, next);
          links.client.destroy('the old one');
          held.release('a');
          assert.deepEqual(await call, { name: 'a' });
          assert.deepEqual([near.losses, far.losses], [[], []]);
          await next.dispose();
        }));

      testOf('agreed cancel', 'a cancel that was not agreed is an unknown type, and withdraws nothing', () =>
        withSides(async (near, far) => {
          far.connection.cancels = false;
          const held = far.serveHeld('hold');
          const call = near.call('hold', { name: 'a' });
          await far.until(() => held.started.length === 1, 'the work to start');
          const { dropped } = near.connection;
          call.cancel();
          await assert.rejects(call, { code: 'cancelled' });
          await near.until(() => near.connection.dropped > dropped, 'the refusal');
          assert.deepEqual([held.stopped, far.connection.busy], [[], 1]);
          held.release('a');
        }),
      );

      testOf('requests', 'an unknown type is refused, and the link stays usable', () =>
        withSides(async (near, far) => {
          far.serve('echo', (body) => body);
          await assert.rejects(near.call('no-such-thing'), { code: 'unknown_type' });
          assert.deepEqual(await near.call('echo', { n: 1 }), { n: 1 });
        }),
      );

      testOf('refusals', 'malformed input is refused without a request, and the link stays usable', async () => {
        const links = await transport.pair();
        const near = dialect.side();
        const far = dialect.side({ role: 'serves' });
        connected(near, far, links);
        far.serve('echo', (body) => body);
        if (links.client.text) {
          for (const [line, expected] of dialect.malformed) {
            const [refused, dropped] = [near.refusals.length, near.connection.dropped];
            links.client.send(line);
            // A message with an id is refused under it, and no call of that id waits.
            const replied = (): boolean => near.refusals.length > refused || near.connection.dropped > dropped;
            await near.until(replied, `the refusal of ${line}`);
            if (near.refusals.length > refused) assert.equal(near.refusals.at(-1)?.code, expected, line);
            assert.deepEqual(await near.call('echo', { n: 1 }), { n: 1 });
          }
          near.connection.link?.send('');
        }
        assert.deepEqual(await near.call('echo', { n: 2 }), { n: 2 });
        await links.dispose();
      });

      if (dialect.lacks.refusals !== undefined) {
        test('malformed input is reported where it arrives, gets no reply, and the link stays usable', () =>
          withSides(async (near, far, links) => {
            far.serve('echo', (body) => body);
            for (const [line, expected] of dialect.malformed) {
              if (!links.client.text && ONLY_IN_TEXT.has(expected)) continue;
              const before = far.malformedInput.length;
              links.client.send(links.client.text ? line : JSON.parse(line));
              await far.until(() => far.malformedInput.length > before, `the report of ${line}`);
              const { code, detail } = far.malformedInput.at(-1) as HandfastError;
              assert.equal(code, 'invalid_message');
              assert.equal((detail.errors as { code: string }[])[0]?.code, expected, line);
              assert.deepEqual(await near.call('echo', { n: 1 }), { n: 1 });
            }
            assert.deepEqual([near.refusals, near.malformedInput, near.notices], [[], [], []]);
          }));
      }

      test('a request that is too long is not sent', () =>
        withSides(
          async (near, far) => {
            far.serve('echo', (body) => body);
            if (near.connection.text) {
              await assert.rejects(near.call('echo', { text: 'x'.repeat(9_000) }), { code: 'too_large' });
            }
            assert.deepEqual(await near.call('echo', { n: 1 }), { n: 1 });
          },
          {},
          { maxMessageBytes: 8_192 },
        ));

      testOf('requests', 'a reply that is too long becomes too_large, an event fails its handler', () =>
        withSides(
          async (near, far) => {
            far.serve('big', () => ({ text: 'x'.repeat(9_000) }));
            far.serve('emits', async (_body, request) => {
              await request.emit('log', { text: 'x'.repeat(9_000) });
              return {};
            });
            far.serve('echo', (body) => body);
            if (near.connection.text) {
              await assert.rejects(near.call('big'), { code: 'too_large' });
              await assert.rejects(near.call('emits', {}, { streaming: true }), { code: 'too_large' });
            }
            assert.deepEqual(await near.call('echo', { n: 1 }), { n: 1 });
          },
          { maxMessageBytes: 8_192 },
          { maxMessageBytes: 8_192 },
        ),
      );

      testOf('refusals', 'a refusal of a line that was too long fails the calls that were longer', () =>
        withSides(async (near, far) => {
          const held = far.serveHeld('hold');
          const short = near.call('hold', { name: 'short' });
          const long = near.call('hold', { name: 'long', pad: 'x'.repeat(4_000) });
          await far.until(() => held.started.length === 2, 'both to run');
          const nothing = { id: dialect.name === 'A2E' ? '' : null, idText: '' };
          far.connection.refuse(nothing, fail('too_large', 'too long', { limit: 1_000, unit: 'bytes' }));
          if (near.connection.text) await assert.rejects(long, { code: 'too_large' });
          else await near.until(() => near.refusals.length === 1, 'the refusal');
          held.release('short');
          held.release('long');
          assert.deepEqual(await short, { name: 'short' });
          assert.equal(near.refusals[0]?.code, 'too_large');
          await long.catch(() => {});
        }),
      );

      testOf('requests', 'a result that JSON cannot carry is an error, and the link stays usable', () =>
        withSides(async (near, far) => {
          far.serve('odd', () => ({ big: 1n }));
          far.serve('echo', (body) => body);
          if (near.connection.text) await assert.rejects(near.call('odd'), { code: 'runtime_error' });
          assert.deepEqual(await near.call('echo', { n: 1 }), { n: 1 });
        }),
      );

      testOf('requests', 'work behind a reply runs once the reply has been handed to the link', () =>
        withSides(async (near, far) => {
          far.serve('then', (_body, request) => {
            request.afterReply(() => far.notify('behind', {}));
            return {};
          });
          let replied = 0;
          await near.call('then').then(() => {
            replied = near.notices.length;
          });
          await near.until(() => near.notices.length === 1, 'the notice');
          assert.ok(replied <= 1);
        }),
      );

      test('everything that arrives counts as a sign of life, and pings are served beside the limit', () =>
        withSides(
          async (near, far) => {
            const held = far.serveHeld('hold');
            const call = near.call('hold', { name: 'a' }, {}, { maxParallel: 1, queueLimit: 4, timeoutMs: 0 });
            await far.until(() => held.started.length === 1, 'the work to start');
            const { arrivals, received } = far.connection;
            if (near.connection.codec.pingType === undefined) {
              await assert.rejects(near.connection.ping(1_000), { code: 'usage' });
            } else {
              await within(near.connection.ping(20_000), 'the pong');
              await within(far.connection.ping(20_000), 'the pong');
              near.connection.probe();
              await far.until(() => far.connection.arrivals === arrivals + 3, 'two pings and a pong');
              assert.equal(far.connection.received, received, 'pings do not count as messages of the session');
            }
            near.notify('tick', {});
            await far.until(() => far.connection.received === received + 1, 'the notice');
            held.release('a');
            await call;
          },
          { maxParallel: 1, queueLimit: 0 },
        ));

      testOf('requests', 'when it drains, what runs may finish and is replied to, and what comes is refused', () =>
        withSides(async (near, far) => {
          const held = far.serveHeld('hold');
          const running = near.call('hold', { name: 'a' });
          await far.until(() => held.started.length === 1, 'the work to start');
          const drained = far.connection.requests.drain(fail('interrupted', 'the end'));
          await assert.rejects(near.call('hold', { name: 'b' }), { code: 'interrupted' });
          held.release('a');
          assert.deepEqual(await running, { name: 'a' });
          await within(drained, 'the drain');
          assert.deepEqual(held.started, ['a']);
        }),
      );
    });
  }
}
