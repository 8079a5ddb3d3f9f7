/**
 * Stores the data of an executor about each conversation: the id its program uses, and the baselines of counters and outputs
 * that continue from turn to turn. A lost baseline would report old replies and old tokens again. Every change therefore
 * replaces the file atomically.
 *
 * One file for each executor, in the worker's own folder.
 */
import { renameSync } from 'node:fs';
import { readBounded } from '../../base/bounded-file.ts';
import { setNewest } from '../../base/evict-oldest.ts';
import { replaceFile } from '../../base/replace-file.ts';
import { fail } from '../../wire/errors.ts';

export interface ContextMapOptions<Entry> {
  /** Absolute path of the file; undefined: in memory only. */
  readonly file: string | undefined;
  /** An entry as it was read from the file; undefined drops it. */
  readonly read: (value: Readonly<Record<string, unknown>>) => Entry | undefined;
  /** Maximum number of conversations; the least recently used one is evicted. Default 10,000. */
  readonly maxEntries?: number;
  /** Called once with the new path when a damaged file was quarantined. */
  readonly damaged?: (movedTo: string) => void;
}

const MAX_ENTRIES = 10_000;
const MAX_BYTES = 512 * 1024 * 1024;

export class ContextMap<Entry extends object> {
  readonly #options: ContextMapOptions<Entry>;
  /** Least recently used first. */
  readonly #entries: Map<string, Entry>;
  #changes = 0;
  #written = 0;
  #writing: Promise<void> | undefined;

  /** Reads the file; a damaged one is renamed to `<file>.damaged`. Fails with `runtime_error` where it cannot be read. */
  constructor(options: ContextMapOptions<Entry>) {
    this.#options = options;
    this.#entries = options.file === undefined ? new Map() : load(options.file, options);
  }

  get(contextId: string): Entry | undefined {
    return this.#entries.get(contextId);
  }

  has(contextId: string): boolean {
    return this.#entries.has(contextId);
  }

  /** Resolves when the entry is on disk. Rejects as the file system does; the entry stays in memory even then. */
  set(contextId: string, entry: Entry): Promise<void> {
    setNewest(this.#entries, contextId, entry, this.#options.maxEntries ?? MAX_ENTRIES);
    return this.#save();
  }

  /** Resolves when it is removed from the disk. */
  delete(contextId: string): Promise<void> {
    return this.#entries.delete(contextId) ? this.#save() : Promise.resolve();
  }

  /** Writes one at a time; changes in the meantime go into the next one. */
  async #save(): Promise<void> {
    const { file } = this.#options;
    if (file === undefined) return;
    const mine = ++this.#changes;
    while (this.#written < mine) {
      if (this.#writing === undefined) {
        const upTo = this.#changes;
        this.#writing = this.#write(file)
          .then(() => {
            this.#written = upTo;
          })
          .finally(() => {
            this.#writing = undefined;
          });
      }
      await this.#writing;
    }
  }

  #write(file: string): Promise<void> {
    return replaceFile(file, JSON.stringify([...this.#entries]));
  }
}

function load<Entry>(file: string, { read, damaged }: ContextMapOptions<Entry>): Map<string, Entry> {
  const found = readBounded(file, MAX_BYTES);
  if (found.kind === 'absent') return new Map();
  if (found.kind !== 'file') {
    const message = `the conversations of an executor cannot be read: ${file} ${found.reason}; move it away, or correct its rights`;
    throw fail('runtime_error', message, { file });
  }
  try {
    const entries = new Map<string, Entry>();
    for (const [contextId, value] of JSON.parse(found.bytes.toString()) as [unknown, unknown][]) {
      if (typeof contextId !== 'string' || typeof value !== 'object' || value === null) continue;
      const entry = read(value as Record<string, unknown>);
      if (entry !== undefined) entries.set(contextId, entry);
    }
    return entries;
  } catch {
    const movedTo = `${file}.damaged`;
    renameSync(file, movedTo);
    damaged?.(movedTo);
    return new Map();
  }
}
