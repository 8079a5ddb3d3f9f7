/**
 * One small file for each process that has started children, in the user's Handfast folder: the identity of the
 * process, the marker of its children, and the running ones. The file is removed when the process ends in order. A file
 * that remains belongs to a process that was killed; processes that its children left running are ended.
 *
 * The watcher of a process reads the file when the process ends. The next Handfast program that starts reads the files
 * of processes that lost their watcher.
 */
import { closeSync, mkdirSync, openSync, renameSync, unlinkSync, writeSync } from 'node:fs';
import { readdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject } from '../../wire/json.ts';
import { readRegular } from '../regular-file.ts';
import { endDescendants, type Leader } from './descendants.ts';
import { isRunning, startOf, systemIdentity } from './process-table.ts';

/** The process that wrote a record, and the marks by which its children are found. */
export interface RecordOwner {
  readonly pid: number;
  readonly started: number;
  /** Boot and namespace: elsewhere its process ids mean nothing. */
  readonly system: string;
  readonly marker: string;
}

/** Bytes a running child takes, so that each can be written and blanked in its place. */
const SLOT_BYTES = 32;
/** Bound of a record; a larger file was not written by Handfast. */
const MAX_RECORD_BYTES = 1024 * 1024;
/** Time for SIGTERM before SIGKILL. Twice that, with the search around it, stays well below ten seconds. */
const GRACE_MS = 2_000;
/** A record of another boot or container, which a folder shared with it may hold. */
const FOREIGN_RECORD_MS = 30 * 24 * 60 * 60 * 1000;
/** A marker that was cut short would be found in every process. */
const MARKER = /^[0-9a-f]{32}\.$/;

const folderOf = (home: string): string => join(home, 'children');

/** The file of this process. Writing to it never throws: without it the marker still finds the started processes. */
export class ChildRecord {
  readonly file: string;
  readonly #descriptor: number;
  readonly #header: number;
  readonly #slots: (number | undefined)[] = [];

  /** Throws when the folder cannot be written to. */
  constructor(home: string, marker: string) {
    const folder = folderOf(home);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const owner: RecordOwner = { pid: process.pid, started: startOf(process.pid), system: systemIdentity(), marker };
    const header = `${JSON.stringify(owner)}\n`;
    this.file = join(folder, `${process.pid}-${marker.slice(0, 8)}.json`);
    this.#header = header.length;
    // A reader must not find a record that is not whole.
    const draft = `${this.file}.new`;
    this.#descriptor = openSync(draft, 'wx', 0o600);
    writeSync(this.#descriptor, header);
    renameSync(draft, this.file);
  }

  add({ pid, started }: Leader): void {
    const free = this.#slots.indexOf(undefined);
    const at = free < 0 ? this.#slots.length : free;
    this.#slots[at] = pid;
    this.#write(at, `${pid} ${started}`);
  }

  remove(pid: number): void {
    const at = this.#slots.indexOf(pid);
    if (at < 0) return;
    this.#slots[at] = undefined;
    this.#write(at, '');
  }

  /** Removes the file: this process ends in good order. */
  close(): void {
    try {
      closeSync(this.#descriptor);
      unlinkSync(this.file);
    } catch {
      // Removed by someone else, or the disk cannot be written to.
    }
  }

  #write(at: number, text: string): void {
    try {
      writeSync(this.#descriptor, `${text.padEnd(SLOT_BYTES - 1)}\n`, this.#header + at * SLOT_BYTES);
    } catch {
      // The disk is full.
    }
  }
}

interface StoredRecord extends RecordOwner {
  readonly leaders: readonly Leader[];
}

async function readRecord(file: string): Promise<StoredRecord | undefined> {
  try {
    const text = await readRegular(file);
    if (text.length > MAX_RECORD_BYTES) return undefined;
    const [header = '', ...slots] = text.split('\n');
    const owner: unknown = JSON.parse(header);
    if (!isObject(owner)) return undefined;
    const { pid, started, system, marker } = owner;
    if (!Number.isSafeInteger(pid) || typeof started !== 'number' || typeof system !== 'string') return undefined;
    if (typeof marker !== 'string' || !MARKER.test(marker)) return undefined;
    const leaders = slots.map((slot) => slot.trim().split(' ').map(Number)).filter(([leader = 0]) => leader > 1);
    return {
      pid: pid as number,
      started,
      system,
      marker,
      leaders: leaders.map(([leader = 0, start = Number.NaN]) => ({ pid: leader, started: start })),
    };
  } catch {
    return undefined;
  }
}

/**
 * Ends processes that the children of a killed process left running, and removes its record. Runs in the watcher, right
 * after that process has ended. Without a record, only `marker` and `since` are known.
 */
export async function reap(file: string, marker: string, since: number): Promise<void> {
  const { leaders } = (await readRecord(file)) ?? { leaders: [] };
  if (await endDescendants({ marker, leaders, since }, { graceMs: GRACE_MS })) await unlink(file).catch(() => {});
}

/**
 * Ends processes that the children of killed processes of this user left running, if their watcher did not; resolves
 * with the number of such processes. Never touches a process whose identity is not certain. Never rejects.
 */
export async function sweep(home: string, now: () => number = Date.now): Promise<number> {
  const folder = folderOf(home);
  let swept = 0;
  for (const name of await readdir(folder).catch(() => [])) {
    const file = join(folder, name);
    const record = await readRecord(file);
    if (record === undefined || record.system !== systemIdentity()) {
      const writtenMs = await stat(file).then(
        ({ mtimeMs }) => mtimeMs,
        () => undefined,
      );
      if (writtenMs !== undefined && now() - writtenMs > FOREIGN_RECORD_MS) await unlink(file).catch(() => {});
      continue;
    }
    if (await isRunning(record)) continue;
    // A group that has lost its leader may be another one by now.
    const running = await Promise.all(record.leaders.map(isRunning));
    const leaders = record.leaders.filter((_, at) => running[at]);
    if (await endDescendants({ marker: record.marker, leaders, since: record.started }, { graceMs: GRACE_MS })) {
      await unlink(file).catch(() => {});
    }
    swept += 1;
  }
  return swept;
}
