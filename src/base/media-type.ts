/** The type of an image or audio by its bytes, and the size of an image: labels come from clients, servers and file names. Pure. */

export interface SniffedMedia {
  readonly type: string;
  /** Pixels; undefined if the bytes do not contain them. */
  readonly width?: number;
  readonly height?: number;
}

/** Bytes from the beginning that are searched for the size of an image. */
export const SNIFFED_BYTES = 96 * 1024;

/** Returns the type of these bytes; undefined = unknown. The beginning is enough. */
export function sniffedMedia(bytes: Buffer): SniffedMedia | undefined {
  const at = (start: number, end: number): string => bytes.toString('latin1', start, end);
  if (at(0, 8) === '\x89PNG\r\n\x1a\n')
    return sized('image/png', bytes, 24, () => [bytes.readUInt32BE(16), bytes.readUInt32BE(20)]);
  if (at(0, 3) === '\xff\xd8\xff') return jpeg(bytes);
  if (/^GIF8[79]a/.test(at(0, 6)))
    return sized('image/gif', bytes, 10, () => [bytes.readUInt16LE(6), bytes.readUInt16LE(8)]);
  if (at(0, 4) === 'RIFF' && at(8, 12) === 'WEBP') return webp(bytes, at(12, 16));
  if (at(0, 4) === 'RIFF' && at(8, 12) === 'WAVE') return { type: 'audio/wav' };
  if (at(4, 8) === 'ftyp') return isoBrand(at(8, 12));
  if (at(0, 2) === 'BM') return { type: 'image/bmp' };
  if (at(0, 4) === 'II*\0' || at(0, 4) === 'MM\0*') return { type: 'image/tiff' };
  if (at(0, 4) === '\0\0\x01\0') return { type: 'image/x-icon' };
  if (at(0, 5) === '%PDF-') return { type: 'application/pdf' };
  if (at(0, 4) === 'OggS') return { type: 'audio/ogg' };
  if (at(0, 4) === 'fLaC') return { type: 'audio/flac' };
  if (at(0, 3) === 'ID3') return { type: 'audio/mpeg' };
  // Frames of MPEG audio begin with eleven set bits; layer 0 is AAC.
  const [first = 0, second = 0] = bytes;
  if (first === 0xff && (second & 0xf6) === 0xf0) return { type: 'audio/aac' };
  if (first === 0xff && (second & 0xe0) === 0xe0 && (second & 0x06) !== 0) return { type: 'audio/mpeg' };
  return markup(at(0, 512));
}

const sized = (type: string, bytes: Buffer, least: number, read: () => [number, number]): SniffedMedia => {
  if (bytes.length < least) return { type };
  const [width, height] = read();
  return { type, width, height };
};

/** Reads the size of a JPEG from the frame header, which follows segments of any length. */
function jpeg(bytes: Buffer): SniffedMedia {
  const type = 'image/jpeg';
  for (let at = 2; at + 9 < bytes.length; ) {
    if (bytes[at] !== 0xff) break;
    const marker = bytes[at + 1] as number;
    if (marker === 0xff) at += 1;
    else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return { type, height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) };
    } else at += 2 + bytes.readUInt16BE(at + 2);
  }
  return { type };
}

function webp(bytes: Buffer, chunk: string): SniffedMedia {
  const type = 'image/webp';
  if (chunk === 'VP8X') return sized(type, bytes, 30, () => [bytes.readUIntLE(24, 3) + 1, bytes.readUIntLE(27, 3) + 1]);
  if (chunk === 'VP8L') {
    return sized(type, bytes, 25, () => {
      const bits = bytes.readUInt32LE(21);
      return [(bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1];
    });
  }
  return sized(type, bytes, 30, () => [bytes.readUInt16LE(26) & 0x3fff, bytes.readUInt16LE(28) & 0x3fff]);
}

function isoBrand(brand: string): SniffedMedia | undefined {
  if (/^avi[fs]/.test(brand)) return { type: 'image/avif' };
  if (/^he(?:ic|ix|vc|vx)/.test(brand)) return { type: 'image/heic' };
  if (/^(?:mif1|msf1)/.test(brand)) return { type: 'image/heif' };
  return /^M4A/.test(brand) ? { type: 'audio/mp4' } : { type: 'video/mp4' };
}

function markup(text: string): SniffedMedia | undefined {
  if (/<svg[\s>]/i.test(text)) return { type: 'image/svg+xml' };
  return /^\s*<(?:!doctype html|html)/i.test(text) ? { type: 'text/html' } : undefined;
}
