/**
 * Texts of the HTTP binding: outgoing text is ASCII on one line.
 *
 * Both ends write with it: `http-session.ts` event streams, `http-client.ts` requests.
 */
import { toAscii } from '../../wire/ascii.ts';

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about.
const CONTROL = /[\x00-\x1f]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above.
const EACH_CONTROL = /[\x00-\x1f]/g;

/**
 * Returns the same JSON text in ASCII and without line breaks. A raw control character can only be white space between
 * tokens (JSON forbids it inside strings), so a blank in its place changes nothing, and a sender cannot end a line, or
 * an event of a stream, from inside a message.
 */
export function wireText(json: string): string {
  const ascii = toAscii(json);
  return CONTROL.test(ascii) ? ascii.replace(EACH_CONTROL, ' ') : ascii;
}
