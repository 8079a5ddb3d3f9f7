/**
 * Puts a text in place of a file in one step. For small private files: the list of running processes, the state of
 * plugins, remembered permissions.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, stat, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Replaces a file's text: a reader of the file finds the old text or the new one, also after a power cut. The file is
 * readable for its owner only, and a missing folder is created the same way; with `keepMode` an existing file keeps its
 * permissions. Rejects as the file system does; then the old text remains.
 */
export async function replaceFile(file: string, text: string, { keepMode = false } = {}): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(6).toString('hex')}.new`;
  try {
    await using handle = await open(draft, 'wx', 0o600);
    const mode = keepMode ? (await stat(file).catch(() => undefined))?.mode : undefined;
    // Not as a mode of `open`, which the mask of the process would change.
    if (mode !== undefined) await handle.chmod(mode & 0o777);
    await handle.writeFile(text);
    await handle.sync();
    await rename(draft, file);
  } catch (error) {
    await unlink(draft).catch(() => {});
    throw error;
  }
}
