/**
 * What an executor stores about each conversation, on disk: the id its program knows it by, and the baselines of counters
 * and outputs that continue from turn to turn. A lost baseline brings old replies and old tokens back, so every change is
 * written before it counts, in one step.
 *
 * Held by the executors of this folder, one file each, in the worker's own folder.
 */
import { mkdirSync, readFileSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import { replaceFile } from '../../base/replace-file.ts';

export interface ContextMapOptions<Entry> {
  /** Absolute path of the file; undefined: in memory only. */
  readonly file: string | undefined;
  /** An entry as it was read from the file; undefined drops it. */
  readonly read: (value: Readonly<Record<string, unknown>>) => Entry | undefined;
  /** Most conversations; the one used longest ago goes first. Default 10,000. */
  readonly maxEntries?: number;
  /** Called once when the file could not be read; it is quarantined then. */
  readonly damaged?: (kept: string) => void;
}

const MAX_ENTRIES = 10_000;

export class ContextMap<Entry extends object> {
  readonly #options: ContextMapOptions<Entry>;
  /** The one used longest ago first. */
  readonly #entries: Map<string, Entry>;
  #changes = 0;
  #written = 0;
  #writing: Promise<void> | undefined;

  /** Reads the file; a damaged one is renamed to `<file>.damaged`. Throws what the file system throws otherwise. */
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

  /** Resolves when it is on disk. Rejects as the file system does; it counts in memory all the same. */
  set(contextId: string, entry: Entry): Promise<void> {
    this.#entries.delete(contextId);
    this.#entries.set(contextId, entry);
    const { maxEntries = MAX_ENTRIES } = this.#options;
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= maxEntries) break;
      this.#entries.delete(oldest);
    }
    return this.#save();
  }

  /** Resolves when it is removed from the disk. */
  delete(contextId: string): Promise<void> {
    return this.#entries.delete(contextId) ? this.#save() : Promise.resolve();
  }

  /** Writes one at a time; what changes meanwhile goes into the next one. */
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

  async #write(file: string): Promise<void> {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    await replaceFile(file, JSON.stringify([...this.#entries]));
  }
}

function load<Entry>(file: string, { read, damaged }: ContextMapOptions<Entry>): Map<string, Entry> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map();
    throw error;
  }
  try {
    const entries = new Map<string, Entry>();
    for (const [contextId, value] of JSON.parse(text) as [unknown, unknown][]) {
      if (typeof contextId !== 'string' || typeof value !== 'object' || value === null) continue;
      const entry = read(value as Record<string, unknown>);
      if (entry !== undefined) entries.set(contextId, entry);
    }
    return entries;
  } catch {
    const kept = `${file}.damaged`;
    renameSync(file, kept);
    damaged?.(kept);
    return new Map();
  }
}
