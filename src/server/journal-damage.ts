/**
 * Logs that the newest entries of a journal are missing, and what to do. Passed as `onDamaged` wherever the server opens a
 * journal: the host starts all the same, because what is left can be read and no cursor is used again.
 */
import type { Log } from '../base/log.ts';
import type { HandfastError } from '../wire/errors.ts';

const ADVICE =
  'clients receive a gap; check the disk; copy a journal only with its -wal file, or after the process has stopped';

export function reportDamage(log: Log, file: string): (error: HandfastError) => void {
  return ({ code, message, detail }) => log.error(message, { code, file, ...detail, advice: ADVICE });
}
