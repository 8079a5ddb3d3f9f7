/**
 * A feed against a server that is played here, step by step: in any order in which events happen, readers come, go,
 * dawdle, and links are lost, every reader sees every event above its place once, in order, and gaps are reported.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Gap } from '../../../src/connection/reconnect.ts';
import type { ControlEvent } from '../../../src/control-client/control-event.ts';
import { type EventReader, MAX_WAITING, MAX_WAITING_CHARS } from '../../../src/control-client/event-reader.ts';
import { Feed, type Subscribed } from '../../../src/control-client/feed.ts';
import { fail } from '../../../src/wire/errors.ts';
import { turns, within } from '../../contract/recorder.ts';
import fc from '../../support/properties.ts';
import { type Item, range, seqs } from './stand.ts';

/** The server's side of one feed: a journal, at most one subscription, and a wire on which messages wait. */
class Served {
  readonly feed: Feed;
  last = 0;
  /** Events up to here are gone. */
  gone = 0;
  chars = 1;
  subscribes = 0;
  unused = 0;
  readonly gaps: Gap[] = [];
  /** Events behind this number were not sent by the subscription yet. */
  #sent: number | undefined;
  #id = 0;
  /** On the wire, to the client. */
  #wire: (() => void)[] = [];
  #calls: PromiseWithResolvers<unknown>[] = [];
  refusal: Error | undefined;

