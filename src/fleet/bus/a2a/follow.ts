/**
 * Watches an A2A task until it has settled: over a subscription where the agent streams, by asking where it does not, and by
 * asking again whenever a subscription ends early.
 *
 * Used by `peer.ts` and by the executor for remote agents.
 */

import { Backoff, type BackoffOptions } from '../../../base/backoff.ts';
import { sleep } from '../../../base/sleep.ts';
import { asError } from '../../../wire/errors.ts';
import type { A2aConnection } from './connection.ts';
import { callFailure } from './connection.ts';
import { isSettled } from './messages.ts';
import type { StreamResponse, Task } from './sdk.ts';

export interface FollowOptions {
  readonly connection: A2aConnection;
  /** Our extension is named. */
  readonly fleet: boolean;
  readonly id: string;
  /** Ends the watching; it fails with the signal's reason then. */
  readonly signal: AbortSignal;
  /** Whether a subscription may be opened now. Default: yes. */
  readonly mayStream?: () => boolean;
  /** Everything that is heard of the task, some of it more than once. */
  heard(event: NonNullable<StreamResponse['payload']>): void;
  /** The task is being listened to, or will be asked for. Called once. */
  listening?(): void;
  /** Gives up on an agent that has not answered for so long, milliseconds. Default: never. */
  readonly patienceMs?: number;
  /** Between two questions. Default 250 ms, doubled up to 15 s while nothing happens. */
  readonly delay?: BackoffOptions;
}

/** How long a stream may stay open after the last that there is to be told, milliseconds. */
const LAST_MS = 500;
const DELAY: BackoffOptions = { firstDelayMs: 250, maxDelayMs: 15_000 };

/**
 * Resolves with the task when it has settled. An agent that does not answer is asked again, for as long as the signal lets it;
 * fails with `not_found` when it knows the task no more, `unauthorized` when it refuses the token, and as the last question did
 * when patience has run out.
 */
export async function follow(options: FollowOptions): Promise<Task> {
  const { connection, fleet, id, signal, heard, listening, mayStream = () => true } = options;
  const { patienceMs = Number.POSITIVE_INFINITY } = options;
  const delay = new Backoff(options.delay ?? DELAY);
  let answeredAt = performance.now();
  let told = false;
  const ready = (): void => {
    if (!told) listening?.();
    told = true;
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
        answeredAt = performance.now();
        heard({ $case: 'task', value: task });
        if (isSettled(task.status?.state)) return task;
      }
    } catch (thrown) {
      signal.throwIfAborted();
      const error = callFailure(thrown, connection.name);
      if (error.code === 'not_found' || error.code === 'unauthorized') throw error;
      if (performance.now() - answeredAt > patienceMs) throw error;
    } finally {
      ready();
    }
    await sleep(delay.next(), signal);
  }
}

/** Listens until the stream ends, however it does. Returns how many events came. */
async function listen({ connection, fleet, id, signal, heard }: FollowOptions, ready: () => void): Promise<number> {
  let events = 0;
  let last: NodeJS.Timeout | undefined;
  const ending = new AbortController();
  const options = connection.stream(fleet, AbortSignal.any([signal, ending.signal]));
  try {
    const stream = connection.reached?.client.resubscribeTask({ tenant: '', id }, options);
    for await (const { payload } of stream ?? []) {
      events += 1;
      if (payload !== undefined) heard(payload);
      ready();
      const told = payload?.$case === 'statusUpdate' || payload?.$case === 'task' ? payload.value.status : undefined;
      // It ends by itself now; a stream that is cut takes its connection along.
      if (isSettled(told?.state)) last ??= setTimeout(() => ending.abort(), LAST_MS);
    }
  } catch (thrown) {
    // It has ended, cannot be subscribed to, or the connection was lost: asking for it tells which.
    if (asError(thrown).code === 'unauthorized') throw thrown;
  } finally {
    clearTimeout(last);
  }
  return events;
}
