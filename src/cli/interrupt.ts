/**
 * Ctrl-C while a command works: the first one cancels the work, so that the peer is notified; the second one ends the
 * process at once.
 */
import { fail } from '../wire/errors.ts';

/** The exit code of a command that was interrupted. */
export const INTERRUPTED = 130;

/** Longest time that work may take to end once its output has no reader, milliseconds. */
const LEAVE_MS = 2_000;

/** Controllers of the work that runs. */
const running = new Set<AbortController>();
let isUnread = false;

/** True once the command's output has no reader: its end is quiet. */
export const outputIsUnread = (): boolean => isUnread;

/**
 * Ends the command because its output has no reader any more (`| head`): work is cancelled as by Ctrl-C, so that nothing
 * continues without a reader.
 */
export function leaveUnread(): void {
  if (running.size === 0) process.exit();
  if (isUnread) return;
  isUnread = true;
  for (const controller of running) controller.abort(fail('cancelled', 'the output has no reader'));
  setTimeout(() => process.exit(), LEAVE_MS).unref();
}

/** Runs `work` with a signal that SIGINT and SIGTERM abort. Work that fails after that has failed with `cancelled`. */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const stop = (): void => {
    if (controller.signal.aborted) process.exit(INTERRUPTED);
    controller.abort(fail('cancelled', 'interrupted'));
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  running.add(controller);
  try {
    return await work(controller.signal);
  } catch (error) {
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    running.delete(controller);
    process.removeListener('SIGINT', stop).removeListener('SIGTERM', stop);
  }
}
