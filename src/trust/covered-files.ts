/**
 * The files an entry of trust covers: read bounded, hashed, and compared with the hashes of the time when they were
 * trusted.
 *
 * The bytes that were hashed are the bytes that are used: no file is read a second time.
 */
import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { readBounded } from '../base/bounded-file.ts';
import { nameIn, type Place } from './repository.ts';

/** Bounds on the files that one entry may cover, and on their bytes. Files beyond them are reported as not covered. */
export const MAX_FILES = 512;
const MAX_FILE_BYTES = 4 * 1024 * 1024;
const MAX_TOTAL_BYTES = 32 * 1024 * 1024;

/** In place of a digest: nothing was there, or something that is not a readable file. */
export const ABSENT = 'absent';
const OTHER = 'other';

/** Returns the SHA-256 of a file's content, in the form of entries. */
export const digestOf = (bytes: Uint8Array): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/**
 * Returns true for a file of the working tree that is not one of an installed package: its changes need a decision of
 * the user.
 */
export function isOfRepository(place: Pick<Place, 'top'>, path: string): boolean {
  const name = nameIn(place, path);
  return !isAbsolute(name) && !name.split('/').includes('node_modules');
}

/** A file with hashed content. */
export interface CoveredFile {
  /** Its path without links. */
  readonly real: string;
  readonly bytes: Buffer;
}

/** Collects files by the path they are reached by. */
export class CoveredFiles {
  /** Absolute path as named → the file that was read there. */
  readonly read = new Map<string, CoveredFile>();
  readonly #digests = new Map<string, string>();
  readonly #place: Place;
  #total = 0;

  constructor(place: Place) {
    this.#place = place;
  }

  /** Digests by name, for an entry. */
  get digests(): Readonly<Record<string, string>> {
    return Object.fromEntries(this.#digests);
  }

  /** Returns true for a file of the repository that is not one of an installed package. */
  concerns(path: string): boolean {
    return isOfRepository(this.#place, path);
  }

  /** Adds bytes that were read already. */
  set(path: string, bytes: Buffer): void {
    this.read.set(path, { real: path, bytes });
    this.#digests.set(nameIn(this.#place, path), digestOf(bytes));
  }

  /** Reads and adds a file. Links on the way are followed, because its content counts. False: over the limits. */
  add(path: string): boolean {
    const name = nameIn(this.#place, path);
    if (this.#digests.has(name)) return true;
    if (this.#digests.size >= MAX_FILES) return false;
    let real: string;
    try {
      real = realpathSync(path);
    } catch {
      this.#digests.set(name, ABSENT);
      return true;
    }
    const found = readBounded(real, Math.min(MAX_FILE_BYTES, MAX_TOTAL_BYTES - this.#total));
    if (found.kind === 'too_large') return false;
    if (found.kind !== 'file') {
      this.#digests.set(name, found.kind === 'absent' ? ABSENT : OTHER);
      return true;
    }
    this.#total += found.bytes.length;
    this.read.set(path, { real, bytes: found.bytes });
    this.#digests.set(name, digestOf(found.bytes));
    return true;
  }
}

/**
 * Reads the files of an entry again, in the working tree of `place`. Undefined when one of them has changed.
 * @param known files whose bytes were read already, by absolute path
 */
export function readAgain(
  files: Readonly<Record<string, string>>,
  place: Place,
  known: ReadonlyMap<string, Buffer> = new Map(),
): CoveredFiles | undefined {
  const covered = new CoveredFiles(place);
  for (const [name, expected] of Object.entries(files)) {
    const path = isAbsolute(name) ? name : join(place.top, name);
    const bytes = known.get(path);
    if (bytes !== undefined) covered.set(path, bytes);
    else if (!covered.add(path)) return undefined;
    if (covered.digests[nameIn(place, path)] !== expected) return undefined;
  }
  return covered;
}
