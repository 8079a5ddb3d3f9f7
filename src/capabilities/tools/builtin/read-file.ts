/**
 * The work of `read_file`: a window of lines or bytes of a file of any size. Loaded on the first call.
 *
 * The file is streamed through one buffer; memory does not grow with the size of the file, only with the returned part.
 */
import { createHash, type Hash } from 'node:crypto';
import { counted } from '../../../base/counted.ts';
import { fileError, fileFailure } from '../../../base/workspace/file-error.ts';
import { locate } from '../../../base/workspace/workspace-path.ts';
import type { CallContext } from '../../../host/context.ts';
import { result, type ShapedResult } from '../tool.ts';
import { looksBinary, SAMPLE_BYTES, wholeCharacters } from './text-bytes.ts';
import { type FilesBy, filesFor, type OpenedFile } from './workspace-files.ts';

const NEWLINE = 0x0a;
const CHUNK_BYTES = 256 * 1024;
/** Larger files are not read to their end only to count their lines. */
const COUNT_LINES_BYTES = 64 * 1024 * 1024;
/** Larger files are not hashed in passing. */
const HASH_BYTES = 8 * 1024 * 1024;

export interface ReadFileArgs {
  readonly path: string;
  readonly offset: number;
  readonly limit: number;
  readonly byte_offset?: number;
  readonly byte_limit?: number;
  readonly encoding: 'utf-8' | 'base64';
  readonly max_bytes: number;
}

export interface FileWindow {
  readonly path: string;
  readonly encoding: 'utf-8' | 'base64';
  readonly content: string;
  /** Size of the file in bytes. */
  readonly size: number;
  /** True when the file continues after the returned part. */
  readonly truncated: boolean;
  /** First line not returned whole; null at the end, and for byte ranges. */
  readonly next_offset: number | null;
  /** Byte after the last one returned; null at the end. */
  readonly next_byte_offset: number | null;
  readonly start_line?: number;
  readonly end_line?: number;
  /** Null when the file is too large to be counted in passing. */
  readonly total_lines?: number | null;
  /** Digest of the whole file; null when it is too large to be hashed in passing. */
  readonly sha256?: string | null;
  /** True when a UTF-8 byte order mark was left out of `content`. */
  readonly bom?: boolean;
  /** True when bytes that are not UTF-8 were replaced by U+FFFD. */
  readonly lossy?: boolean;
  /** Present when the content is that of an editor, saved or not. */
  readonly by?: FilesBy;
}

/**
 * Reads part of a file: lines, unless the arguments ask for a byte range or base64.
 *
 * Fails with `tool_error` and a reason: `binary_file` (for a request of text) or one of `base/workspace/file-error.ts`.
 */
export async function readFile(args: ReadFileArgs, context: CallContext): Promise<ShapedResult<FileWindow>> {
  await using place = await locate(context.workspace, args.path, { guard: context.pathGuard });
  const file = await filesFor(context.editor, args.encoding === 'utf-8' ? 'read' : 'bytes').open(place, context.signal);
  try {
    const byBytes = args.encoding === 'base64' || args.byte_offset !== undefined || args.byte_limit !== undefined;
    if (args.encoding === 'utf-8') await refuseBinary(file, args.path);
    const part = byBytes ? await readBytes(file, args, context.signal) : await readLines(file, args, context.signal);
    const { size, by } = file;
    const window: FileWindow = { path: place.path, encoding: args.encoding, size, ...part, ...(by && { by }) };
    return result(window, { truncated: window.truncated, summary: summaryOf(window) });
  } catch (error) {
    context.signal.throwIfAborted();
    throw fileError(error, args.path);
  } finally {
    await file.close();
  }
}

function summaryOf(window: FileWindow): string {
  if (window.start_line === undefined) return `${window.path}: ${counted(window.size, 'byte')} in all`;
  const total = window.total_lines ?? 'many';
  if (window.content === '')
    return `${window.path}: no line ${window.start_line}; it has ${total === 1 ? '1 line' : `${total} lines`}`;
  return `${window.path}: lines ${window.start_line} to ${window.end_line} of ${total}`;
}

async function refuseBinary(file: OpenedFile, path: string): Promise<void> {
  const { size } = file;
  const sample = Buffer.allocUnsafe(SAMPLE_BYTES);
  const { bytesRead } = await file.read(sample, 0, SAMPLE_BYTES, 0);
  if (!looksBinary(sample.subarray(0, bytesRead))) return;
  throw fileFailure(
    'binary_file',
    path,
    `is a binary file of ${counted(size, 'byte')}; read it with encoding "base64"`,
    {
      size,
    },
  );
}

type Part = Omit<FileWindow, 'path' | 'encoding' | 'size'>;

