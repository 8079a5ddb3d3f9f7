/**
 * Reads a file that its author may have made a trap: a link, a pipe, a socket, a device, or a file without end.
 *
 * Reading never waits for another process, never follows a link in the file's place, and never returns more bytes than
 * allowed.
 */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';

/** The outcome for a path: the file's bytes and the system's data about it, no file, or the reason why it was not read. */
export type BoundedRead =
  | { readonly kind: 'file'; readonly bytes: Buffer; readonly stats: Stats }
  | { readonly kind: 'absent' }
  | { readonly kind: 'refused' | 'too_large'; readonly reason: string };

/** Not all systems have these flags; then `fstat` alone protects. */
const flags =
  constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0) | (constants.O_NOCTTY ?? 0);

/** Reads at most `maxBytes`. Never throws; the reason names no path. */
export function readBounded(path: string, maxBytes: number): BoundedRead {
  let fd: number;
  try {
    fd = openSync(path, flags);
  } catch (thrown) {
    const { code = 'an unknown error' } = thrown as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return { kind: 'absent' };
    if (code === 'ELOOP') return refused('is a link');
    // A socket in the file's place.
    return refused(code === 'ENXIO' ? 'is not a file' : `cannot be read (${code})`);
  }
  try {
    const stats = fstatSync(fd);
    const { size } = stats;
    if (!stats.isFile()) return refused('is not a file');
    if (size > maxBytes) return tooLarge(maxBytes);
    const bytes = readUpTo(fd, maxBytes + 1, size);
    return bytes.length > maxBytes ? tooLarge(maxBytes) : { kind: 'file', bytes, stats };
  } catch (thrown) {
    return refused(`cannot be read (${(thrown as NodeJS.ErrnoException).code})`);
  } finally {
    closeSync(fd);
  }
}

const refused = (reason: string): BoundedRead => ({ kind: 'refused', reason });
const tooLarge = (maxBytes: number): BoundedRead => ({ kind: 'too_large', reason: `is larger than ${maxBytes} bytes` });

/**
 * Reads up to `limit` bytes. The size of a file is a hint only: it may grow while it is read, and files of `/proc` have
 * none.
 */
function readUpTo(fd: number, limit: number, size: number): Buffer {
  const chunks: Buffer[] = [];
  let total = 0;
  while (total < limit) {
    const chunk = Buffer.allocUnsafe(Math.min(limit - total, Math.max(size - total + 1, 4096)));
    const count = readSync(fd, chunk);
    if (count === 0) break;
    chunks.push(chunk.subarray(0, count));
    total += count;
    // All that a file with a size has; one of `/proc` gives less at a time than it has.
    if (total === size) break;
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, total);
}
