/**
 * Ctrl-C while a command works: the first one cancels the work, so that the peer is notified; the second one ends the
 * process at once.
 */
import { fail } from '../wire/errors.ts';

/** The exit code of a command that was interrupted. */
export const INTERRUPTED = 130;

/** Runs `work` with a signal that SIGINT and SIGTERM abort. Work that fails after that has failed with `cancelled`. */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const stop = (): void => {
    if (controller.signal.aborted) process.exit(INTERRUPTED);
    controller.abort(fail('cancelled', 'interrupted'));
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  try {
    return await work(controller.signal);
  } catch (error) {
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    process.removeListener('SIGINT', stop).removeListener('SIGTERM', stop);
  }
}
