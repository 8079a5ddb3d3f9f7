/**
 * Notices when this process has no file descriptor left. The system then closes new connections before this process sees them,
 * and nothing else reports that.
 *
 * Started by `server/serve.ts`; the health pages, the log and `handfast doctor` say it as they do of stores.
 */
import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';
import { fail } from '../wire/errors.ts';
import { storeFailed, storeWorks } from './failing-stores.ts';
import { isShortage, whyNotStarted } from './not-started.ts';

const EVERY_MS = 1_000;
/** Checks in a row that succeed before the shortage is over: a busy host has none left for a moment now and then. */
const ENOUGH = 5;

/** Checks now and then. Returns the function that ends it. `hasOne` throws the error of the system without one. */
export function watchDescriptors(everyMs = EVERY_MS, hasOne: () => void = openOne): () => void {
  const owner = {};
  let succeeded = ENOUGH;
  const timer = setInterval(() => {
    try {
      hasOne();
      if (++succeeded === ENOUGH) storeWorks(owner);
    } catch (thrown) {
      if (!isShortage(thrown)) return;
      succeeded = 0;
      const message = `new connections are closed unanswered, and files cannot be opened: ${whyNotStarted(thrown)}`;
      storeFailed(owner, 'the file descriptors', fail('over_capacity', message), false);
    }
  }, everyMs);
  timer.unref();
  return () => {
    clearInterval(timer);
    storeWorks(owner);
  };
}

/** Costs some ten microseconds. */
function openOne(): void {
  closeSync(openSync(devNull, 'r'));
}
