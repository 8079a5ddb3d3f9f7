/**
 * The audit: one line per handled request, in a file nobody but its owner can read. Who, what, sizes, duration,
 * outcome; never a body, a token or an argument.
 *
 * Written by the host for every request and every refused handshake. `record` only queues; lines are made, chained and
 * written after the replies of the same turn have left: at once when it is quiet, at most 125 times a second under load.
 * A failing disk never fails a request: it is counted, retried, and shown in the host's health. The line format and what
 * it proves are in `chain.ts`.
 */

import { type FileHandle, open, stat } from 'node:fs/promises';
import { Backoff } from '../../base/backoff.ts';
import { within } from '../../base/race.ts';
import { type ChainHead, clip, createSealer, DROPPED, ROTATED, type SealedLine } from './chain.ts';
import { claim, oldestLine, prune, recover, rotate } from './files.ts';

/** One handled request. The fields stand in the file under these names. */
export interface AuditRecord {
  /** When it arrived, epoch milliseconds. */
  readonly time: number;
  /** Session id; `''` before the handshake. */
  readonly session: string;
  /** Name of the principal; `''` while it is unknown. */
  readonly principal: string;
  /** Address of the peer, where it matters: handshakes. */
  readonly peer?: string;
  /** Message type, e.g. `tool/call/req`. */
  readonly type: string;
  /** Name of the tool, for tool calls. */
  readonly tool?: string;
  /** Type of the request that made this call, for calls between capabilities. */
  readonly via?: string;
  readonly request_bytes: number;
  readonly reply_bytes: number;
  readonly duration_ms: number;
  readonly outcome: 'ok' | 'error' | 'cancelled' | 'refused';
  /** Error code of the reply, when it was an error. */
  readonly error_code?: string;
}

export interface AuditOptions {
  /** The file being written; rotated ones get `.1`, `.2`, … behind. Its folder is made, for its owner only. */
  readonly file: string;
  /** A line that would make the file longer starts a new one. Bytes. */
  readonly maxBytes: number;
  /** Files kept, the one being written included; at least 2. */
  readonly maxFiles: number;
  /** Force every batch to disk before the next. Default false: then on rotation and close only. */
  readonly fsync?: boolean;
  /** Records that may wait for the disk; past that they are dropped and counted. Default 32,768: a few megabytes. */
  readonly queueLimit?: number;
  /** First wait after a failed write, doubled up to 30 s. Default 500. */
  readonly retryMs?: number;
  /** Epoch milliseconds, for the audit's own lines. */
  readonly now?: () => number;
}

/** How the audit is doing, for health and metrics. */
export interface AuditHealth {
  /** The file this process writes; undefined until the first line. */
  readonly file: string | undefined;
  /** Lines on disk, by this process. */
  readonly written: number;
  /** Records waiting. */
  readonly queued: number;
  /** Records lost because the queue was full, or because the disk still failed at the close. */
  readonly dropped: number;
  /** Attempts to open, write or rotate that failed. */
  readonly failures: number;
  /** The last failure; undefined once writing works again. */
  readonly lastError: string | undefined;
  /** Note it elsewhere to be able to prove that the end of the log was not cut off (`expectedHead` of `verifyAudit`). */
  readonly head: ChainHead | undefined;
}

/** An open audit. */
export interface Audit {
  /** Takes one record. Never throws, never waits. The record must not be changed afterwards. */
  record(record: AuditRecord): void;
  readonly health: AuditHealth;
  /** Resolves when what was recorded is written, or a write has failed. Never rejects. */
  flush(): Promise<void>;
  /** Writes what is left, for at most `timeoutMs` (default 2,000), and closes. Never rejects; idempotent. */
  close(timeoutMs?: number): Promise<void>;
}

/** Opens an audit. Nothing is touched before the first record. */
export function openAudit(options: AuditOptions): Audit {
  return new AuditWriter(options);
}

/** Lines made in one go: about 1 ms of work, and enough for a write to keep up with a busy host on a slow disk. */
const BATCH_LINES = 1_024;
/**
 * Least time from one write to the next: a write costs as much as ten lines, so under load lines share one. Longer pauses let
 * records live until the collector of young objects copies them, which costs more than the writes they save.
 */
