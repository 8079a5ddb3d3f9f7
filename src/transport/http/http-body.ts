/**
 * Texts of the HTTP binding: what leaves is ASCII on one line, what arrives is strict UTF-8.
 *
 * Used by both ends: `http-session.ts` writes event streams, `http-sse-reader.ts` decodes them.
 */
import { type Buffer, isAscii, isUtf8 } from 'node:buffer';
import { toAscii } from '../../wire/ascii.ts';

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about.
const CONTROL = /[\x00-\x1f]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above.
const EACH_CONTROL = /[\x00-\x1f]/g;

/**
 * The same JSON text in ASCII and without line breaks. A raw control character can only be white space between tokens
 * (JSON forbids it inside strings), so a blank in its place changes nothing, and a sender cannot end a line, or an event of a
 * stream, from inside a message.
 */
export function wireText(json: string): string {
  const ascii = toAscii(json);
  return CONTROL.test(ascii) ? ascii.replace(EACH_CONTROL, ' ') : ascii;
}

/** The text of bytes that are UTF-8, or undefined when they are not. Nothing is ever replaced. */
export function strictText(bytes: Buffer): string | undefined {
  if (isAscii(bytes)) return bytes.toString('latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : undefined;
}
