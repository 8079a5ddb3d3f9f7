/**
 * Bytes of a text in UTF-8: invalid bytes are refused, and cuts lie between characters.
 */
import { type Buffer, isAscii, isUtf8 } from 'node:buffer';

/** Returns the text of bytes that are UTF-8, or undefined when they are not. Nothing is ever replaced. */
export function strictText(bytes: Buffer): string | undefined {
  if (isAscii(bytes)) return bytes.toString('latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : undefined;
}

/** Cuts the rest of an earlier UTF-8 sequence off the start. */
export function fromCharacter(bytes: Buffer): Buffer {
  let start = 0;
  while (start < Math.min(3, bytes.length) && (bytes[start]! & 0xc0) === 0x80) start += 1;
  return bytes.subarray(start);
}
