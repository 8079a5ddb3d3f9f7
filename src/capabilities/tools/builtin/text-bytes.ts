/**
 * Distinguishes text from binary, and cuts UTF-8 between characters, equally for `read_file`, `grep`, `http_get` and `shell`.
 * Pure.
 */

/** Bytes checked to distinguish text from binary. */
export const SAMPLE_BYTES = 8192;

/** Returns true when the first {@link SAMPLE_BYTES} contain a NUL byte, the rule of git and grep. */
export function looksBinary(bytes: Uint8Array): boolean {
  return bytes.subarray(0, SAMPLE_BYTES).includes(0);
}

/** Cuts an unfinished UTF-8 sequence off the end, so that the next piece starts with a whole character. */
export function wholeCharacters(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(4, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back]!;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    // A sequence that fills the whole piece stays: cutting it would leave nothing, and a reader would never advance.
    return length > back && bytes.length > back ? bytes.subarray(0, bytes.length - back) : bytes;
  }
  return bytes;
}
