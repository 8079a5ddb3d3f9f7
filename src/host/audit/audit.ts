/**
 * The audit: one line per handled request, in a file that only its owner can read. Principal, type, sizes, duration,
 * outcome; never a body, a token or an argument.
 *
 * It records every request and every refused handshake. `record` only queues. Lines are composed, chained and written
 * after the replies of the same event-loop turn are sent: immediately when idle, at most 125 times a second under load.
 * A failing disk never fails a request: failures are counted, retried, and reported in the host's health. `chain.ts`
 * has the line format and the facts that it proves.
 */

import { type FileHandle, stat } from 'node:fs/promises';
import { Backoff } from '../../base/backoff.ts';
import { storeFailed, storeWorks } from '../../base/failing-stores.ts';
import { within } from '../../base/race.ts';
import { openRegular } from '../../base/regular-file.ts';
import { sqliteFailure } from '../../base/sqlite/failure.ts';
import { type ChainHead, clip, createSealer, DROPPED, ROTATED, type SealedLine } from './chain.ts';
import { claim, oldestLine, prune, recover, rotate, storedFiles } from './files.ts';
import type { AuditRecord } from './record.ts';
import { Repeats } from './repeats.ts';

export type { AuditRecord };

export interface AuditOptions {
  /** The file being written; rotated ones get the suffix `.1`, `.2`, …. Its folder is created for its owner only. */
  readonly file: string;
  /** A line that would exceed this size starts a new file. Bytes. */
  readonly maxBytes: number;
  /** Files that are always stored, the one being written included; at least 2. */
  readonly maxFiles: number;
  /** Files beyond those are stored for so long after their last line, milliseconds. Default 0. */
  readonly retainMs?: number;
  /** But all files together have at most this size. Bytes; default: no bound but the other two. */
  readonly maxTotalBytes?: number;
  /** Lines one principal may write on average; past that its requests are counted. Default: no bound. See `repeats.ts`. */
  readonly linesPerMinute?: number;
  /** Force every batch to disk before the next. Default false: then on rotation and close only. */
  readonly fsync?: boolean;
  /** Records that may wait for the disk; past that they are dropped and counted. Default 32,768: a few megabytes. */
  readonly queueLimit?: number;
  /** First delay after a failed write, doubled up to 30 s. Default 500. */
  readonly retryMs?: number;
  /** Returns epoch milliseconds, for the audit's own lines. */
  readonly now?: () => number;
}

/** The state of the audit, for health and metrics. */
export interface AuditHealth {
  /** The file this process writes; undefined until the first line. */
  readonly file: string | undefined;
  /** Lines this process wrote to disk. */
  readonly written: number;
  /** Records not yet written. */
  readonly queued: number;
  /** Records lost because the queue was full, or because the disk still failed at the close. */
  readonly dropped: number;
  /** Requests that share a line with others, because their principal makes too many. */
  readonly counted: number;
  /** Attempts to open, write or rotate that failed. */
  readonly failures: number;
  /** The last failure; undefined once writing works again. */
  readonly lastError: string | undefined;
  /** Noted elsewhere, it proves later that the end of the log was not cut off (`expectedHead` of `verifyAudit`). */
  readonly head: ChainHead | undefined;
}

/** An open audit. */
export interface Audit {
  /** Queues one record. Never throws, never waits. The record must not be changed afterwards. */
  record(record: AuditRecord): void;
  readonly health: AuditHealth;
  /**
   * Creates the file, so that a program that starts before the first record finds it covered. Must be called before the
   * first record. Never rejects: a record that cannot be written reports the reason.
   */
  prepare(): Promise<void>;
  /** Resolves when all queued records are written, or a write has failed. Never rejects. */
  flush(): Promise<void>;
  /** Writes the queued records, for at most `timeoutMs` (default 2,000), and closes. Never rejects; idempotent. */
  close(timeoutMs?: number): Promise<void>;
}

/** Opens an audit. No file is opened before {@link Audit.prepare} or the first record. */
export function openAudit(options: AuditOptions): Audit {
  return new AuditWriter(options);
}