const PAUSE_MS = 8;
const MAX_RETRY_MS = 30_000;
/** How often it is checked that the file has not been removed or replaced under us. */
const CHECK_FILE_MS = 1_000;

/** Lines that are chained but not yet on disk; kept whole until they are, so that a failed write breaks no chain. */
interface Batch {
  readonly bytes: Buffer;
  readonly lines: number;
  readonly head: ChainHead;
  /** Dropped records that a line of this batch tells of. */
  readonly toldDropped: number;
}

interface OpenFile {
  readonly handle: FileHandle;
  readonly inode: number;
  /** Set for a file that continues a chain and is still empty: the oldest line kept, for its {@link ROTATED} line. */
  readonly oldest: number | undefined;
  size: number;
  /** Length of that first line: a file always takes one line beyond it, however small `maxBytes` is. */
  headerBytes: number;
  /** The last write failed halfway: what is beyond `size` must go first. */
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
  /** Ends the pause before a run that is waiting. */
  #begin: () => void = () => undefined;
  #lastRunMs = Number.NEGATIVE_INFINITY;
  #retry: NodeJS.Timeout | undefined;
  readonly #retryDelay: Backoff;
  #closing: Promise<void> | undefined;
  #written = 0;
  #dropped = 0;
  #untoldDropped = 0;
  #failures = 0;
  #lastError: string | undefined;

  constructor(options: AuditOptions) {
    this.#options = { fsync: false, queueLimit: 32_768, retryMs: 500, now: Date.now, ...options };
    this.#retryDelay = new Backoff({ firstDelayMs: this.#options.retryMs, maxDelayMs: MAX_RETRY_MS });
  }

  get health(): AuditHealth {
    return {
      file: this.#place?.path,
      written: this.#written,
      queued: this.#queue.length + (this.#batch?.lines ?? 0),
      dropped: this.#dropped,
      failures: this.#failures,
      lastError: this.#lastError,
      head: this.#head,
    };
  }

  record(record: AuditRecord): void {
    if (this.#closing !== undefined || this.#queue.length >= this.#options.queueLimit) {
      this.#dropped++;
      this.#untoldDropped++;
      return;
    }
    this.#queue.push(record);
    if (this.#running === undefined && this.#retry === undefined) this.#start();
    else if (this.#queue.length * 2 >= this.#options.queueLimit) this.#begin();
  }

  async flush(): Promise<void> {
    // What arrives during the last write starts another run.
    while (this.#running !== undefined) {
      this.#begin();
      await this.#running;
    }
  }

  close(timeoutMs = 2_000): Promise<void> {
    this.#closing ??= this.#finish(timeoutMs);
    return this.#closing;
  }

  async #finish(timeoutMs: number): Promise<void> {
    await within(this.#finishWriting(), timeoutMs);
    this.#dropped += this.#queue.length + (this.#batch?.lines ?? 0);
    this.#queue = [];
    this.#batch = undefined;
    this.#untoldDropped = 0;
  }

  async #finishWriting(): Promise<void> {
    await this.flush();
    this.#cancelRetry();
    if (this.#hasWork()) await this.#drain();
    // A failure just now wants to try again later, but there is no later.
    this.#cancelRetry();
    await this.#closeFile()
      .finally(() => this.#place?.release())
      .catch((cause) => this.#failed(cause));
  }

  #cancelRetry(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
  }

  #hasWork(): boolean {
    return this.#batch !== undefined || this.#queue.length > 0 || this.#untoldDropped > 0;
  }

  /** Starts a run after the input and output of this turn, so that replies leave first, or after the pause. */
  #start(): void {
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const waitMs = this.#lastRunMs + PAUSE_MS - performance.now();
    if (waitMs > 0) {
      const timer = setTimeout(begin, waitMs);
      this.#begin = () => {
        clearTimeout(timer);
        begin();
      };
    } else setImmediate(begin);
    this.#running = begun
      .then(() => this.#drain())
      .finally(() => {
        this.#running = undefined;
        this.#begin = () => undefined;
        this.#lastRunMs = performance.now();
        if (this.#retry === undefined && this.#closing === undefined && this.#hasWork()) this.#start();
      });
  }

  /** Writes until nothing is left or something fails. Never rejects. */
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
  }

