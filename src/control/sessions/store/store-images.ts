/**
 * The texts of long images, each in a file: written and synced off the event loop, once, however many entries refer to it. A
 * session and a saved chat have a folder each, which is removed with them; an image of both is one file with two names.
 *
 * @see docs/decisions/0063-images-stored-once.md
 */

import { randomUUID } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
} from 'node:fs';
import { mkdir, open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { base64Bytes, withoutSpace } from '../../../base/base64.ts';
import { storeFailed, storeWorks } from '../../../base/failing-stores.ts';
import { nextTurn } from '../../../base/next-turn.ts';
import { readRegularSync } from '../../../base/regular-file.ts';
import { sqliteFailure } from '../../../base/sqlite/failure.ts';
import { mayWrite } from '../../../base/sqlite/file.ts';
import type { Image, ImageReference } from '../../../protocol/session-types.ts';
import {
  type AnyImage,
  charsOf,
  type ImageShelf,
  placeOf,
  storedImage,
  type WithImages,
} from '../record/stored-image.ts';

/** Images with fewer characters stand in their entries. */
const LONG_CHARACTERS = 64 * 1024;
/** Its name in errors. */
const NAME = 'the folder of images';
/** Longest beginning of a data URL, in characters. */
const MAX_HEAD = 256;
const DELETED = 'deleted-';
/** Stands for a long text that is not a data URL. */
const NO_DATA_URL = 'data:image/png;base64,!';
/** Stands for an image that is lost. */
const NO_IMAGE = 'data:image/png;base64,';

export const sessionHolder = (id: string): string => `session-${id}`;
export const chatHolder = (id: string): string => `chat-${id}`;

/** True for an image whose text is long, and not stored yet. */
export function isLong(image: AnyImage): boolean {
  if (placeOf(image) !== undefined) return false;
  const { dataUrl = '', data_url = '' } = image as Partial<Image & ImageReference>;
  return dataUrl.length + data_url.length >= LONG_CHARACTERS;
}

/** An image whose file is missing or damaged. */
export interface LostImage {
  readonly holder: string;
  readonly file: string;
  readonly reason: string;
}

export class StoredImages {
  readonly #folder: string | undefined;
  readonly #onLost: (lost: LostImage) => void;
  /** Texts that were read in this turn of the event loop, by their file. */
  readonly #recent = new Map<string, string>();

  /** @param folder undefined: images stand in their entries */
  constructor(folder: string | undefined, onLost: (lost: LostImage) => void) {
    this.#folder = folder;
    this.#onLost = onLost;
    this.#sweep();
  }

  /** Returns the images of a holder. */
  shelf(holder: string): ImageShelf {
    return { holder, read: (key) => this.#read(holder, key) };
  }

  /**
   * Stores a long image for a holder; resolves when it is on disk. Short ones stay as they are. Fails with `disk_full` or
   * `runtime_error`.
   */
  async put<Any extends AnyImage>(holder: string, image: Any): Promise<Any> {
    const folder = this.#folder;
    if (folder === undefined || !isLong(image)) return image;
    const { dataUrl, data_url: given = dataUrl ?? '' } = image as Partial<Image & ImageReference>;
    // Putting its bytes together is the work of a turn of the event loop.
    await new Promise<void>(nextTurn);
    const text = await plainDataUrl(given);
    // The turn of the image will refuse it.
    if (text === undefined) return { ...image, [dataUrl === undefined ? 'data_url' : 'dataUrl']: NO_DATA_URL };
    const bytes = Buffer.from(text, 'latin1');
    const key = `${randomUUID()}-${crc32(bytes).toString(16)}-${text.length}`;
    const own = join(folder, holder);
    try {
      await mkdir(own, { recursive: true, mode: 0o700 });
      await using file = await open(join(own, key), 'wx', 0o600);
      await file.writeFile(bytes);
      await file.datasync();
      await synced(own);
      await synced(folder);
    } catch (thrown) {
      // A part of the file would use space on a full disk.
      await rm(join(own, key), { force: true }).catch(() => {});
      const failure = sqliteFailure(thrown, NAME);
      storeFailed(this, NAME, failure, false, () =>
        mayWrite(join(existsSync(folder) ? folder : dirname(folder), 'any')),
      );
      throw failure;
    }
    storeWorks(this);
    return storedImage(image, this.shelf(holder), key);
  }

  /**
   * Returns items with images of another holder as images of this one. `chars`: characters of the images that it did not have
   * yet.
   */
  adopted<Item extends object>(
    holder: string,
    items: readonly Item[],
  ): { readonly items: readonly Item[]; readonly chars: number } {
    const folder = this.#folder;
    if (folder === undefined) return { items, chars: 0 };
    let chars = 0;
    const adopt = (image: AnyImage): AnyImage => {
      const place = placeOf(image);
      if (place === undefined || place.shelf.holder === holder) return image;
      try {
        mkdirSync(join(folder, holder), { recursive: true, mode: 0o700 });
        const isNew = linked(join(folder, place.shelf.holder, place.key), join(folder, holder, place.key));
        if (isNew) chars += charsOf(place.key);
        return storedImage(image, this.shelf(holder), place.key);
      } catch {
        // It then stands in its entry.
        return image;
      }
    };
    const adopted = items.map((item) => {
      const { images } = item as WithImages;
      return images === undefined ? item : { ...item, images: images.map(adopt) };
    });
    if (chars > 0) syncedNow(join(folder, holder), folder);
    return { items: adopted, chars };
  }

  /** Gives a holder all images of another one. */
  copy(from: string, to: string): void {
    const folder = this.#folder;
    if (folder === undefined) return;
    const names = namesIn(join(folder, from));
    if (names.length === 0) return;
    mkdirSync(join(folder, to), { recursive: true, mode: 0o700 });
    for (const name of names) linked(join(folder, from, name), join(folder, to, name));
    syncedNow(join(folder, to), folder);
  }

  /** Returns bytes stored for each session, by its holder. Reads names alone: each key has the size of its file. */
  sizes(): ReadonlyMap<string, number> {
    const folder = this.#folder;
    if (folder === undefined) return new Map();
    const sessions = namesIn(folder).filter((holder) => holder.startsWith(sessionHolder('')));
    const sizeOf = (holder: string) => namesIn(join(folder, holder)).reduce((all, key) => all + charsOf(key), 0);
    return new Map(sessions.map((holder) => [holder, sizeOf(holder)]));
  }

  /** Removes the images of a holder. */
  drop(holder: string): void {
    if (this.#folder === undefined) return;
    const removed = join(this.#folder, `${DELETED}${randomUUID()}`);
    try {
      renameSync(join(this.#folder, holder), removed);
    } catch {
      // It has none.
      return;
    }
    discard(removed);
  }

  #sweep(): void {
    const folder = this.#folder;
    if (folder === undefined) return;
    for (const name of namesIn(folder)) {
      if (name.startsWith(DELETED)) discard(join(folder, name));
    }
  }

  #read(holder: string, key: string): string {
    const folder = this.#folder;
    // A reference of a damaged entry leads to no other file.
    if (folder === undefined || !/^[\w-]+$/.test(key)) return NO_IMAGE;
    const file = join(folder, holder, key);
    const known = this.#recent.get(file);
    if (known !== undefined) return known;
    if (this.#recent.size === 0) setImmediate(() => this.#recent.clear());
    const text = this.#text(file, key, holder);
    this.#recent.set(file, text);
    return text;
  }

  #text(file: string, key: string, holder: string): string {
    try {
      const bytes = readRegularSync(file);
      const [sum] = key.split('-').slice(-2);
      if (crc32(bytes).toString(16) === sum) return bytes.toString('latin1');
      this.#onLost({ holder, file, reason: 'the checksum of its file is wrong' });
    } catch (thrown) {
      this.#onLost({ holder, file, reason: String((thrown as NodeJS.ErrnoException).code ?? thrown) });
    }
    return NO_IMAGE;
  }
}

/** Returns a data URL without white space, so that JSON escapes none of its characters; undefined for another text. */
async function plainDataUrl(text: string): Promise<string | undefined> {
  const head = text.slice(0, text.slice(0, MAX_HEAD).indexOf(',') + 1);
  if (!/^data:[\w/+.;=-]*;base64,$/i.test(head)) return undefined;
  const payload = text.slice(head.length);
  if (base64Bytes(payload) !== undefined) return text;
  await new Promise<void>(nextTurn);
  const bare = withoutSpace(payload);
  return bare === undefined ? undefined : `${head}${bare}`;
}

/** Removes a deleted folder. If that fails, the next start does. */
function discard(folder: string): void {
  void rm(folder, { recursive: true, force: true }).catch(() => {});
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Gives a file a second name; where the file system has none, a copy. False when it has that name. */
function linked(from: string, to: string): boolean {
  try {
    linkSync(from, to);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    if (code === 'ENOENT') throw thrown;
    copyFileSync(from, to);
  }
  return true;
}

/** Has the names of new files in a folder on disk. Windows persists them by itself and opens no folders. */
async function synced(folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  await using handle = await open(folder, 'r');
  await handle.sync();
}

/** Has the names of new files in folders on disk before it returns. Fails with `disk_full` or `runtime_error`. */
function syncedNow(...folders: readonly string[]): void {
  if (process.platform === 'win32') return;
  try {
    for (const folder of folders) {
      const handle = openSync(folder, 'r');
      try {
        fsyncSync(handle);
      } finally {
        closeSync(handle);
      }
    }
  } catch (thrown) {
    throw sqliteFailure(thrown, NAME);
  }
}
