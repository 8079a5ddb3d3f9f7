/**
 * Reports that a journal or another database lost its newest writes, with advice. The host starts all the same: the rest can be
 * read, and no cursor is used again.
 */
import type { Log } from '../base/log.ts';
import type { Damage } from '../base/sqlite/database.ts';
import { keepLoss, noteLoss, openLosses, recordedLoss, toldLosses } from '../base/sqlite/losses.ts';
import type { HandfastError } from '../wire/errors.ts';

const ADVICE =
  'clients receive a gap; check the disk; copy a journal only with its -wal file, or after the process has stopped';

/** Makes the `onDamaged` of every journal that the server opens. Logs an earlier loss of it that is not acknowledged, too. */
export function reportDamage(log: Log, file: string, what: string): (error: HandfastError) => void {
  const earlier = recordedLoss(file);
  if (earlier !== undefined) noteLoss(log, earlier);
  return ({ code, message, detail }) => {
    log.error(message, { code, file, ...detail, advice: ADVICE });
    const { ends_at, of, acknowledged } = detail as { ends_at: number; of: number; acknowledged: boolean };
    keepLoss({ what, file, ends_at, of, acknowledged, found_at: new Date().toISOString() });
  };
}

/** Makes the `onCorrupt` of a journal: it logs that a new one replaces a damaged one, and records the loss. */
export function reportReplaced(log: Log, file: string, what: string): (damage: Damage) => void {
  return ({ reason, movedTo }) => {
    log.error(`${what} was damaged; started a new one`, { file, reason, movedTo });
    const found_at = new Date().toISOString();
    keepLoss({ what, file, ends_at: 0, of: 0, acknowledged: true, moved_to: movedTo, found_at });
  };
}

/** Returns the losses that `GET /health` reports to every caller; undefined without one. */
export function lossesForAll(): { losses: object[] } | undefined {
  const losses = toldLosses(openLosses());
  return losses.length === 0 ? undefined : { losses };
}
