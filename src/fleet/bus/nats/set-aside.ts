/**
 * Entries of buckets and messages of streams that cannot be read. Each is set aside: skipped, left where it is, counted and
 * logged with the command that removes it, so that an orchestrator starts with any content of its buckets.
 *
 * One for each connection; `orchestrator-bus.ts` counts them in the fleet's status.
 * @see docs/nats.md#unreadable-entries
 */
import { escapeControls } from '../../../base/escape-controls.ts';
import { isLogged, type Log } from '../../../base/log.ts';

export interface AsideEntry {
  readonly bucket: string;
  readonly key: string;
  /** Codes of the decoder, or words. */
  readonly reasons: readonly string[];
}

/** Keys that are counted one by one, and characters of a key that are printed. */
const MAX_KEYS = 1024;
const MAX_KEY_CHARS = 200;
const PLAIN_KEY = /^[\w=.-]{1,200}$/;
/** Entries remembered until {@link SetAside.report} is called. */
const MAX_EARLY = 1024;

export class SetAside {
  readonly #log: Log | undefined;
  /** Bucket and key → how often. */
  readonly #counts = new Map<string, number>();
  #early: AsideEntry[] = [];
  #listener: ((entry: AsideEntry) => void) | undefined;

  constructor(log: Log | undefined) {
    this.#log = log;
  }

  /** Calls `listener` with the entries that were set aside before, and with every later one. */
  report(listener: (entry: AsideEntry) => void): void {
    this.#listener = listener;
    const early = this.#early;
    this.#early = [];
    for (const entry of early) listener(entry);
  }

  note(entry: AsideEntry): void {
    if (this.#listener !== undefined) this.#listener(entry);
    else if (this.#early.length < MAX_EARLY) this.#early.push(entry);
    const { bucket, key, reasons } = entry;
    const full = this.#counts.size >= MAX_KEYS && !this.#counts.has(`${bucket} ${key}`);
    const counted = full ? bucket : `${bucket} ${key}`;
    const count = (this.#counts.get(counted) ?? 0) + 1;
    this.#counts.set(counted, count);
    if (!isLogged(count)) return;
    const shown = escapeControls(key.slice(0, MAX_KEY_CHARS));
    // Another key might end the quotes of a command.
    const remedy = PLAIN_KEY.test(key)
      ? `look at it with: nats kv get ${bucket} '${key}'; remove it with: nats kv del ${bucket} '${key}'`
      : `Handfast makes no such key; list the keys with: nats kv ls ${bucket}; remove it with: nats kv del`;
    this.#log?.error('an entry of a NATS bucket cannot be read; it was set aside and stays there', {
      bucket,
      key: shown,
      reasons,
      count,
      remedy,
    });
  }
}
