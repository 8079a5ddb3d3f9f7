/**
 * The methods about turns: sending, steering, interrupting, the queue.
 *
 * An acknowledged prompt is on disk: the reply waits for the journal.
 * @see docs/protocol/session-rpc.md#methods
 */
import {
  queueClear,
  queueList,
  queueRemove,
  sessionInterrupt,
  sessionSend,
  sessionSteer,
} from '../../../protocol/session-rpc.ts';
import type { StorageShares } from '../../../session/storage-shares.ts';
import { fail } from '../../../wire/errors.ts';
import { type Handled, handles, type RpcCall } from '../../contract/handlers.ts';
import { acceptPrompt } from '../../rounds/prompt.ts';
import { queueItem } from '../history/views.ts';
import { findByIdempotencyKey, releaseKey, type SentPrompt } from '../turns/idempotent-prompts.ts';
import type { SessionTurns } from '../turns/session-turns.ts';

/** Parts that the handlers of this folder share. */
export interface HandlerDeps {
  /** Returns the session, if the caller may use it. Fails with `session_not_found`. */
  readonly sessionFor: (id: string, call: RpcCall) => SessionTurns;
  readonly newId: () => string;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export interface TurnHandlerDeps extends HandlerDeps {
  /** Refuses the prompts of a principal whose sessions store too much. */
  readonly storage: Pick<StorageShares, 'mustHaveRoom'>;
  /** Refuses input to the sessions of an owner that hold too much in memory. */
  readonly mustHaveMemory: (owner: string) => void;
}

/** Returns the handlers. */
export function turnHandlers({ sessionFor, newId, now, storage, mustHaveMemory }: TurnHandlerDeps): readonly Handled[] {
  return [
    handles(sessionSend, async ({ session_id, text, enqueue = false, images, idempotency_key: key }, call) => {
      const turns = sessionFor(session_id, call);
      const given = acceptPrompt(text, images, now);
      if (given === undefined) {
        throw fail('empty_prompt', 'session.send requires non-empty text or at least one image', { session_id });
      }
      const before = (): SentPrompt | undefined =>
        key === undefined ? undefined : findByIdempotencyKey(turns.session, key, given);
      const stores = enqueue && before() === undefined;
      if (stores) storage.mustHaveRoom(call.caller.principal);
      const stored = stores ? turns.stored(given) : given;
      const prompt = stored instanceof Promise ? await stored : stored;
      for (let sent = before(); sent !== undefined; sent = before()) {
        await turns.session.flushed();
        // The first one may have been refused meanwhile.
        const { turnId, queued } = sent;
        if (before()?.turnId === turnId) return { session_id, turn_id: turnId, accepted: true as const, queued };
      }
      storage.mustHaveRoom(call.caller.principal);
      mustHaveMemory(turns.session.record.owner);
      const turnId = newId();
      const { queued, checked } = turns.send(turnId, prompt, enqueue, key);
      await checked;
      try {
        await turns.session.flushed();
      } catch (thrown) {
        // A client that gets an error sends the prompt again. A turn that started reports its own end.
        if (queued) turns.dropQueued('error', turnId);
        if (key !== undefined) releaseKey(turns.session, turnId);
        throw thrown;
      }
      return { session_id, turn_id: turnId, accepted: true as const, queued };
    }),

    handles(sessionSteer, async ({ session_id, text, expected_turn_id, when_late = 'report' }, call) => {
      const turns = sessionFor(session_id, call);
      mustHaveMemory(turns.session.record.owner);
      const id = newId();
      const { outcome, turnId } = turns.steer({ id, text, whenLate: when_late }, expected_turn_id);
      if (outcome === 'rejected') return { session_id, accepted: false, outcome, turn_id: null };
      await turns.session.flushed();
      return { session_id, accepted: true, outcome, turn_id: turnId, steer_id: id };
    }),

    // Works on a full disk, too: its reply waits for the disk, and does not change when that fails.
    handles(sessionInterrupt, ({ session_id, turn_id }, call) => {
      const interrupted = sessionFor(session_id, call).interrupt('interrupted', turn_id);
      if (interrupted === undefined) return { session_id, interrupted: false };
      return { session_id, interrupted: true, turn_id: interrupted };
    }),

    handles(queueList, ({ session_id }, call) => {
      const { queue } = sessionFor(session_id, call).session.record;
      return { session_id, queue: queue.map(queueItem) };
    }),

    handles(queueClear, async ({ session_id }, call) => {
      const turns = sessionFor(session_id, call);
      const cleared_count = turns.dropQueued('cleared');
      await turns.session.flushed();
      return { session_id, cleared_count };
    }),

    handles(queueRemove, async ({ session_id, turn_id }, call) => {
      const turns = sessionFor(session_id, call);
      const removed = turns.dropQueued('cleared', turn_id) > 0;
      await turns.session.flushed();
      return { session_id, removed };
    }),
  ];
}
