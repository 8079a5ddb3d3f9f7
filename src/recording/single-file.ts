/**
 * A bundle as one file, to send it to others: the manifest on one line, then the lines of its messages unchanged. No
 * archive and no compression: the file has no path that could lead elsewhere, no link, no second entry of a name, and
 * no text that grows.
 *
 * `read-bundle.ts` reads such a file as it reads a folder.
 */
import { createHash } from 'node:crypto';
import { lstat, mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { replaceFile } from '../base/replace-file.ts';
import { fail } from '../wire/errors.ts';
import { MANIFEST_FILE, type Manifest, MESSAGES_FILE } from './format.ts';
import { entriesOf, rawBundle } from './read-bundle.ts';

/**
 * Writes a recording into one file, which must not be there.
 * @throws not_found, recording.invalid · usage when the file is there
 */
export async function exportBundle(path: string, file: string): Promise<Manifest> {
  const { manifest, messages } = checked(path);
  if ((await lstat(file).catch(() => undefined)) !== undefined) throw fail('usage', `${file} is already there`);
  await replaceFile(file, `${JSON.stringify(manifest)}\n${messages.toString('utf8')}`);
  return manifest;
}

/**
 * Unpacks a recording into a folder, which must be missing or empty. Everything is checked before anything is written; nothing
 * is written beside the folder, and nothing in the file is run.
 * @throws not_found, recording.invalid · usage when something is in the folder
 */
export async function importBundle(file: string, folder: string): Promise<Manifest> {
  const { manifest, messages } = checked(file);
  const there = await lstat(folder).catch(() => undefined);
  // A link is refused as well, also one to an empty folder: the folder gets its name at the end, and a name that is a link is in use.
  const isFree = there === undefined || (there.isDirectory() && (await readdir(folder)).length === 0);
  if (!isFree)
    throw fail('usage', `${folder} is ${there.isSymbolicLink() ? 'a symbolic link, ' : ''}not an empty folder`);
  await mkdir(dirname(folder), { recursive: true, mode: 0o700 });
  // Whole or not at all: the name is given at the end.
  const draft = await mkdtemp(`${folder}.new-`);
  try {
    await writeFile(join(draft, MESSAGES_FILE), messages, { mode: 0o600, flush: true });
    await replaceFile(join(draft, MANIFEST_FILE), `${JSON.stringify(manifest, undefined, 2)}\n`);
    await rename(draft, folder);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    throw error;
  }
  return manifest;
}

/**
 * Returns both parts of a recording whose every line was checked; of an incomplete one up to its last whole line, with
 * its hash.
 */
function checked(path: string): { manifest: Manifest; messages: Buffer } {
  const { manifest, messages } = rawBundle(path);
  entriesOf(manifest, messages);
  if (manifest.complete) return { manifest, messages };
  const whole = messages.subarray(0, messages.lastIndexOf('\n') + 1);
  const sha256 = createHash('sha256').update(whole).digest('hex');
  return { manifest: { ...manifest, files: { [MESSAGES_FILE]: { bytes: whole.length, sha256 } } }, messages: whole };
}
