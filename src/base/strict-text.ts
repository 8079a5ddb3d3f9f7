/** Bytes that are a text in UTF-8, or are refused. */
import { type Buffer, isAscii, isUtf8 } from 'node:buffer';

/** The text of bytes that are UTF-8, or undefined when they are not. Nothing is ever replaced. */
export function strictText(bytes: Buffer): string | undefined {
  if (isAscii(bytes)) return bytes.toString('latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : undefined;
}
