/**
 * Long texts in a database, compressed: SQLite writes each text twice, into the log and into the file. Short ones, and
 * those that do not become shorter, are stored uncompressed.
 */
// By its default: an older Node has not all names, and is to get the one line about its age.
import zlib from 'node:zlib';

/** Texts of fewer characters are stored as they are. */
const MIN_CHARACTERS = 256;
/** Compressed ones are at most this part of the text. */
const MOST = 0.9;
const FAST = { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } };

/** Compresses a text; null if it is stored uncompressed. */
export function packedText(text: string): Uint8Array | null {
  if (text.length < MIN_CHARACTERS) return null;
  const packed = zlib.zstdCompressSync(text, FAST);
  return packed.length < text.length * MOST ? packed : null;
}

/** Decompresses a text. Throws the errors of the decompression. */
export const unpackedText = (packed: Uint8Array): string => zlib.zstdDecompressSync(packed).toString();

/** Returns two columns for one text: uncompressed, or compressed. */
export function textColumns(text: string): readonly [text: string, packed: Uint8Array | null] {
  const packed = packedText(text);
  return [packed === null ? text : '', packed];
}

/** Returns the text of {@link textColumns}. */
export const textOfColumns = (text: unknown, packed: unknown): string =>
  packed === null ? (text as string) : unpackedText(packed as Uint8Array);
