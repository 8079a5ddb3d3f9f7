/** Reads a file in the search thread, synchronously. */
import { readSync } from 'node:fs';

/** Returns the first `size` bytes of an open file; fewer if it is shorter by now. */
export function readWhole(fd: number, size: number): Buffer {
  const buffer = Buffer.allocUnsafe(size);
  let filled = 0;
  while (filled < size) {
    const bytes = readSync(fd, buffer, filled, size - filled, filled);
    if (bytes === 0) break;
    filled += bytes;
  }
  return buffer.subarray(0, filled);
}
