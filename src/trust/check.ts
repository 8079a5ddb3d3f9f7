/**
 * Decides whether files that came with a folder may be used: compares their bytes with those that this user trusted,
 * and watches for the withdrawal of that trust while they are in use.
 *
 * It applies to a configuration that the user did not name, to the skills of sessions and to workers. Until the files
 * are trusted, they are read for hashing only.
 *
 * @see docs/security/trust.md
 */
import { unwatchFile, watchFile } from 'node:fs';
import { join, sep } from 'node:path';
import type { ConfigTrust } from '../config/config.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { ABSENT, CoveredFiles, digestOf, readAgain } from './covered-files.ts';
import type { FoundFile } from './found-file.ts';
import { quoted } from './quoted.ts';
import { nameIn, type Place, placeOf } from './repository.ts';
import type { TrustEntry, TrustStore, TrustSubject } from './store.ts';

/**
 * Interval of checks of the store while a configuration is in use, milliseconds. The store is checked before each start
 * of a program too.
 */
const WATCH_MS = 500;

/** A found configuration that is trusted as it is. */
export interface TrustedFile {
  readonly entry: TrustEntry;
  readonly covered: CoveredFiles;
}

/**
 * Returns the trust in a found configuration; undefined when it is not trusted, or one of its files has changed. Fails
 * as the store does.
 */
export async function trustedFile(
  { place, file, bytes }: FoundFile,
  subject: TrustSubject,
  store: TrustStore,
): Promise<TrustedFile | undefined> {
  const name = nameIn(place, file);
  const digest = digestOf(bytes);
  const entries = (await store.entries()).filter(
    (entry) => isAbout(entry, place, subject) && entry.folder === folderIn(place) && digestIn(entry, name) === digest,
  );
  for (const entry of entries) {
    const covered = readAgain(entry.files, place, new Map([[file, bytes]]));
    if (covered !== undefined) return { entry, covered };
  }
  return undefined;
}

/** Returns a skill of a folder in the form of entries. */
export function placedSkill(file: string): { readonly place: Place; readonly name: string } {
  // The last one: folders that start with a dot are not searched below it.
  const at = file.lastIndexOf(SKILLS);
  const place = placeOf(file.slice(0, at) || '/');
  return { place, name: nameIn(place, join(place.folder, file.slice(at))) };
}

const SKILLS = `${sep}.agents${sep}skills${sep}`;

/** Resolves with true when exactly this content of a skill was trusted in this repository. Fails as the store does. */
export async function isTrustedSkill(file: string, bytes: Uint8Array, store: TrustStore): Promise<boolean> {
  const { place, name } = placedSkill(file);
  const digest = digestOf(bytes);
  return (await store.entries()).some((entry) => isAbout(entry, place, 'skills') && digestIn(entry, name) === digest);
}

/** Files that programs of a worker read in its folder and that start further programs. */
export const AGENT_FILES = ['.mcp.json', '.claude/settings.json', '.claude/settings.local.json'] as const;

/**
 * Resolves with true when a folder has none of {@link AGENT_FILES}, or their present content was trusted. Fails as the
 * store does.
 */
export async function agentFilesTrusted(folder: string, store: TrustStore): Promise<boolean> {
  const place = placeOf(folder);
  const { digests } = agentFilesOf(place);
  if (Object.values(digests).every((digest) => digest === ABSENT)) return true;
  return (await store.entries()).some(
    (entry) =>
      isAbout(entry, place, 'agent files') &&
      entry.folder === folderIn(place) &&
      AGENT_FILES.every((file) => {
        const name = nameIn(place, join(place.folder, file));
        return digestIn(entry, name) === digests[name];
      }),
  );
}

/** Returns {@link AGENT_FILES} with their present content. */
export function agentFilesOf(place: Place): CoveredFiles {
  const covered = new CoveredFiles(place);
  for (const file of AGENT_FILES) covered.add(join(place.folder, file));
  return covered;
}

/** Resolves with true when this user trusted the repository of a folder itself, so that git may run in it. */
export async function isTrustedRepository(place: Place, store: TrustStore): Promise<boolean> {
  return (await store.entries()).some((entry) => isAbout(entry, place, 'repository'));
}

/** Returns the folder of a place, relative to the top of its working tree. */
export const folderIn = (place: Place): string => nameIn(place, place.folder);

const isAbout = (entry: TrustEntry, place: Place, subject: TrustSubject): boolean =>
  entry.subject === subject && entry.repository === place.repository;

const digestIn = ({ files }: TrustEntry, name: string): string | undefined =>
  Object.hasOwn(files, name) ? files[name] : undefined;

/** A trust that is in use. */
export class HeldTrust implements ConfigTrust {
  readonly #trusted: TrustedFile;
  readonly #place: Place;
  readonly #config: string;
  readonly #store: TrustStore;

  /** @param found the configuration; its own changes count at the next start only */
  constructor(trusted: TrustedFile, found: FoundFile, store: TrustStore) {
    this.#trusted = trusted;
    this.#place = found.place;
    this.#config = nameIn(found.place, found.file);
    this.#store = store;
  }

  async confirm(): Promise<void> {
    const withdrawn = await this.#withdrawn();
    if (withdrawn !== undefined) throw withdrawn;
    const { [this.#config]: _read, ...others } = this.#trusted.entry.files;
    if (readAgain(others, this.#place) === undefined) throw this.#refusal('a file it runs has changed');
  }

  onWithdrawn(listener: (error: HandfastError) => void): () => void {
    let stopped = false;
    const look = async (): Promise<void> => {
      const error = await this.#withdrawn();
      if (error === undefined || stopped) return;
      stop();
      listener(error);
    };
    const changed = (): void => void look();
    const stop = (): void => {
      stopped = true;
      unwatchFile(this.#store.file, changed);
    };
    watchFile(this.#store.file, { interval: WATCH_MS, persistent: false }, changed);
    // The trust may have been withdrawn while the configuration was loaded.
    changed();
    return stop;
  }

  /** Returns the error when the trust was withdrawn. A store that cannot be read trusts nothing. */
  async #withdrawn(): Promise<HandfastError | undefined> {
    const entries = await this.#store.entries().catch(() => []);
    const { entry } = this.#trusted;
    const held = JSON.stringify(entry.files);
    const isThere = entries.some(
      (each) =>
        isAbout(each, this.#place, entry.subject) &&
        each.folder === entry.folder &&
        JSON.stringify(each.files) === held,
    );
    return isThere ? undefined : this.#refusal('the trust in it was withdrawn');
  }

  #refusal(why: string): HandfastError {
    const { folder } = this.#place;
    return untrusted(folder, `${join(folder, this.#trusted.entry.subject)} may not be used any more: ${why}`);
  }
}

/** Returns the error of an untrusted folder, with the way to trust it. */
export function untrusted(folder: string, what: string): HandfastError {
  return fail('untrusted_folder', `${what}; to look at it and trust it, run: handfast trust add ${quoted(folder)}`, {
    folder,
  });
}
