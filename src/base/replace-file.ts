/**
 * Puts a text in place of a file in one step. Used for small private files: what runs, the state of plugins, what was allowed.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * A reader of the file finds the old text or the new one, also after a power cut. The file is readable for its owner only, and a
 * folder that is missing is made so. Rejects as the file system does; then the old text remains.
 */
export async function replaceFile(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(6).toString('hex')}.new`;
  try {
    await using handle = await open(draft, 'wx', 0o600);
    await handle.writeFile(text);
    await handle.sync();
    await rename(draft, file);
  } catch (error) {
    await unlink(draft).catch(() => {});
    throw error;
  }
}
