/**
 * The follower by itself, over a session made for the test: joining and leaving, and its end when the session cannot be
 * read. Its behaviour over real journals is in `test/contract/journal.test.ts`.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Followable, Follower } from '../../src/journal/follow.ts';
import type { JournalEntry } from '../../src/journal/journal.ts';
import { fail } from '../../src/wire/errors.ts';
import { recognisable, recognisableRange } from './fixtures/recognisable.ts';

class Session implements Followable {
  readonly followers = new Set<Follower>();
  entries: JournalEntry[] = [];
  failure: Error | undefined;
  /** Pages asked for. */
  asked = 0;

  page(after: number) {
    this.asked += 1;
    if (this.failure !== undefined) throw this.failure;
    return { entries: this.entries.filter(({ cursor }) => cursor > after).slice(0, 4), last: this.entries.length };
  }

  join(follower: Follower) {
    this.followers.add(follower);
  }

  leave(follower: Follower) {
    assert.ok(this.followers.delete(follower), 'left twice');
  }

  append(entry: JournalEntry) {
    this.entries.push(entry);
    for (const follower of this.followers) follower.wake();
  }
}

describe('follower', () => {
  it('costs its session nothing before the first call and after the end', async () => {
    const signal = new AbortController();
    const ends: ((follower: Follower) => unknown)[] = [
      (follower) => follower.return(),
      (follower) => follower.end(),
      () => signal.abort(),
    ];
    for (const end of ends) {
      const session = new Session();
      const follower = new Follower(() => session, 0, signal.signal);
      assert.equal(session.followers.size, 0);
      const next = follower.next();
      assert.equal(session.followers.size, 1);
      end(follower);
      assert.equal(session.followers.size, 0);
      assert.deepEqual(await next, { done: true, value: undefined });
      follower.end();
      await follower.return();
    }
    const session = new Session();
    await new Follower(() => session, 0, signal.signal).next();
    assert.equal(session.asked, 0, 'the signal had aborted before');
  });

  it('asks for a page at a time, however much is stored, and for none while it has some', async () => {
    const session = new Session();
    session.entries = recognisableRange(1, 100);
    const follower = new Follower(() => session, 0);
    for (const expected of recognisableRange(1, 9)) assert.deepEqual((await follower.next()).value, expected);
    assert.equal(session.asked, 3);
    session.append(recognisable(101));
    assert.equal(session.asked, 3, 'no follower waited, so nothing was fetched');
    await follower.return();
  });

  it('ends with the error when the session cannot be read, at the call or while it waits', async () => {
    const session = new Session();
    const failure = fail('journal_corrupt', 'unreadable');
    const waiting = new Follower(() => session, 0);
    const calls = [waiting.next(), waiting.next()] as const;
    session.failure = failure;
    const asking = new Follower(() => session, 0);
    await assert.rejects(asking.next(), failure);
    assert.deepEqual(await asking.next(), { done: true, value: undefined });
    session.append(recognisable(1));
    await assert.rejects(calls[0], failure);
    assert.deepEqual(await calls[1], { done: true, value: undefined });
    assert.equal(session.followers.size, 0);
  });

  it('rejects and ends when there is no session to open', async () => {
    const failure = fail('runtime_error', 'closed');
    const follower = new Follower(() => {
      throw failure;
    }, 0);
    await assert.rejects(follower.next(), failure);
    assert.deepEqual(await follower.next(), { done: true, value: undefined });
  });
});