async function readBytes(file: OpenedFile, args: ReadFileArgs, signal: AbortSignal): Promise<Part> {
  const { size } = file;
  const start = args.byte_offset ?? 0;
  const wanted = Math.max(0, Math.min(args.byte_limit ?? args.max_bytes, args.max_bytes, size - start));
  const buffer = Buffer.allocUnsafe(wanted);
  let filled = 0;
  while (filled < wanted) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, filled, wanted - filled, start + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  let bytes: Buffer = buffer.subarray(0, filled);
  const more = start + filled < size;
  if (args.encoding === 'utf-8' && more) bytes = wholeCharacters(bytes);
  const end = start + bytes.length;
  const truncated = end < size;
  const next = { truncated, next_offset: null, next_byte_offset: truncated ? end : null };
  if (args.encoding === 'base64') return { content: bytes.toString('base64'), ...next };
  return { ...decode(bytes, false), ...next };
}

/** The data that one pass over the file has gathered. */
interface Gathered {
  /** Newlines seen so far. */
  newlines: number;
  pieces: Buffer[];
  bytes: number;
  /** Bytes of `pieces` up to the end of the last whole line. */
  wholeLineBytes: number;
  wholeLines: number;
  /** File offset of the first byte of the window; undefined while before it. */
  start: number | undefined;
  full: boolean;
}

async function readLines(file: OpenedFile, args: ReadFileArgs, signal: AbortSignal): Promise<Part> {
  const { size } = file;
  const gathered: Gathered = {
    newlines: 0,
    pieces: [],
    bytes: 0,
    wholeLineBytes: 0,
    wholeLines: 0,
    start: args.offset === 1 ? 0 : undefined,
    full: false,
  };
  const hash = size <= HASH_BYTES ? createHash('sha256') : undefined;
  const toEnd = size <= COUNT_LINES_BYTES;
  const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, Math.max(size, 1)));
  let position = 0;
  let lastByte = NEWLINE;
  let reachedEnd = false;
  while (!gathered.full || toEnd) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
    if (bytesRead === 0) {
      reachedEnd = true;
      break;
    }
    const chunk = buffer.subarray(0, bytesRead);
    hash?.update(chunk);
    scan(chunk, position, gathered, args);
    lastByte = chunk[bytesRead - 1]!;
    position += bytesRead;
  }
  const totalLines = reachedEnd ? gathered.newlines + (lastByte === NEWLINE ? 0 : 1) : null;
  return lineWindow(gathered, args, reachedEnd ? position : size, totalLines, hash);
}

/** Counts the newlines of a chunk and stores the part inside the window. */
function scan(chunk: Buffer, position: number, gathered: Gathered, args: ReadFileArgs): void {
  let from = 0;
  while (from < chunk.length) {
    const newline = chunk.indexOf(NEWLINE, from);
    const end = newline === -1 ? chunk.length : newline + 1;
    if (gathered.start !== undefined && !gathered.full)
      store(chunk.subarray(from, end), newline !== -1, gathered, args);
    if (newline !== -1) {
      gathered.newlines += 1;
      if (gathered.newlines === args.offset - 1) gathered.start = position + end;
    }
    from = end;
  }
}

function store(piece: Buffer, wholeLine: boolean, gathered: Gathered, args: ReadFileArgs): void {
  const room = args.max_bytes - gathered.bytes;
  const stored = piece.subarray(0, room);
  // Copied, because the chunk's buffer is reused.
  gathered.pieces.push(Buffer.from(stored));
  gathered.bytes += stored.length;
  if (stored.length < piece.length) {
    gathered.full = true;
    return;
  }
  if (!wholeLine) return;
  gathered.wholeLineBytes = gathered.bytes;
  gathered.wholeLines += 1;
  gathered.full = gathered.wholeLines === args.limit;
}

function lineWindow(
  gathered: Gathered,
  args: ReadFileArgs,
  end: number,
  totalLines: number | null,
  hash: Hash | undefined,
): Part {
  const start = gathered.start ?? end;
  const all = Buffer.concat(gathered.pieces);
  // Whole lines only, unless the very first line is longer than the cap or the file ends without a newline.
  const atEnd = start + all.length >= end;
  let bytes: Buffer = all;
  if (!atEnd) bytes = gathered.wholeLines > 0 ? all.subarray(0, gathered.wholeLineBytes) : wholeCharacters(all);
  const unfinished = bytes.length > gathered.wholeLineBytes;
  const lines = gathered.wholeLines + (unfinished ? 1 : 0);
  const stop = start + bytes.length;
  const truncated = stop < end;
  return {
    ...decode(bytes, start === 0),
    start_line: args.offset,
    end_line: args.offset + lines - 1,
    total_lines: totalLines,
    sha256: hash === undefined || totalLines === null ? null : hash.digest('hex'),
    truncated,
    // A line that was cut starts before the window ends, so the next window of lines starts with the line after it.
    next_offset: truncated ? args.offset + lines : null,
    next_byte_offset: truncated ? stop : null,
  };
}

function decode(bytes: Buffer, fromStart: boolean): { content: string; bom?: boolean; lossy?: boolean } {
  const bom = fromStart && bytes.length >= 3 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  const text = bom ? bytes.subarray(3) : bytes;
  let content: string;
  let lossy = false;
  try {
    content = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(text);
  } catch {
    content = text.toString('utf8');
    lossy = true;
  }
  return { content, ...(bom ? { bom } : {}), ...(lossy ? { lossy } : {}) };
}
