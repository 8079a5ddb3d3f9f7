/**
 * Base64 of megabytes: each step is one call of the engine, or one pass. Regular expressions take twenty times as long.
 *
 * Pure.
 */
import { trimmedEnd } from './trim-end.ts';

/**
 * Returns the content; undefined for a text that is not base64. The letters of base64url and white space make a text
 * invalid.
 */
export function base64Bytes(text: string): Buffer | undefined {
  const unpadded = unpaddedLength(text);
  // The decoder accepts the letters of base64url, and skips characters outside base64.
  if (unpadded % 4 === 1 || text.includes('-') || text.includes('_')) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === Math.floor((unpadded * 3) / 4) ? bytes : undefined;
}

/** 1 for a character of base64, 2 for white space, 0 for all others. */
const KINDS = Uint8Array.from({ length: 256 }, (_, code) => {
  if (code === 32 || (code >= 9 && code <= 13)) return 2;
  return /[A-Za-z0-9+/=]/.test(String.fromCharCode(code)) ? 1 : 0;
});

/** Returns the text without white space; undefined for a text that is not base64 then. Decodes nothing. */
export function withoutSpace(text: string): string | undefined {
  const bytes = Buffer.from(text);
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    const kind = KINDS[byte];
    if (kind === 0) return undefined;
    if (kind === 1) bytes[length++] = byte;
  }
  const bare = bytes.toString('latin1', 0, length);
  const unpadded = unpaddedLength(bare);
  const first = bare.indexOf('=');
  return unpadded % 4 === 1 || (first !== -1 && first < unpadded) ? undefined : bare;
}

/**
 * Returns the plain form of base64 that servers send: of either alphabet, in lines, with any padding, or as a `data:`
 * address.
 */
export function plainBase64(given: string): string | undefined {
  const text = given.startsWith('data:') ? given.slice(given.indexOf(',') + 1) : given;
  const letters = trimmedEnd(text.replaceAll('-', '+').replaceAll('_', '/'), '= \t\r\n');
  const plain = base64Bytes(letters) === undefined ? withoutSpace(letters) : letters;
  return plain?.padEnd(4 * Math.ceil(plain.length / 4), '=');
}

const unpaddedLength = (text: string): number => text.length - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
