/**
 * Losses of databases that no operator has acknowledged. Each is a record beside its database, `<file>.lost`, until an
 * operator deletes it. The log reports the loss at each opening; `GET /health`, `GET /status` and `handfast doctor`
 * report it until then. `database.ts` writes and finds the records.
 */
import { join } from 'node:path';
import { fail, type HandfastError } from '../../wire/errors.ts';
import type { Log } from '../log.ts';
import { readRegularSync, writeRegularSync } from '../regular-file.ts';

/** Returns `node:fs`. The first handshake of a host does not load it. */
const fs = () => process.getBuiltinModule('node:fs');

/** A database that lost writes. */
export interface DatabaseLoss {
  /** Its name in messages, as `the task store`. */
  readonly what: string;
  /** Path of the database. */
  readonly file: string;
  /** The newest write that is left, and the newest that was made. */
  readonly ends_at: number;
  readonly of: number;
  /** True when a write is missing that was acknowledged from the disk. */
  readonly acknowledged: boolean;
  /** Present path of a damaged file. */
  readonly moved_to?: string;
  /** True of a folder of files, some of which are missing or damaged: they have no numbers. */
  readonly parts?: boolean;
  /** ISO 8601. */
  readonly found_at: string;
}

const SUFFIX = '.lost';
/** Folders below the home folder that are searched for records, in levels. */
const MAX_DEPTH = 6;

/** Of this process, by file. */
const noted = new Map<string, DatabaseLoss>();
const listeners = new Set<() => void>();

const recordOf = (file: string): string => file + SUFFIX;

/** Stores a loss until it is acknowledged. Never throws: on a full disk only the log reports it. */
export function recordLoss(loss: DatabaseLoss): void {
  try {
    writeRegularSync(recordOf(loss.file), `${JSON.stringify(loss)}\n`);
  } catch {
    // See above.
  }
}

/** Returns the loss of a database that is not acknowledged. */
export function recordedLoss(file: string): DatabaseLoss | undefined {
  try {
    return JSON.parse(readRegularSync(recordOf(file)).toString()) as DatabaseLoss;
  } catch {
    return undefined;
  }
}

/** Returns true until an operator has deleted its record. */
const isOpen = ({ file }: DatabaseLoss): boolean => fs().existsSync(recordOf(file));

/** A loss as peers get it: without the places of files. */
interface ToldLoss {
  readonly code: 'journal_damaged';
  readonly message: string;
  /** True when a write is missing that was acknowledged from the disk. */
  readonly acknowledged: boolean;
  /** ISO 8601. */
  readonly found_at: string;
}

/** Losses for peers: those that no operator has acknowledged. */
export const toldLosses = (losses: readonly DatabaseLoss[]): ToldLoss[] =>
  losses.filter(isOpen).map(({ what, parts, acknowledged, found_at }) => ({
    code: 'journal_damaged',
    message: `${parts === true ? 'parts' : 'the newest writes'} of ${what} are lost`,
    acknowledged,
    found_at,
  }));

/** Returns the loss as a `journal_damaged` error. */
export function lossError({ what, ends_at, of, acknowledged, moved_to, parts }: DatabaseLoss): HandfastError {
  if (parts === true)
    return fail('journal_damaged', `parts of ${what} are lost: they cannot be read`, { acknowledged });
  const which = acknowledged ? 'writes that were acknowledged' : 'writes that were not synced yet';
  const message =
    moved_to === undefined
      ? `the newest writes of ${what} are lost, ${which}: it ends at write ${ends_at} of ${of}`
      : `${what} was damaged and is replaced: its unreadable part is lost`;
  return fail('journal_damaged', message, { acknowledged, ends_at, of });
}

/** Logs a loss once in this process, and adds it to {@link openLosses}. */
export function noteLoss(log: Pick<Log, 'error'>, loss: DatabaseLoss): void {
  if (noted.get(loss.file)?.found_at === loss.found_at) return;
  const { code, message, detail } = lossError(loss);
  const { file, moved_to, found_at } = loss;
  const advice = `check the disk; restore a copy that was made of a stopped host; then delete ${recordOf(file)}`;
  log.error(message, { code, file, ...detail, ...(moved_to !== undefined && { moved_to }), found_at, advice });
  note(loss);
}

/** Calls `listener` after each further loss. Returns the function that ends it. */
export function onNotedLoss(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Records a loss that its owner has logged, and adds it to {@link openLosses}. */
export function keepLoss(loss: DatabaseLoss): void {
  recordLoss(loss);
  note(loss);
}

function note(loss: DatabaseLoss): void {
  noted.set(loss.file, loss);
  for (const listener of listeners) listener();
}

/** Returns the losses that this process has found and no operator has acknowledged. */
export function openLosses(): DatabaseLoss[] {
  for (const [file, loss] of [...noted]) if (!isOpen(loss)) noted.delete(file);
  return [...noted.values()];
}

/** Returns the losses of all databases below a folder, with the file that acknowledges each by its deletion. */
export function lossesBelow(
  folder: string,
  depth = MAX_DEPTH,
): { readonly loss: DatabaseLoss; readonly record: string }[] {
  const found: { loss: DatabaseLoss; record: string }[] = [];
  let entries: ReturnType<typeof list>;
  try {
    entries = list(folder);
  } catch {
    return found;
  }
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      if (depth > 0) found.push(...lossesBelow(path, depth - 1));
    } else if (entry.name.endsWith(SUFFIX)) {
      const loss = recordedLoss(path.slice(0, -SUFFIX.length));
      if (loss !== undefined) found.push({ loss, record: path });
    }
  }
  return found;
}

const list = (folder: string) => fs().readdirSync(folder, { withFileTypes: true });