  /** The open file, opened or opened anew if need be. */
  async #open(): Promise<OpenFile> {
    const { maxFiles } = this.#options;
    this.#place ??= await claim(this.#options.file);
    this.#head ??= await recover(this.#place.path);
    const now = performance.now();
    if (this.#file !== undefined && now - this.#file.checkedMs >= CHECK_FILE_MS) {
      this.#file.checkedMs = now;
      const found = await stat(this.#place.path).catch(() => undefined);
      // Removed or replaced: what is written through the old handle would never be seen.
      if (found?.ino !== this.#file.inode) await this.#closeFile();
    }
    if (this.#file !== undefined) return this.#file;
    const handle = await open(this.#place.path, 'a', 0o600);
    try {
      const { ino, size, mode } = await handle.stat();
      if ((mode & 0o077) !== 0) await handle.chmod(0o600);
      // Without older files every line should still be there, from the first.
      const oldest = size === 0 && this.#head.n > 0 ? ((await oldestLine(this.#place.path, maxFiles)) ?? 1) : undefined;
      this.#file = { handle, inode: ino, oldest, size, headerBytes: 0, torn: false, checkedMs: now };
      return this.#file;
    } catch (cause) {
      await handle.close();
      throw cause;
    }
  }

  /** Makes the next lines; undefined when not one more fits into the file. */
  #compose(file: OpenFile): Batch | undefined {
    const lines: string[] = [];
    let bytes = 0;
    let { n, hash } = this.#head!;
    this.#seal ??= createSealer();
    const seal = this.#seal;
    const add = (open: string): boolean => {
      const sealed = seal(open);
      const standing = file.size + bytes;
      if (standing > file.headerBytes && standing + sealed.bytes > this.#options.maxBytes) return false;
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
    let taken = 0;
    let full = false;
    while (!full && taken < this.#queue.length && lines.length < BATCH_LINES) {
      const open = openLine(n + 1, this.#queue[taken]!, hash);
      if (open === undefined) {
        // Not a record at all. It must not stop those behind it.
        taken++;
        this.#dropped++;
        this.#untoldDropped++;
      } else if (add(open)) taken++;
      else full = true;
    }
    // What was dropped came after what is queued, so its line comes last.
    let toldDropped = 0;
    if (!full && taken === this.#queue.length && this.#untoldDropped > 0) {
      const count = this.#untoldDropped;
      const open = JSON.stringify({ n: n + 1, time: this.#options.now(), type: DROPPED, count, prev: hash });
      if (add(open)) toldDropped = count;
    }
    this.#queue.splice(0, taken);
    if (lines.length === 0) return undefined;
    return { bytes: Buffer.from(lines.join('')), lines: lines.length, head: { n, hash }, toldDropped };
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
    const begun = file.size === 0 && file.oldest !== undefined;
    file.size += batch.bytes.length;
    this.#head = batch.head;
    this.#written += batch.lines;
    this.#untoldDropped -= batch.toldDropped;
    this.#batch = undefined;
    this.#lastError = undefined;
    this.#retryDelay.reset();
    if (!begun) return;
    await file.handle.datasync();
    await prune(this.#place!.path, this.#options.maxFiles);
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
 * A record as an open line (see `createSealer`); undefined for what is no record, whatever its type said. Fields that
 * are undefined are left out by `JSON.stringify`.
 */
function openLine(n: number, record: AuditRecord, prev: string): string | undefined {
  try {
    return JSON.stringify({
      n,
      time: record.time,
      session: clip(record.session),
      principal: clip(record.principal),
      peer: record.peer && clip(record.peer),
      type: clip(record.type),
      tool: record.tool && clip(record.tool),
      via: record.via && clip(record.via),
      request_bytes: record.request_bytes,
      reply_bytes: record.reply_bytes,
      duration_ms: record.duration_ms,
      outcome: record.outcome,
      error_code: record.error_code,
      prev,
    });
  } catch {
    return undefined;
  }
}
