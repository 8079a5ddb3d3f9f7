/**
 * The open databases of a host: one file for each principal, one for the shared spaces. Opened for a use, closed when idle; a
 * damaged file is quarantined, and its readable entries are put into a new one.
 */
import { readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { counted } from '../../../base/counted.ts';
import type { Damage } from '../../../base/sqlite/database.ts';
import { isDamage } from '../../../base/sqlite/failure.ts';
import { setAside } from '../../../base/sqlite/file.ts';
import type { DatabaseLoss } from '../../../base/sqlite/losses.ts';
import { memoryFailure } from '../errors.ts';
import { MemoryDatabase } from './database.ts';
import { recover } from './recovery.ts';

const MAX_OPEN = 64;
const IDLE_MS = 5 * 60_000;
/** A database that was used within this time is in use. */
const BUSY_MS = 1000;

interface Opened {
  readonly database: MemoryDatabase;
  /** The inode of the open file; another process may have replaced the file. */
  readonly inode: number;
  /** The number of operations that use it now. */
  users: number;
}

export class Shelf {
  readonly #folder: string;
  readonly #now: () => number;
  readonly #open = new Map<string, Opened>();
  /** Damage that no request has reported yet, by file. */
  readonly #unreported = new Map<string, Error>();

  readonly #lost: (loss: DatabaseLoss) => void;

  /** `lost` is called with the loss of a database when it is opened. `now` counts milliseconds. */
  constructor(
    folder: string,
    lost: (loss: DatabaseLoss) => void = () => {},
    now: () => number = () => performance.now(),
  ) {
    this.#folder = folder;
    this.#lost = lost;
    this.#now = now;
  }

  /** The names of the existing files. */
  get files(): string[] {
    return readdirSync(this.#folder).filter((name) => name.endsWith('.db'));
  }

  get databases(): MemoryDatabase[] {
    return [...this.#open.values()].map(({ database }) => database);
  }

  /**
   * Runs `work` with the database of a file, which stays open meanwhile. Rejects with `memory.damaged` when the file was found
   * to be damaged, now or in the background; the next use finds the new one.
   */
  async use<Result>(file: string, work: (database: MemoryDatabase) => Result | Promise<Result>): Promise<Result> {
    this.#report(file);
    try {
      return await this.useBehind(file, work);
    } catch (thrown) {
      this.#report(file);
      throw thrown;
    }
  }

  /** Throws the damage of a file, once. */
  #report(file: string): void {
    const damage = this.#unreported.get(file);
    this.#unreported.delete(file);
    if (damage !== undefined) throw damage;
  }

  /** Runs background work with the database: the next {@link use} reports damage that it finds. */
  async useBehind<Result>(file: string, work: (database: MemoryDatabase) => Result | Promise<Result>): Promise<Result> {
    const opened = this.#opened(file);
    opened.users += 1;
    opened.database.usedAt = this.#now();
    try {
      return await work(opened.database);
    } catch (thrown) {
      if (!isDamage(thrown)) throw thrown;
      throw this.#replace(file, opened, thrown);
    } finally {
      opened.users -= 1;
    }
  }

  /** Drops the indexes of the least recently searched databases, until the remaining ones hold at most `most` entries. */
  trimIndexes(most: number): void {
    let left = most;
    for (const { database } of [...this.#open.values()].sort(
      (one, other) => other.database.usedAt - one.database.usedAt,
    )) {
      left -= database.index?.size ?? 0;
      // The index in use stays, however large it is.
      if (left < 0 && this.#now() > database.usedAt + BUSY_MS) database.index = undefined;
    }
  }

  /** Closes the databases that have been idle for a while. */
  closeIdle(): void {
    const now = this.#now();
    for (const [file, { database, users }] of this.#open) {
      if (users === 0 && now - database.usedAt > IDLE_MS) this.#close(file);
    }
  }

  closeAll(): void {
    for (const file of [...this.#open.keys()]) this.#close(file);
  }

  /** @param movedTo path of the quarantined file that this one replaces */
  #opened(file: string, movedTo?: string): Opened {
    const known = this.#open.get(file);
    if (known !== undefined && (known.users > 0 || known.inode === this.#inodeOf(file))) return known;
    // Another process has found the file damaged, and replaced it.
    if (known !== undefined) this.#close(file);
    for (const [oldest, { users }] of this.#open) {
      if (this.#open.size < MAX_OPEN) break;
      if (users === 0) this.#close(oldest);
    }
    let damage: Damage | undefined;
    const database = MemoryDatabase.open({
      file: join(this.#folder, file),
      onCorrupt: (found) => {
        damage = found;
      },
      onLoss: this.#lost,
      movedTo,
    });
    const opened = { database, inode: this.#inodeOf(file), users: 0 };
    this.#open.set(file, opened);
    if (damage !== undefined) throw this.#recovered(file, database, damage.movedTo);
    return opened;
  }

  #inodeOf(file: string): number {
    return statSync(join(this.#folder, file), { throwIfNoEntry: false })?.ino ?? 0;
  }

  /** Replaces a file that was found damaged while it was in use. */
  #replace(file: string, opened: Opened, cause: unknown): Error {
    // Another operation has found the damage, too.
    if (this.#open.get(file) !== opened)
      return memoryFailure('damaged', 'the memory was damaged and is replaced', {}, cause);
    this.#open.delete(file);
    opened.database.abandon();
    const movedTo = setAside(join(this.#folder, file), Date.now());
    return this.#recovered(file, this.#opened(file, movedTo).database, movedTo);
  }

  /** Takes over the readable entries; the error reports their number, and the path of the damaged file. */
  #recovered(file: string, database: MemoryDatabase, movedTo: string): Error {
    const { recovered, lost } = recover(movedTo, database);
    const name = basename(movedTo);
    const damage = memoryFailure(
      'damaged',
      `the memory was damaged: ${counted(recovered, 'entry was', 'entries were')} recovered, ${lost} could not be read; the damaged file is ${name} in the data folder of the host; repeat the request`,
      { recovered, lost, file: name },
    );
    this.#unreported.set(file, damage);
    return damage;
  }

  #close(file: string): void {
    this.#open.get(file)?.database.close();
    this.#open.delete(file);
  }
}
