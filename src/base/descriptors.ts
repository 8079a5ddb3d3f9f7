/**
 * Notices when this process has no file descriptor left: the system then closes new connections before this process sees them.
 * Reports the shortage as a failing store, so that the health pages, the log and `handfast doctor` have it.
 */
import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';
import { fail } from '../wire/errors.ts';
import { storeFailed, storeWorks } from './failing-stores.ts';
import { isShortage, whyNotStarted } from './not-started.ts';

const EVERY_MS = 1_000;
/** Checks in a row that succeed before the shortage is over: a busy host briefly has none left now and then. */
const ENOUGH = 5;

/** Checks each second. Returns the function that ends it. */
export function watchDescriptors(): () => void {
  const owner = {};
  let succeeded = ENOUGH;
  const timer = setInterval(() => {
    try {
      // Costs some ten microseconds.
      closeSync(openSync(devNull, 'r'));
      if (++succeeded === ENOUGH) storeWorks(owner);
    } catch (thrown) {
      if (!isShortage(thrown)) return;
      succeeded = 0;
      const message = `new connections are closed unanswered, and files cannot be opened: ${whyNotStarted(thrown)}`;
      storeFailed(owner, 'the file descriptors', fail('over_capacity', message), false);
    }
  }, EVERY_MS);
  timer.unref();
  return () => {
    clearInterval(timer);
    storeWorks(owner);
  };
}