/** Lines composed in one step: about 1 ms of work, and enough for a busy host on a slow disk. */
const BATCH_LINES = 1_024;
/**
 * Least time from one write to the next: a write costs as much as ten lines, so under load lines share one. Longer pauses let
 * records live until the collector of young objects copies them, which costs more than the writes they save.
 */
const PAUSE_MS = 8;
const MAX_RETRY_MS = 30_000;
/** Time for which requests of a principal that makes too many are counted before the count is written. */
const COUNT_MS = 15_000;
/** Interval of the check that the file has not been removed or replaced. */
const CHECK_FILE_MS = 1_000;

/** Lines that are chained but not yet on disk. They are written again as they are, so that a failed write breaks no chain. */
interface Batch {
  readonly bytes: Buffer;
  readonly lines: number;
  readonly head: ChainHead;
  /** Dropped records that a line of this batch reports. */
  readonly reportedDrops: number;
}

interface OpenFile {
  readonly handle: FileHandle;
  readonly inode: number;
  /** Set for a file that continues a chain and is still empty: the oldest stored line, for its {@link ROTATED} line. */
  readonly oldest: number | undefined;
  size: number;
  /** Files that stay when this one has its first line. */
  readonly stored: number;
  /** Length of that first line: a file always gets one line after it, however small `maxBytes` is. */
  headerBytes: number;
  /** The last write failed halfway: the bytes beyond `size` are removed before the next. */
  torn: boolean;
  checkedMs: number;
}

class AuditWriter implements Audit {
  readonly #options: Required<AuditOptions>;
  #queue: AuditRecord[] = [];
  #batch: Batch | undefined;
  #seal: ((open: string) => SealedLine) | undefined;
  #place: { path: string; release: () => void } | undefined;
  #file: OpenFile | undefined;
  #head: ChainHead | undefined;
  #running: Promise<void> | undefined;
  /** Ends the pause before a waiting run. */
  #endPause: () => void = () => undefined;
  #lastRunMs = Number.NEGATIVE_INFINITY;
  #retry: NodeJS.Timeout | undefined;
  readonly #retryDelay: Backoff;
  #closing: Promise<void> | undefined;
  readonly #repeats: Repeats;
  #counts: NodeJS.Timeout | undefined;
  #written = 0;
  #dropped = 0;
  #unreportedDrops = 0;
  #failures = 0;
  #lastError: string | undefined;

  constructor(options: AuditOptions) {
    const never = Number.POSITIVE_INFINITY;
    const unbounded = { retainMs: 0, maxTotalBytes: never, linesPerMinute: never };
    this.#options = { ...unbounded, fsync: false, queueLimit: 32_768, retryMs: 500, now: Date.now, ...options };
    this.#repeats = new Repeats(this.#options.linesPerMinute);
    this.#retryDelay = new Backoff({ firstDelayMs: this.#options.retryMs, maxDelayMs: MAX_RETRY_MS });
  }

  get health(): AuditHealth {
    return {
      file: this.#place?.path,
      written: this.#written,
      queued: this.#queue.length + (this.#batch?.lines ?? 0),
      dropped: this.#dropped,
      counted: this.#repeats.counted,
      failures: this.#failures,
      lastError: this.#lastError,
      head: this.#head,
    };
  }

  record(record: AuditRecord): void {
    if (this.#closing === undefined && !this.#repeats.admit(record)) {
      this.#counts ??= setTimeout(this.#writeCounts, COUNT_MS).unref();
      return;
    }
    this.#queueLine(record);
  }

