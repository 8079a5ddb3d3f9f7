/**
 * Reads an image of a prompt with the rights of this command's user, who may read files that the server, or the session's
 * folder, does not have. The content travels in the prompt; the server checks size and type.
 */
import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { fileProblem } from '../base/workspace/file-error.ts';
import type { ImageReference } from '../protocol/session-types.ts';
import { IMAGE_TYPES } from '../protocol/session-words.ts';
import { fail } from '../wire/errors.ts';

/**
 * Reads the file as a prompt carries it. Fails with `usage` for a file that cannot be read, and for one that is no image by its
 * name.
 */
export async function imageFile(path: string): Promise<ImageReference> {
  const mime_type = IMAGE_TYPES[extname(path).toLowerCase()];
  if (mime_type === undefined) {
    throw fail('usage', `not an image: ${path}; supported: ${Object.keys(IMAGE_TYPES).join(', ')}`);
  }
  const bytes = await readFile(path).catch((cause: NodeJS.ErrnoException) => {
    throw fail('usage', `cannot read ${path}: ${fileProblem(cause)}`, {}, cause);
  });
  return { path: basename(path), mime_type, data_url: `data:${mime_type};base64,${bytes.toString('base64')}` };
}
