/**
 * Reads the files of a skill's folder in one step, with their hashes, so that the checked bytes are the ones that run: for
 * every scan, and before every run.
 *
 * A folder is refused whole when it contains a link, an entry that is no file, or too much data: a skill runs as its author
 * wrote it or not at all.
 */
import { hash } from 'node:crypto';
import { type Dirent, readdirSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { readBounded } from '../../../base/bounded-file.ts';
import { strictText } from '../../../base/strict-text.ts';

/** Files of a skill, by their path below its folder, with `/`. */
export interface SkillFiles {
  readonly files: ReadonlyMap<string, Buffer>;
  /** SHA-256 of each file, by path, in the order of the paths. */
  readonly manifest: readonly { readonly path: string; readonly bytes: number; readonly sha256: string }[];
  /** SHA-256 of the manifest, in hexadecimal. */
  readonly digest: string;
}

const MAX_FILES = 256;
const MAX_FILE_BYTES = 1024 * 1024;
const MAX_BYTES = 4 * 1024 * 1024;
const MAX_LEVELS = 8;

/** Reads the files of a skill. Throws an error whose message describes the fault of the folder. */
export function readSkillFiles(folder: string): SkillFiles {
  const files = new Map<string, Buffer>();
  const twins = new Map<string, string>();
  let left = MAX_BYTES;
  const visit = (directory: string, below: string, level: number): void => {
    ownedWell(statSync(directory), below === '' ? 'the folder' : below);
    for (const entry of entriesOf(directory, below)) {
      const name = below === '' ? entry.name : `${below}/${entry.name}`;
      // Files that editors and version control put there are no part of a skill.
      if (entry.name.startsWith('.')) continue;
      named(name);
      if (entry.isDirectory()) {
        if (level === MAX_LEVELS) throw new Error(`${name} is deeper than ${MAX_LEVELS} folders`);
        // A folder with its own SKILL.md is another skill.
        if (!hasSkill(join(directory, entry.name))) visit(join(directory, entry.name), name, level + 1);
        continue;
      }
      if (files.size === MAX_FILES) throw new Error(`it has more than ${MAX_FILES} files`);
      const path = join(directory, entry.name);
      const read = readBounded(path, Math.min(MAX_FILE_BYTES, left));
      if (read.kind === 'too_large' && left < MAX_FILE_BYTES) throw new Error(`it is larger than ${MAX_BYTES} bytes`);
      if (read.kind !== 'file')
        throw new Error(`${name} ${read.kind === 'absent' ? 'is no longer there' : read.reason}`);
      ownedWell(read.stats, name);
      alone(name, twins);
      files.set(name, read.bytes);
      left -= read.bytes.length;
    }
  };
  visit(folder, '', 0);
  const manifest = [...files]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([path, bytes]) => ({ path, bytes: bytes.length, sha256: sha256(bytes) }));
  return { files, manifest, digest: sha256(manifest.map(({ path, sha256: sum }) => `${sum}  ${path}\n`).join('')) };
}

/**
 * Throws for a name that is ambiguous in the manifest, which has one name a line: with control or invisible characters, which a
 * person who reviews the folder does not see either, or whose bytes are no text.
 */
function named(name: string): void {
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\ufffd]/u.test(name) || !name.isWellFormed())
    throw new Error(`${JSON.stringify(name)} has characters in its name that no file of a skill may have; rename it`);
}

/** Throws for a second name that other file systems take for the first one: there the folder would have another content. */
function alone(name: string, twins: Map<string, string>): void {
  const key = name.normalize('NFC').toLowerCase().normalize('NFC');
  const twin = twins.get(key);
  if (twin !== undefined) throw new Error(`${twin} and ${name} are one name on other file systems; rename one of them`);
  twins.set(key, name);
}

/** Returns the text of a file; undefined when it is no UTF-8. */
export function textOf(bytes: Buffer): string | undefined {
  return strictText(bytes)?.replace(/^\ufeff/, '');
}

/** Throws for a file or folder that users other than this one and root can change. */
export function ownedWell({ mode, uid }: Stats, name: string): void {
  if (process.platform === 'win32') return;
  if ((mode & 0o002) !== 0) throw new Error(`${name} can be changed by every user; remove that right: chmod o-w`);
  if (uid !== 0 && uid !== process.getuid?.()) throw new Error(`${name} belongs to another user`);
}

const sha256 = (data: string | Uint8Array): string => hash('sha256', data);

const hasSkill = (folder: string): boolean =>
  statSync(join(folder, 'SKILL.md'), { throwIfNoEntry: false }) !== undefined;

function entriesOf(directory: string, name: string): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true }).sort((one, other) => (one.name < other.name ? -1 : 1));
  } catch (error) {
    throw new Error(`${name || 'the folder'} cannot be listed (${(error as NodeJS.ErrnoException).code})`);
  }
}
