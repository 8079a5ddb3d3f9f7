/** Writes an image as PNG, for `screenshot`. Needs only zlib, which is part of Node. */
import { crc32, deflateSync } from 'node:zlib';
import type { Image } from './image.ts';

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** Eight bits for each of red, green, blue; the only defined compression and filter method; no interlacing. */
const FORMAT = [8, 2, 0, 0, 0];

/** Returns the bytes of a PNG file: 8-bit RGB, not interlaced. */
export function encodePng({ width, height, pixels }: Image): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set(FORMAT, 8);
  const line = width * 3;
  // Each line starts with its filter: 0, none.
  const lines = Buffer.alloc(height * (line + 1));
  for (let row = 0; row < height; row++) {
    lines.set(pixels.subarray(row * line, (row + 1) * line), row * (line + 1) + 1);
  }
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(lines)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(type: string, data: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const framed = Buffer.alloc(typed.length + 8);
  framed.writeUInt32BE(data.length, 0);
  framed.set(typed, 4);
  framed.writeUInt32BE(crc32(typed), typed.length + 4);
  return framed;
}
