/**
 * Base64 of megabytes: each step is one call of the engine, or one pass. Regular expressions take twenty times as long.
 *
 * Used for images of prompts. Pure.
 */

/** The content; undefined for a text that is no base64. Letters of its form for URLs, and white space, are not taken. */
export function base64Bytes(text: string): Buffer | undefined {
  const unpadded = text.length - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
  // The decoder takes the letters of URLs, and leaves out what is no base64.
  if (unpadded % 4 === 1 || text.includes('-') || text.includes('_')) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === Math.floor((unpadded * 3) / 4) ? bytes : undefined;
}

/** A text without blanks and line breaks. */
export function withoutSpace(text: string): string {
  const bytes = Buffer.from(text);
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    if (byte !== 32 && (byte < 9 || byte > 13)) bytes[length++] = byte;
  }
  return bytes.toString('utf8', 0, length);
}