  readonly #writeCounts = (): void => {
    clearTimeout(this.#counts);
    this.#counts = undefined;
    for (const record of this.#repeats.take()) this.#queueLine(record);
  };

  #queueLine(record: AuditRecord): void {
    if (this.#closing !== undefined || this.#queue.length >= this.#options.queueLimit) {
      this.#dropped++;
      this.#unreportedDrops++;
      return;
    }
    this.#queue.push(record);
    if (this.#running === undefined && this.#retry === undefined) this.#start();
    else if (this.#queue.length * 2 >= this.#options.queueLimit) this.#endPause();
  }

  async prepare(): Promise<void> {
    await this.#open().catch(() => {});
  }

  async flush(): Promise<void> {
    // Records that arrive during the last write start another run.
    while (this.#running !== undefined) {
      this.#endPause();
      await this.#running;
    }
  }

  close(timeoutMs = 2_000): Promise<void> {
    if (this.#closing === undefined) this.#writeCounts();
    this.#closing ??= this.#finish(timeoutMs);
    return this.#closing;
  }

  async #finish(timeoutMs: number): Promise<void> {
    await within(this.#finishWriting(), timeoutMs);
    this.#dropped += this.#queue.length + (this.#batch?.lines ?? 0);
    this.#queue = [];
    this.#batch = undefined;
    this.#unreportedDrops = 0;
  }

  async #finishWriting(): Promise<void> {
    await this.flush();
    this.#cancelRetry();
    if (this.#hasWork()) await this.#drain();
    // A failure of this write has scheduled a retry, which would run after the close.
    this.#cancelRetry();
    await this.#closeFile()
      .finally(() => this.#place?.release())
      .catch((cause) => this.#failed(cause));
    storeWorks(this);
  }

  #cancelRetry(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
  }

  #hasWork(): boolean {
    return this.#batch !== undefined || this.#queue.length > 0 || this.#unreportedDrops > 0;
  }

  /** Starts a run after the I/O of this event-loop turn, so that replies are sent first, or after the pause. */
  #start(): void {
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const waitMs = this.#lastRunMs + PAUSE_MS - performance.now();
    if (waitMs > 0) {
      const timer = setTimeout(start, waitMs);
      this.#endPause = () => {
        clearTimeout(timer);
        start();
      };
    } else setImmediate(start);
    this.#running = started
      .then(() => this.#drain())
      .finally(() => {
        this.#running = undefined;
        this.#endPause = () => undefined;
        this.#lastRunMs = performance.now();
        if (this.#retry === undefined && this.#closing === undefined && this.#hasWork()) this.#start();
      });
  }

  /** Writes until the queue is empty or a step fails. Never rejects. */
  async #drain(): Promise<void> {
    try {
      while (this.#hasWork()) {
        const file = await this.#open();
        this.#batch ??= this.#compose(file);
        if (this.#batch === undefined) await this.#rotate();
        else await this.#write(file, this.#batch);
      }
    } catch (cause) {
      this.#failed(cause);
      this.#retry = setTimeout(() => {
        this.#retry = undefined;
        this.#start();
      }, this.#retryDelay.next());
      // A disk that fails for ever must not keep the process alive.
      this.#retry.unref();
    }
  }

  #failed(cause: unknown): void {
    this.#failures++;
    this.#lastError = cause instanceof Error ? cause.message : String(cause);
    storeFailed(this, 'the audit', sqliteFailure(cause, 'the audit'), false);
  }

  /** Returns the open file; opens it first, and again after it was removed or replaced. */
  async #open(): Promise<OpenFile> {
    this.#place ??= await claim(this.#options.file);
    this.#head ??= await recover(this.#place.path);
    const now = performance.now();
    if (this.#file !== undefined && now - this.#file.checkedMs >= CHECK_FILE_MS) {
      this.#file.checkedMs = now;
      const found = await stat(this.#place.path).catch(() => undefined);
      // Removed or replaced: lines written through the old handle would be lost.
      if (found?.ino !== this.#file.inode) await this.#closeFile();
    }
    if (this.#file !== undefined) return this.#file;
    const handle = await openRegular(this.#place.path, 'a');
    try {
      const { ino, size, mode } = await handle.stat();
      if ((mode & 0o077) !== 0) await handle.chmod(0o600);
      // Without older files the chain should be complete from its first line.
      const continues = size === 0 && this.#head.n > 0;
      const stored = continues ? await storedFiles(this.#place.path, this.#options) : 0;
      const oldest = continues ? ((await oldestLine(this.#place.path, stored)) ?? 1) : undefined;
      this.#file = { handle, inode: ino, oldest, stored, size, headerBytes: 0, torn: false, checkedMs: now };
      return this.#file;
    } catch (cause) {
      await handle.close();
      throw cause;
    }
  }

  /** Composes the next lines; undefined when the file has no space for one more. */
  #compose(file: OpenFile): Batch | undefined {
    const lines: string[] = [];
    let bytes = 0;
    let { n, hash } = this.#head!;
    this.#seal ??= createSealer();
    const seal = this.#seal;
    const add = (open: string): boolean => {
      const sealed = seal(open);
      const size = file.size + bytes;
      if (size > file.headerBytes && size + sealed.bytes > this.#options.maxBytes) return false;
      lines.push(sealed.line);
      bytes += sealed.bytes;
      n++;
      hash = sealed.hash;
      return true;
    };
    if (file.size === 0 && file.oldest !== undefined) {
      file.headerBytes = 0;
      add(JSON.stringify({ n: n + 1, time: this.#options.now(), type: ROTATED, oldest: file.oldest, prev: hash }));
      file.headerBytes = bytes;
    }
    let composed = 0;
    let full = false;
    while (!full && composed < this.#queue.length && lines.length < BATCH_LINES) {
      const open = openLine(n + 1, this.#queue[composed]!, hash);
      if (open === undefined) {
        // Not a valid record. It must not block the records after it.
        composed++;
        this.#dropped++;
        this.#unreportedDrops++;
      } else if (add(open)) composed++;
      else full = true;
    }
    // Records are dropped after those in the queue arrived, so this line comes last.
    let reportedDrops = 0;
    if (!full && composed === this.#queue.length && this.#unreportedDrops > 0) {
      const count = this.#unreportedDrops;
      const open = JSON.stringify({ n: n + 1, time: this.#options.now(), type: DROPPED, count, prev: hash });
      if (add(open)) reportedDrops = count;
    }
    this.#queue.splice(0, composed);
    if (lines.length === 0) return undefined;
    return { bytes: Buffer.from(lines.join('')), lines: lines.length, head: { n, hash }, reportedDrops };
  }

  async #write(file: OpenFile, batch: Batch): Promise<void> {
    if (file.torn) {
      await file.handle.truncate(file.size);
      file.torn = false;
    }
    try {
      for (let offset = 0; offset < batch.bytes.length; ) {
        offset += (await file.handle.write(batch.bytes, offset)).bytesWritten;
      }
      if (this.#options.fsync) await file.handle.datasync();
    } catch (cause) {
      file.torn = true;
      throw cause;
    }
    const startsFile = file.size === 0 && file.oldest !== undefined;
    file.size += batch.bytes.length;
    this.#head = batch.head;
    this.#written += batch.lines;
    this.#unreportedDrops -= batch.reportedDrops;
    this.#batch = undefined;
    this.#lastError = undefined;
    storeWorks(this);
    this.#retryDelay.reset();
    if (!startsFile) return;
    await file.handle.datasync();
    await prune(this.#place!.path, file.stored);
  }

  async #rotate(): Promise<void> {
    await this.#closeFile();
    await rotate(this.#place!.path);
  }

  async #closeFile(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    if (file === undefined) return;
    try {
      if (file.torn) await file.handle.truncate(file.size);
      await file.handle.datasync();
    } finally {
      await file.handle.close();
    }
  }
}

/**
 * Returns a record as an open line (see `createSealer`); undefined for a value that is not a record. `JSON.stringify`
 * leaves out fields that are undefined.
 */
function openLine(n: number, record: AuditRecord, prev: string): string | undefined {
  try {
    return JSON.stringify({
      n,
      time: record.time,
      session: clip(record.session),
      principal: clip(record.principal),
      task: record.task && clip(record.task),
      peer: record.peer && clip(record.peer),
      type: clip(record.type),
      tool: record.tool && clip(record.tool),
      via: record.via && clip(record.via),
      by: record.by,
      request_bytes: record.request_bytes,
      reply_bytes: record.reply_bytes,
      duration_ms: record.duration_ms,
      outcome: record.outcome,
      error_code: record.error_code,
      reason: record.reason,
      count: record.count,
      since: record.since,
      prev,
    });
  } catch {
    return undefined;
  }
}
