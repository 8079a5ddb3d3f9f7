/**
 * Follows an A2A task until it has settled: over a subscription where the agent streams, by polls where it does not, and by
 * a poll whenever a subscription ends early.
 */

import { Backoff, type BackoffOptions } from '../../../base/backoff.ts';
import { sleep } from '../../../base/sleep.ts';
import { asError } from '../../../wire/errors.ts';
import { type A2aConnection, callFailure } from './connection.ts';
import { isSettled } from './messages.ts';
import type { StreamResponse, Task } from './sdk.ts';

export interface FollowOptions {
  readonly connection: A2aConnection;
  /** Requests name the fleet extension. */
  readonly fleet: boolean;
  readonly id: string;
  /** Ends it; it fails with the signal's reason then. */
  readonly signal: AbortSignal;
  /** True while a subscription may be opened. Default: yes. */
  readonly mayStream?: () => boolean;
  /** Called with every event of the task, with some more than once. */
  onEvent(event: NonNullable<StreamResponse['payload']>): void;
  /** Called once, when the subscription stands or the first poll has ended. */
  onListening?(): void;
  /** Fails when the agent has not responded for this time, milliseconds. Default: never. */
  readonly patienceMs?: number;
  /** Time between two polls. Default 250 ms, doubled up to 15 s while nothing happens. */
  readonly delay?: BackoffOptions;
}

/** Longest time that a stream may stay open after the event that settles the task, milliseconds. */
const STREAM_END_MS = 500;
const DELAY: BackoffOptions = { firstDelayMs: 250, maxDelayMs: 15_000 };

/**
 * Resolves with the task when it has settled. An agent that does not respond is polled again until the signal aborts; fails
 * with `not_found` when it does not know the task any more, `unauthorized` when it refuses the token, and as the last poll did
 * when the patience has run out.
 */
export async function follow(options: FollowOptions): Promise<Task> {
  const { connection, fleet, id, signal, onEvent, onListening, mayStream = () => true } = options;
  const { patienceMs = Number.POSITIVE_INFINITY } = options;
  const delay = new Backoff(options.delay ?? DELAY);
  let respondedAt = performance.now();
  let notified = false;
  const ready = (): void => {
    if (!notified) onListening?.();
    notified = true;
  };
  for (;;) {
    signal.throwIfAborted();
    const reached = connection.reached;
    try {
      if (reached?.streaming && mayStream()) {
        const events = await listen(options, ready);
        if (events > 1) delay.reset();
      }
      const task = await reached?.client.getTask({ tenant: '', id }, connection.call(fleet, signal));
      if (task !== undefined) {
        respondedAt = performance.now();
        onEvent({ $case: 'task', value: task });
        if (isSettled(task.status?.state)) return task;
      }
    } catch (thrown) {
      signal.throwIfAborted();
      const error = callFailure(thrown, connection.name);
      if (error.code === 'not_found' || error.code === 'unauthorized') throw error;
      if (performance.now() - respondedAt > patienceMs) throw error;
    } finally {
      ready();
    }
    await sleep(delay.next(), signal);
  }
}

/** Listens until the stream ends, however it does. Returns the number of events. */
async function listen({ connection, fleet, id, signal, onEvent }: FollowOptions, ready: () => void): Promise<number> {
  let events = 0;
  let ending: NodeJS.Timeout | undefined;
  const cut = new AbortController();
  const options = connection.stream(fleet, AbortSignal.any([signal, cut.signal]));
  try {
    const stream = connection.reached?.client.resubscribeTask({ tenant: '', id }, options);
    for await (const { payload } of stream ?? []) {
      events += 1;
      if (payload !== undefined) onEvent(payload);
      ready();
      const status = payload?.$case === 'statusUpdate' || payload?.$case === 'task' ? payload.value.status : undefined;
      // The agent ends the stream now; cutting it would cost its connection.
      if (isSettled(status?.state)) ending ??= setTimeout(() => cut.abort(), STREAM_END_MS);
    }
  } catch (thrown) {
    // The task has ended, cannot be subscribed to, or the connection was lost: the poll that follows tells which.
    if (asError(thrown).code === 'unauthorized') throw thrown;
  } finally {
    clearTimeout(ending);
  }
  return events;
}
