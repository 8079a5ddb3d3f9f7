/**
 * The text that encoded bytes may hold, packed or not: UTF-8, UTF-16 or Latin-1. For base64 and for lists of bytes. A
 * sender chooses the bytes, so unpacking is bounded for each message.
 */
// By its default: an older Node has not all names, and is to get the one line about its age.
import zlib, { type ZlibOptions } from 'node:zlib';

/** Bytes that one message may unpack to, and attempts without a mark that names the format. */
const MAX_UNPACKED_BYTES = 8 * 1024 * 1024;
const MAX_ATTEMPTS = 64;
/** Longest bytes that are tried without a mark. */
const MAX_ATTEMPTED_BYTES = 64 * 1024;
/** First bytes, which nearly always rule a text out where none is encoded. */
const FIRST_BYTES = 16;
const IS_TEXT = /^[\t\n\r\x20-\x7e\u00a0-\u{10ffff}]*$/u;

/** A message unpacks to more than the redactor reads. */
export const TOO_MUCH = Symbol('too much');

export class EncodedTexts {
  #bytesLeft = MAX_UNPACKED_BYTES;
  #attemptsLeft = MAX_ATTEMPTS;

  /** Resets the bounds: a new message may unpack as much as the one before. */
  begin(): void {
    this.#bytesLeft = MAX_UNPACKED_BYTES;
    this.#attemptsLeft = MAX_ATTEMPTS;
  }

  /** Returns the text in some bytes, if any. */
  of(bytes: Buffer): string | typeof TOO_MUCH | undefined {
    const wide = wideText(bytes);
    if (wide !== undefined) return wide;
    const unpack = unpackerOf(bytes);
    const marked = unpack && this.#unpacked(bytes, unpack);
    // A text may begin with the mark of a format.
    const text = marked ?? textIn(bytes);
    if (text !== undefined || bytes.length > MAX_ATTEMPTED_BYTES) return text;
    for (const attempt of [zlib.inflateRawSync, zlib.brotliDecompressSync]) {
      if (--this.#attemptsLeft < 0) return undefined;
      const unpacked = this.#unpacked(bytes, attempt);
      if (unpacked !== undefined) return unpacked;
    }
    return undefined;
  }

  #unpacked(bytes: Buffer, unpack: Unpack): string | typeof TOO_MUCH | undefined {
    if (this.#bytesLeft <= 0) return TOO_MUCH;
    try {
      const unpacked = unpack(bytes, { maxOutputLength: this.#bytesLeft });
      this.#bytesLeft -= unpacked.length;
      // An archive has other bytes beside its texts.
      return unpacked.length === 0 ? undefined : (wideText(unpacked) ?? unpacked.toString());
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') return undefined;
      this.#bytesLeft = 0;
      return TOO_MUCH;
    }
  }
}

type Unpack = (bytes: Buffer, options: { readonly maxOutputLength: number }) => Buffer;

/** Finds the format of packed bytes by their mark. Of gzip and zlib the end may be missing. */
function unpackerOf(bytes: Buffer): Unpack | undefined {
  const [first, second = 0] = bytes;
  const cut: ZlibOptions = { finishFlush: zlib.constants.Z_SYNC_FLUSH };
  if (first === 0x1f && second === 0x8b) return (given, options) => zlib.gunzipSync(given, { ...options, ...cut });
  if (first === 0x78 && (first * 256 + second) % 31 === 0)
    return (given, options) => zlib.inflateSync(given, { ...options, ...cut });
  return bytes.length > 4 && bytes.readUInt32LE(0) === 0xfd2fb528 ? zlib.zstdDecompressSync : undefined;
}

/** Returns a text in UTF-16, whose every second byte is zero at the start. */
function wideText(bytes: Buffer): string | undefined {
  const length = Math.min(bytes.length, FIRST_BYTES);
  if (length < 8 || bytes.length % 2 === 1) return undefined;
  let even = 0;
  let odd = 0;
  for (let at = 0; at < length; at += 2) {
    if (bytes[at] === 0) even += 1;
    if (bytes[at + 1] === 0) odd += 1;
  }
  const needed = length / 2 - 2;
  if (odd >= needed && even === 0) return bytes.toString('utf16le');
  return even >= needed && odd === 0 ? Buffer.from(bytes).swap16().toString('utf16le') : undefined;
}

function textIn(bytes: Buffer): string | undefined {
  const first = bytes.subarray(0, FIRST_BYTES);
  if (first.some((byte) => byte < 0x20 && byte !== 9 && byte !== 10 && byte !== 13)) return undefined;
  const text = bytes.toString();
  if (!text.includes('\ufffd')) return IS_TEXT.test(text) ? text : undefined;
  const latin = bytes.toString('latin1');
  return IS_TEXT.test(latin) ? latin : undefined;
}
