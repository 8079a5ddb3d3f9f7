/** Images of every kind that a client or a tool may send, made of their headers: enough for readers of types and sizes. */
import type { Image } from '../../src/protocol/session-types.ts';

const HEADS = {
  png: (width: number, height: number) => {
    const head = Buffer.alloc(33);
    Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex').copy(head);
    head.writeUInt32BE(width, 16);
    head.writeUInt32BE(height, 20);
    return head;
  },
  jpeg: (width: number, height: number) => {
    const frame = Buffer.from('ffc0001108000000000301220002110103110100', 'hex');
    frame.writeUInt16BE(height, 5);
    frame.writeUInt16BE(width, 7);
    return Buffer.concat([Buffer.from('ffd8ffe000104a46494600010100000100010000', 'hex'), frame]);
  },
  gif: (width: number, height: number) => {
    const head = Buffer.from('GIF89a0000000000', 'latin1');
    head.writeUInt16LE(width, 6);
    head.writeUInt16LE(height, 8);
    return head;
  },
  webp: (width: number, height: number) => {
    const head = Buffer.alloc(30);
    head.write('RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0', 'latin1');
    head.writeUIntLE(width - 1, 24, 3);
    head.writeUIntLE(height - 1, 27, 3);
    return head;
  },
  bmp: () => Buffer.from('BM00000000000000', 'latin1'),
  heic: () => Buffer.from('\0\0\0\x18ftypheic\0\0\0\0', 'latin1'),
  html: () => Buffer.from('<!doctype html><title>404</title>'),
  svg: () => Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'),
  noise: () => Buffer.from('no picture at all'),
  empty: () => Buffer.alloc(0),
};

export type PictureKind = keyof typeof HEADS;

/** Returns an image; `bytes`: its whole size. Its label says PNG, as that of many clients. */
export function imageOf(kind: PictureKind, { width = 8, height = 8, bytes = 0 } = {}): Image {
  const head = HEADS[kind](width, height);
  const all = bytes > head.length ? Buffer.concat([head], bytes) : head;
  const mimeType = 'image/png';
  return {
    path: `${kind}.png`,
    mimeType,
    dataUrl: `data:${mimeType};base64,${all.toString('base64')}`,
    byteSize: all.length,
  };
}

/** One of each kind, and some beyond the limits of providers. */
export const PICTURES: readonly Image[] = [
  ...(Object.keys(HEADS) as PictureKind[]).map((kind) => imageOf(kind)),
  imageOf('png', { width: 9_000 }),
  imageOf('jpeg', { height: 9_000 }),
  imageOf('webp', { width: 3_000 }),
];
