/**
 * The folders and files that this user has trusted: one private file, `trust.json` in the Handfast folder of the user.
 *
 * A missing file trusts nothing, and a file that cannot be read or parsed fails: missing data must never mean trust.
 * Writers hold a lock between processes and replace the file whole.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type Log, silentLog } from '../base/log.ts';
import { ensurePrivateFolder, readPrivateFile, writePrivateFile } from '../base/private-file.ts';
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';

/** Subjects of an entry. */
export const subjects = ['handfast.yaml', 'fleet.yaml', 'skills', 'agent files', 'repository'] as const;
export type TrustSubject = (typeof subjects)[number];

/** One trusted subject of this user. */
export interface TrustEntry {
  /** The identity of the repository; see `repository.ts`. */
  readonly repository: string;
  /** The folder, from the top of the working tree; `''` for the top. */
  readonly folder: string;
  readonly subject: TrustSubject;
  /** Absolute path of the folder when it was trusted; other worktrees of the repository have others. */
  readonly path: string;
  /** Every file that was looked at: its path from the top (absolute outside of it) → {@link digestOf}, or `absent`. */
  readonly files: Readonly<Record<string, string>>;
  /** RFC 3339. */
  readonly added_at: string;
}

/** Most entries stored; beyond it the oldest are dropped, which means asking again. */
const MAX_ENTRIES = 2000;
/** Time to wait for another process that writes, and between two tries. */
const LOCK_MS = 5000;
const LOCK_RETRY_MS = 25;

export interface TrustStoreOptions {
  /** The Handfast folder of the user. */
  readonly home: string;
  readonly log?: Log;
}

export class TrustStore {
  /** `trust.json`. */
  readonly file: string;
  readonly #home: string;
  readonly #log: Log;
  #cached: { readonly stamp: string; readonly entries: readonly TrustEntry[] } | undefined;

  constructor({ home, log = silentLog }: TrustStoreOptions) {
    this.#home = home;
    this.#log = log;
    this.file = join(home, 'trust.json');
  }

  /** Returns all entries, the oldest first; read again only when the file has changed. Fails with `config_invalid`. */
  async entries(): Promise<readonly TrustEntry[]> {
    const stamp = this.stamp();
    if (this.#cached?.stamp === stamp) return this.#cached.entries;
    const entries = await this.#read();
    this.#cached = { stamp, entries };
    return entries;
  }

  /** Differs whenever the file was replaced. */
  stamp(): string {
    const found = statSync(this.file, { bigint: true, throwIfNoEntry: false });
    return found === undefined ? '' : `${found.dev} ${found.ino} ${found.mtimeNs} ${found.ctimeNs} ${found.size}`;
  }

  /** Adds entries; an equal one is replaced. Fails with `config_invalid`, `disk_full`, `runtime_error`, `over_capacity`. */
  async add(added: readonly TrustEntry[]): Promise<void> {
    const keys = new Set(added.map(keyOf));
    await this.#change((entries) => [...entries.filter((entry) => !keys.has(keyOf(entry))), ...added]);
  }

  /** Removes the entries that match; resolves with them. Fails as {@link add}. */
  async remove(matches: (entry: TrustEntry) => boolean): Promise<readonly TrustEntry[]> {
    let removed: readonly TrustEntry[] = [];
    await this.#change((entries) => {
      removed = entries.filter(matches);
      return removed.length === 0 ? undefined : entries.filter((entry) => !matches(entry));
    });
    return removed;
  }

  async #change(next: (entries: readonly TrustEntry[]) => readonly TrustEntry[] | undefined): Promise<void> {
    await ensurePrivateFolder(this.#home);
    const release = await this.#lock();
    try {
      const entries = next(await this.#read());
      if (entries === undefined) return;
      await writePrivateFile(
        this.file,
        `${JSON.stringify({ version: 1, entries: entries.slice(-MAX_ENTRIES) }, null, 2)}\n`,
      );
    } finally {
      release();
    }
  }

  async #lock(): Promise<() => void> {
    // The lock is that of SQLite, which a process that only reads need not load.
    const { waitForFileLock } = await import('../base/file-lock.ts');
    const release = await waitForFileLock(join(this.#home, 'trust.lock'), { ms: LOCK_MS, pollMs: LOCK_RETRY_MS });
    if (release === undefined) throw fail('over_capacity', 'another process is changing what is trusted; try again');
    return release;
  }

  async #read(): Promise<readonly TrustEntry[]> {
    // Checked before its permissions are corrected: another user that could write it may have trusted a folder.
    const { mode = 0 } = statSync(this.file, { throwIfNoEntry: false }) ?? {};
    if (process.platform !== 'win32' && (mode & 0o022) !== 0) {
      const advice = 'remove it and trust your folders again';
      throw fail('config_invalid', `other users could change ${this.file}; ${advice}`, { path: this.file });
    }
    const text = await readPrivateFile(this.file, this.#log);
    if (text === undefined) return [];
    try {
      const stored: unknown = JSON.parse(text);
      if (isObject(stored) && stored.version === 1 && Array.isArray(stored.entries) && stored.entries.every(isEntry)) {
        return stored.entries as TrustEntry[];
      }
    } catch {
      // The same failure as for JSON of another shape.
    }
    throw fail('config_invalid', `${this.file} cannot be understood; remove it and trust your folders again`, {
      path: this.file,
    });
  }
}

const keyOf = ({ repository, folder, subject, files }: TrustEntry): string =>
  JSON.stringify([repository, folder, subject, Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1))]);

function isEntry(value: unknown): value is TrustEntry {
  if (!isObject(value) || !isObject(value.files)) return false;
  const texts = [value.repository, value.folder, value.subject, value.path, value.added_at];
  return [...texts, ...Object.values(value.files)].every((text) => typeof text === 'string');
}
