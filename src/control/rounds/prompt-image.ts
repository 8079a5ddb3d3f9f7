/**
 * One image of a prompt: out of a data URL, or out of a file inside the folders images may come from. Audio comes in data URLs
 * alone, and is an attachment like an image.
 *
 * The client that names a path may have no right to read the server's files, so a path that leads out of the allowed
 * folders, by links too, gets the answer of one that does not exist.
 */
import { type FileHandle, realpath } from 'node:fs/promises';
import { extname, isAbsolute, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { base64Bytes, withoutSpace } from '../../base/base64.ts';
import { nextTurn } from '../../base/next-turn.ts';
import { shown } from '../../base/workspace/file-error.ts';
import type { PathGuard } from '../../base/workspace/protected-paths.ts';
import { locate, openFile } from '../../base/workspace/workspace-path.ts';
import type { Image, ImageReference } from '../../protocol/session-types.ts';
import { AUDIO_TYPES, IMAGE_TYPES, isAudio } from '../../protocol/session-words.ts';
import { fail, HandfastError } from '../../wire/errors.ts';

export interface ImageOptions {
  /** Absolute path that relative ones start from: the session's working directory. */
  readonly cwd: string;
  /** Absolute paths of the folders images may be read from. Default: `cwd` alone. */
  readonly roots?: readonly string[];
  /** The folder that `~/` stands for; undefined = none. */
  readonly home?: string;
  /** Refuses protected paths, as if they did not exist. */
  readonly guard?: PathGuard | undefined;
  /** Bytes of one image at most. Default 8 MiB. */
  readonly maxImageBytes?: number;
}

const DEFAULT_MAX_IMAGE_BYTES = 8 * 1024 * 1024;

/** Reads one image. Fails as `readPrompt` does. */
export async function readImage(reference: ImageReference, options: ImageOptions): Promise<Image> {
  const { maxImageBytes = DEFAULT_MAX_IMAGE_BYTES } = options;
  if (reference.data_url !== undefined) return fromDataUrl(reference, reference.data_url, maxImageBytes);
  return fromFile(reference.path, options, maxImageBytes);
}

async function fromDataUrl({ path, mime_type }: ImageReference, url: string, maxBytes: number): Promise<Image> {
  // The parts are checked one by one: a single expression over megabytes of payload could run out of stack.
  const comma = url.indexOf(',');
  const head = /^data:([^;,]+)((?:;[^;,]*)*);base64$/i.exec(url.slice(0, Math.max(comma, 0)));
  if (comma < 0 || head === null) {
    throw fail('schema_violation', 'invalid image data_url. expected data:<mime>;base64,<payload>');
  }
  const given = (mime_type ?? head[1] ?? '').trim().toLowerCase();
  const heard = Object.hasOwn(AUDIO_TYPES, given) ? AUDIO_TYPES[given] : undefined;
  const mimeType = heard ?? (given === 'image/jpg' ? 'image/jpeg' : given);
  if (heard === undefined && !Object.values(IMAGE_TYPES).includes(mimeType))
    throw fail('schema_violation', `unsupported ${isAudio(given) ? 'audio' : 'image'} mime type: ${shown(given)}`);
  const payload = url.slice(comma + 1);
  const bytes = base64Bytes(payload) ?? (await spacedBytes(payload));
  if (bytes === undefined) throw fail('schema_violation', 'invalid image data_url payload');
  return imageOf(path, mimeType, bytes, maxBytes);
}

/** Decodes the content of base64 with white space, in a separate turn of the event loop. */
async function spacedBytes(payload: string): Promise<Buffer | undefined> {
  await new Promise<void>(nextTurn);
  const bare = withoutSpace(payload);
  return bare === undefined ? undefined : Buffer.from(bare, 'base64');
}

async function fromFile(given: string, options: ImageOptions, maxBytes: number): Promise<Image> {
  const path = unquoted(given);
  const extension = extname(path).toLowerCase();
  const bytes = await contentOf(path, options, maxBytes);
  if (!Object.hasOwn(IMAGE_TYPES, extension)) {
    const supported = Object.keys(IMAGE_TYPES).join(', ');
    throw fail('schema_violation', `unsupported image type: ${shown(extension) || 'none'}. supported: ${supported}`);
  }
  return imageOf(path, IMAGE_TYPES[extension] as string, bytes, maxBytes);
}

/** Reads the content of a file in an allowed folder; nothing is read of a file that is no image by its name. */
async function contentOf(path: string, options: ImageOptions, maxBytes: number): Promise<Buffer> {
  const { cwd, roots = [cwd], home, guard } = options;
  const absolute = absolutePath(path, cwd, home);
  // The target of the path is only looked up here. It is then walked from the allowed folder itself without following links, so
  // a link put in its way meanwhile leads nowhere.
  const real = absolute === undefined ? undefined : await realpath(absolute).catch(() => undefined);
  if (real === undefined) throw notFound(path);
  for (const root of roots) {
    try {
      await using place = await locate(root, real, { guard });
      if (place.kind === 'directory' || place.kind === 'other')
        throw fail('schema_violation', `not a file: ${shown(path)}`);
      const { handle, stats } = await openFile(place);
      try {
        if (stats.size > maxBytes) throw tooLarge(stats.size, maxBytes);
        if (!Object.hasOwn(IMAGE_TYPES, extname(path).toLowerCase())) return Buffer.alloc(0);
        return await wholeFile(handle, stats.size, path);
      } finally {
        await handle.close();
      }
    } catch (error) {
      if (!(error instanceof HandfastError)) throw unreadable(path, error);
      if (error.code === 'too_large' || error.code === 'schema_violation') throw error;
      // Protected, or outside of this folder; perhaps it is inside the next.
      if (error.code === 'tool_denied' || error.detail.reason === 'workspace_missing') continue;
      throw error.detail.reason === 'not_found' ? notFound(path) : unreadable(path, error);
    }
  }
  throw notFound(path);
}

async function wholeFile(handle: FileHandle, size: number, path: string): Promise<Buffer> {
  const buffer = Buffer.alloc(size);
  let filled = 0;
  while (filled < size) {
    const { bytesRead } = await handle.read(buffer, filled, size - filled, filled);
    if (bytesRead === 0) throw unreadable(path, new Error('the file became shorter while it was read'));
    filled += bytesRead;
  }
  return buffer;
}

/** Returns the absolute path meant by a client; undefined when it cannot mean one. */
function absolutePath(path: string, cwd: string, home: string | undefined): string | undefined {
  if (path.includes('\0')) return undefined;
  if (/^file:/i.test(path)) {
    try {
      return fileURLToPath(path);
    } catch {
      return undefined;
    }
  }
  if (path === '~' || path.startsWith('~/')) return home === undefined ? undefined : resolve(home, path.slice(2));
  return isAbsolute(path) ? path : resolve(cwd, path);
}

/** Removes quotes: paths that were dropped onto a terminal come in them. */
function unquoted(path: string): string {
  const quoted = /^(["'])([\s\S]+)\1$/.exec(path.trim());
  return quoted?.[2] ?? path.trim();
}

function imageOf(path: string, mimeType: string, bytes: Buffer, maxBytes: number): Image {
  if (bytes.length === 0) throw fail('schema_violation', 'image payload is empty');
  if (bytes.length > maxBytes) throw tooLarge(bytes.length, maxBytes);
  return { path, mimeType, dataUrl: `data:${mimeType};base64,${bytes.toString('base64')}`, byteSize: bytes.length };
}

const notFound = (path: string): Error => fail('not_found', `file not found: ${shown(path)}`);

const unreadable = (path: string, cause: unknown): Error =>
  fail('runtime_error', `unable to read image file: ${shown(path)}`, undefined, cause);

const tooLarge = (bytes: number, maxBytes: number): Error =>
  fail('too_large', `image too large (${mebibytes(bytes)}). max is ${mebibytes(maxBytes)}`);

const mebibytes = (bytes: number): string => `${Math.round((bytes / (1024 * 1024)) * 10) / 10} MiB`;
