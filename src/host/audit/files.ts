/**
 * The files of an audit: `audit.jsonl` is being written, `audit.jsonl.1` was before it, and so on up to the oldest.
 * Naming, rotation and recovery at start.
 */
import { mkdir, readdir, rename, stat, truncate, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { acquireFileLock } from '../../base/file-lock.ts';
import { openRegular } from '../../base/regular-file.ts';
import { CHAIN_START, type ChainHead, MAX_LINE_BYTES, readLink } from './chain.ts';

/** Bound on hosts that share one audit setting at a time; each beyond the first writes a separate chain. */
const MAX_WRITERS = 64;

/** One file of an audit. */
export interface AuditFile {
  readonly path: string;
  /** 0 for the file being written, 1 for the one before it, … */
  readonly index: number;
}

/** Returns the files of the chain whose newest file is `file`, newest first. Fails as `readdir` does. */
export async function filesOf(file: string): Promise<AuditFile[]> {
  const name = basename(file);
  const files: AuditFile[] = [];
  for (const entry of await readdir(dirname(file))) {
    const suffix = entry.startsWith(name) ? /^(?:\.([1-9]\d{0,5}))?$/.exec(entry.slice(name.length)) : null;
    if (suffix) files.push({ path: join(dirname(file), entry), index: Number(suffix[1] ?? 0) });
  }
  return files.sort((a, b) => a.index - b.index);
}

/**
 * Locks a file that no other running process writes: `file` itself, else `audit-2.jsonl`, `audit-3.jsonl`, … Hosts that
 * an agent starts on its pipes often share one configuration; each gets a separate chain in the same folder.
 */
export async function claim(file: string): Promise<{ path: string; release: () => void }> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  for (let writer = 1; writer <= MAX_WRITERS; writer++) {
    const path = writer === 1 ? file : file.replace(/(\.[^./\\]*)?$/, (ending) => `-${writer}${ending}`);
    const release = acquireFileLock(`${path}.lock`);
    if (release !== undefined) return { path, release };
  }
  throw new Error(`${MAX_WRITERS} other processes write the audit ${file}`);
}

/** Moves every file one number up. Removes nothing: see {@link prune}. */
export async function rotate(file: string): Promise<void> {
  for (const { path, index } of (await filesOf(file)).reverse()) await rename(path, `${file}.${index + 1}`);
}

/** Rules for the files of an audit that stay: see `AuditOptions`. */
export interface AuditRetention {
  readonly maxFiles: number;
  readonly retainMs: number;
  readonly maxTotalBytes: number;
  /** Returns epoch milliseconds. */
  readonly now: () => number;
}

/**
 * Returns the number of files to store, the newest included: `maxFiles`, and beyond them those that are young, as far
 * as all fit. So a clock that is set forward deletes at most the files beyond `maxFiles`.
 */
export async function storedFiles(file: string, rule: AuditRetention): Promise<number> {
  const { maxFiles, retainMs, maxTotalBytes, now } = rule;
  let total = 0;
  let stored = 0;
  for (const { path } of await filesOf(file)) {
    const { size, mtimeMs } = await stat(path);
    total += size;
    const old = retainMs === 0 || now() - mtimeMs > retainMs;
    if (stored >= maxFiles && (old || total > maxTotalBytes)) break;
    stored += 1;
  }
  return Math.max(stored, maxFiles);
}

/**
 * Removes the files beyond `maxFiles`. Called once the first line of the new file, which names the oldest stored line,
 * is on disk: a crash in between leaves a file too many, never a file that counts as missing.
 */
export async function prune(file: string, maxFiles: number): Promise<void> {
  for (const { path, index } of await filesOf(file)) if (index >= maxFiles) await unlink(path);
}

/**
 * Returns the number of the oldest line that {@link prune} will leave, or undefined when its file has no valid first
 * line.
 */
export async function oldestLine(file: string, maxFiles: number): Promise<number | undefined> {
  const stored = (await filesOf(file)).filter(({ index }) => index > 0 && index < maxFiles);
  const oldest = stored.at(-1);
  if (oldest === undefined) return undefined;
  await using handle = await openRegular(oldest.path, 'r');
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_LINE_BYTES), 0, MAX_LINE_BYTES, 0);
  const end = buffer.subarray(0, bytesRead).indexOf(10);
  return end < 0 ? undefined : readLink(buffer.subarray(0, end))?.n;
}

/**
 * Returns the end of the chain at this start. A line that a crash truncated is removed. A file that does not end in an
 * audit line is rotated as if it were full, and a new chain starts: the verifier reports the break.
 */
export async function recover(file: string): Promise<ChainHead> {
  for (const { path, index } of await filesOf(file)) {
    // Numbered files are older and were closed in order; only the newest one that holds a line matters.
    const tail = await readTail(path);
    if (tail.torn && index === 0) await truncate(path, tail.size);
    if (tail.size === 0) continue;
    if (tail.head !== undefined) return tail.head;
    if (index === 0) await rotate(file);
    return CHAIN_START;
  }
  return CHAIN_START;
}

/** Reads the last whole line of a file: its end, whether a truncated line follows it, and its position in the chain. */
async function readTail(path: string): Promise<{ size: number; torn: boolean; head?: ChainHead }> {
  await using handle = await openRegular(path, 'r');
  const { size } = await handle.stat();
  // Room for a whole line and a truncated one after it.
  const length = Math.min(size, 2 * MAX_LINE_BYTES);
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, size - length);
  const tail = buffer.subarray(0, bytesRead);
  const end = tail.lastIndexOf(10);
  if (end < 0) return length < size ? { size, torn: false } : { size: 0, torn: size > 0 };
  const begin = end === 0 ? 0 : tail.lastIndexOf(10, end - 1) + 1;
  const link = readLink(tail.subarray(begin, end));
  const head = link && { n: link.n, hash: link.hash };
  return { size: size - (tail.length - 1 - end), torn: end !== tail.length - 1, head };
}
