/**
 * Makes JSON text ASCII, as the wire demands: some readers treat U+2028, U+2029 and U+0085 as line breaks and would
 * split a message. The transports apply it to all text they write.
 *
 * @see docs/protocol/a2e.md#framing
 */

/** Characters escaped at once; the buffer they are written to has six bytes for each. */
const PIECE_CHARS = 8192;

// No Buffer here: pages load this file too, although they only measure with it.
const HEX = new TextEncoder().encode('0123456789abcdef');
const BACKSLASH = 92;
const LETTER_U = 117;

/**
 * Returns the same JSON with every character above U+007F written as `\uXXXX` (two of them for one outside the basic
 * plane). These characters occur only inside strings, so the value does not change. ASCII text is returned unchanged:
 * the test is one native call, some 50 ns for 4 KiB.
 */
export function toAscii(text: string): string {
  if (Buffer.byteLength(text) === text.length) return text;
  const bytes = Buffer.allocUnsafe(Math.min(text.length, PIECE_CHARS) * 6);
  let escaped = '';
  for (const piece of pieces(text)) {
    if (Buffer.byteLength(piece) === piece.length) escaped += piece;
    else escaped += bytes.toString('latin1', 0, escapePiece(piece, bytes));
  }
  return escaped;
}

/** Yields the pieces of a text. Most of a long text is ASCII mostly: each piece is tested separately. */
function* pieces(text: string): Generator<string> {
  for (let from = 0; from < text.length; from += PIECE_CHARS) yield text.slice(from, from + PIECE_CHARS);
}

/** Characters of {@link toAscii}'s text, without making it. Runs in pages too. */
export function asciiLength(text: string): number {
  const isNode = typeof Buffer === 'function';
  if (isNode && Buffer.byteLength(text) === text.length) return text.length;
  let length = text.length;
  for (const piece of pieces(text)) {
    if (isNode && Buffer.byteLength(piece) === piece.length) continue;
    for (let at = 0; at < piece.length; at++) if (piece.charCodeAt(at) > 127) length += 5;
  }
  return length;
}

/** Writes a text into `bytes` and returns their number. */
function escapePiece(text: string, bytes: Buffer): number {
  let filled = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 128) {
      bytes[filled++] = code;
      continue;
    }
    bytes[filled] = BACKSLASH;
    bytes[filled + 1] = LETTER_U;
    bytes[filled + 2] = HEX[code >> 12] as number;
    bytes[filled + 3] = HEX[(code >> 8) & 15] as number;
    bytes[filled + 4] = HEX[(code >> 4) & 15] as number;
    bytes[filled + 5] = HEX[code & 15] as number;
    filled += 6;
  }
  return filled;
}

/** Returns true when the text takes more than `most` bytes of UTF-8. */
export function isLonger(text: string, most: number): boolean {
  if (text.length > most) return true;
  return text.length * 3 > most && Buffer.byteLength(text) > most;
}