  constructor() {
    this.feed = new Feed({
      subscribe: (afterSeq, onAnswer) => this.#subscribe(afterSeq, onAnswer),
      unsubscribe: async (id) => {
        if (id === String(this.#id)) this.#sent = undefined;
      },
      gap: (gap) => {
        this.gaps.push(gap);
      },
      unused: () => {
        this.unused++;
      },
    });
  }

  get subscribed(): boolean {
    return this.#sent !== undefined;
  }

  emit(count = 1): void {
    for (let n = 0; n < count; n++) {
      this.last++;
      this.#pump();
    }
  }

  /** Hands over up to `count` messages of the wire. */
  deliver(count = Number.POSITIVE_INFINITY): void {
    for (let n = 0; n < count && this.#wire.length > 0; n++) this.#wire.shift()?.();
  }

  /** Loses the link and connects another one. */
  cut(): void {
    this.#wire = [];
    this.#sent = undefined;
    for (const call of this.#calls.splice(0)) call.reject(fail('connection_lost', 'cut'));
    this.feed.reconnected();
  }

  #subscribe(afterSeq: number | undefined, onAnswer: (answer: Subscribed) => void): Promise<unknown> {
    this.subscribes++;
    const call = Promise.withResolvers<unknown>();
    this.#calls.push(call);
    const after_seq = afterSeq ?? this.last;
    const gap = after_seq < this.gone ? { from_seq: after_seq + 1, to_seq: this.gone } : null;
    const answer = { subscription_id: String(++this.#id), after_seq, last_seq: this.last, gap };
    const { refusal } = this;
    if (refusal !== undefined) this.#wire.push(() => call.reject(refusal));
    else {
      this.#sent = Math.max(after_seq, this.gone);
      this.#wire.push(() => {
        onAnswer(answer);
        call.resolve(answer);
      });
      this.#pump();
    }
    return call.promise;
  }

  #pump(): void {
    while (this.#sent !== undefined && this.#sent < this.last) {
      const seq = ++this.#sent;
      const { chars } = this;
      this.#wire.push(() => this.feed.take(eventOf(seq), chars));
    }
  }
}

const eventOf = (seq: number): ControlEvent =>
  ({
    type: 'session.status',
    timestamp: '',
    payload: { session_id: 's', pending: true, status_label: '' },
    seq,
  }) as ControlEvent;

/** Reads `count` items that must be there, delivering the events they need. */
async function take(served: Served, reader: EventReader, count: number): Promise<Item[]> {
  const items: Item[] = [];
  while (items.length < count) {
    const step = reader.next();
    served.deliver();
    await turns(1);
    served.deliver();
    const { done, value } = await within(step, 'an event');
    if (done === true) break;
    items.push(value);
  }
  return items;
}

describe('readers of one feed', () => {
  test('each have a place of their own: behind a number, or now', async () => {
    const served = new Served();
    served.emit(10);
    const all = served.feed.read({ afterSeq: 0 });
    served.deliver();
    const now = served.feed.read();
    const late = served.feed.read({ afterSeq: 8 });
    served.deliver(4);
    await turns();
    served.emit(2);
    assert.deepEqual(seqs(await take(served, all, 12)), range(1, 12));
    assert.deepEqual(seqs(await take(served, now, 2)), range(11, 12));
    assert.deepEqual(seqs(await take(served, late, 4)), range(9, 12));
  });

  test('one that wants the past while a subscription is asked for misses nothing of it', async () => {
    const served = new Served();
    served.emit(5);
    const now = served.feed.read();
    const all = served.feed.read({ afterSeq: 0 });
    served.emit(1);
    // The answer and the event behind it are read at once, before a reader can ask again.
    served.deliver();
    assert.deepEqual(seqs(await take(served, all, 6)), range(1, 6));
    assert.deepEqual(seqs(await take(served, now, 1)), [6]);
  });

  test('that do not read hold no more than their bound, stop the server from sending, and continue where they were', async () => {
    const served = new Served();
    const slow = served.feed.read({ afterSeq: 0 });
    served.deliver();
    await turns();
    served.emit(3 * MAX_WAITING);
    served.deliver();
    await turns();
    assert.equal(served.subscribed, false, 'no reader has room, so nothing is sent');
    const read = await take(served, slow, 3 * MAX_WAITING);
    assert.deepEqual(seqs(read), range(1, 3 * MAX_WAITING));
    assert.ok(served.subscribes <= 6, `subscribed ${served.subscribes} times`);
  });

  test('hold few events when they are large, and at least one of any size', async () => {
    const served = new Served();
    served.chars = MAX_WAITING_CHARS + 1;
    const slow = served.feed.read({ afterSeq: 0 });
    served.deliver();
    await turns();
    served.emit(5);
    served.deliver();
    assert.equal(served.subscribed, false);
    assert.deepEqual(seqs(await take(served, slow, 5)), range(1, 5));
  });

  test('do not wait for a slow one', async () => {
    const served = new Served();
    served.feed.read({ afterSeq: 0 });
    const quick = served.feed.read({ afterSeq: 0 });
    served.deliver();
    await turns();
    for (let round = 0; round < 4; round++) {
      served.emit(MAX_WAITING / 2);
      const first = round * (MAX_WAITING / 2) + 1;
      const read = await take(served, quick, MAX_WAITING / 2);
      assert.deepEqual(seqs(read), range(first, first + MAX_WAITING / 2 - 1));
    }
    assert.equal(served.subscribes, 1, 'what the quick one reads is never sent again');
  });

  test('receive what was removed, each from its own position', async () => {
    const served = new Served();
    served.emit(20);
    served.gone = 10;
    const all = served.feed.read({ afterSeq: 2 });
    const some = served.feed.read({ afterSeq: 7 });
    const none = served.feed.read({ afterSeq: 15 });
    await turns();
    served.deliver();
    assert.deepEqual((await take(served, all, 2))[0], { type: 'gap', from: 3, to: 10 });
    assert.deepEqual((await take(served, some, 2))[0], { type: 'gap', from: 8, to: 10 });
    assert.deepEqual(seqs(await take(served, none, 5)), range(16, 20));
    served.last = 30;
    served.feed.gap(21, 30);
    assert.deepEqual((await take(served, none, 1))[0], { type: 'gap', from: 21, to: 30 });
    assert.deepEqual(
      [all.gaps[0], some.gaps[0], none.gaps],
      [{ from: 3, to: 10 }, { from: 8, to: 10 }, [{ from: 21, to: 30 }]],
      'readable later too',
    );
    assert.deepEqual(served.gaps, [
      { from: 3, to: 10 },
      { from: 21, to: 30 },
    ]);
  });

  test('that end early, by the loop, a signal or themselves, leave nothing behind', async () => {
    const served = new Served();
    const giveUp = new AbortController();
    const byLoop = served.feed.read({ afterSeq: 0 });
    const bySignal = served.feed.read({ signal: giveUp.signal });
    const byReturn = served.feed.read();
    const pending = bySignal.next();
    const alsoPending = byReturn.next();
    await turns();
    served.deliver();
    served.emit(3);
    served.deliver();
    await alsoPending;
    for await (const _ of byLoop) break;
    assert.equal(served.subscribed, true);
    assert.equal((await pending).done, false);
    const last = bySignal.next();
    await last;
    giveUp.abort();
    assert.deepEqual(await bySignal.next(), { done: true, value: undefined });
    const waiting = byReturn.next();
    await waiting;
    const never = byReturn.next();
    await never;
    const open = byReturn.next();
    await byReturn.return();
    assert.deepEqual(await open, { done: true, value: undefined });
    assert.deepEqual([served.subscribed, served.unused], [false, 1]);
    assert.deepEqual(await served.feed.read({ signal: giveUp.signal }).next(), { done: true, value: undefined });
  });

  test('get the error of their subscription, and only theirs', async () => {
    const served = new Served();
    served.refusal = fail('session_not_found', 'unknown session: s');
    const refused = served.feed.read();
    const started = refused.started();
    served.deliver();
    await assert.rejects(started, { code: 'session_not_found' });
    await assert.rejects(refused.next(), { code: 'session_not_found' });
    assert.equal((await refused.next()).done, true);
    served.refusal = undefined;
    const again = served.feed.read({ afterSeq: 0 });
    await turns();
    served.emit(1);
    assert.deepEqual(seqs(await take(served, again, 1)), [1]);
    served.feed.ended('2', 'runtime_error', 'the journal failed');
    await assert.rejects(again.next(), { code: 'runtime_error', message: 'the journal failed' });
  });

  test('read what waits for them when the connection is given up, then the error', async () => {
    const served = new Served();
    const reader = served.feed.read({ afterSeq: 0 });
    await turns();
    served.emit(2);
    served.deliver();
    served.feed.fail(fail('connection_lost', 'gone'));
    assert.deepEqual(seqs([(await reader.next()).value as Item, (await reader.next()).value as Item]), [1, 2]);
    await assert.rejects(reader.next(), { code: 'connection_lost' });
    await assert.rejects(served.feed.read().next(), { code: 'connection_lost' });
  });
});

test('in any order of events, readers see everything above their place once and in order', async () => {
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('emit' as const), n: fc.integer({ min: 1, max: 700 }) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('deliver' as const), n: fc.integer({ min: 1, max: 900 }) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('read' as const), n: fc.integer({ min: 1, max: 600 }) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('join' as const), n: fc.integer({ min: -1, max: 100 }) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const), n: fc.constant(0) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), n: fc.nat(5) }) },
  );
  const property = fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
    const served = new Served();
    const readers: { reader: EventReader; from: number | undefined; seen: number[]; left: boolean }[] = [];
    for (const { do: what, n } of steps) {
      if (what === 'emit') served.emit(n);
      if (what === 'deliver') served.deliver(n);
      if (what === 'cut') served.cut();
      if (what === 'join') {
        // Percent of the existing events; below zero: now.
        const afterSeq = n < 0 ? undefined : Math.floor((served.last * n) / 100);
        readers.push({ reader: served.feed.read({ afterSeq }), from: afterSeq, seen: [], left: false });
      }
      if (what === 'leave') {
        const one = readers[n];
        if (one !== undefined) {
          one.left = true;
          one.reader.end();
        }
      }
      if (what === 'read') {
        for (const { reader, seen, left } of readers) {
          for (let at = 0; at < n && !left && hasSome(reader); at++) seen.push(seqOf(await reader.next()));
        }
      }
      await turns(1);
    }
    // All readers read to the end.
    for (const one of readers) {
      while (!one.left && (one.reader.position ?? -1) < served.last) {
        served.deliver();
        await turns(1);
        while (hasSome(one.reader)) one.seen.push(seqOf(await one.reader.next()));
      }
      while (!one.left && hasSome(one.reader)) one.seen.push(seqOf(await one.reader.next()));
      const first = one.from === undefined ? (one.seen[0] ?? served.last + 1) : one.from + 1;
      assert.deepEqual(one.seen, range(first, one.left ? (one.seen.at(-1) ?? first - 1) : served.last));
    }
  });
  await fc.assert(property, { numRuns: 60, seed: 20_260_701 });
});

const seqOf = ({ value }: IteratorResult<Item, void>): number => (value as ControlEvent).seq;

/** True when the next step needs no waiting. */
const hasSome = (reader: EventReader): boolean => reader.waiting > 0;
