/**
 * The stored lines of an audit: finds its files, opens them so that a rotation during the read moves none, and splits
 * them into lines as a stream, so that their size does not matter.
 */

import { type FileHandle, readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { openRegular } from '../../base/regular-file.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { MAX_LINE_BYTES } from './chain.ts';
import { type AuditFile, filesOf } from './files.ts';

/** Returns the error of a path without an audit. */
export const noAudit = (fileOrFolder: string): HandfastError =>
  fail('usage', `no audit log at ${fileOrFolder}; name its file or its folder`);

/**
 * Returns the newest file of every audit at a path. A rotated file stands for its audit.
 * @param everyHost for a file, also those that `claim` gave to hosts that ran at the same time: `audit-2.jsonl`
 */
export async function newestFiles(fileOrFolder: string, { everyHost = false } = {}): Promise<string[]> {
  const found = await stat(fileOrFolder).catch(() => undefined);
  const folder = found?.isDirectory() ? fileOrFolder : dirname(fileOrFolder);
  const only = found?.isDirectory() ? undefined : basename(fileOrFolder).replace(/(?<=\.jsonl)\.\d+$/, '');
  const names = new Set<string>();
  for (const entry of await readdir(folder).catch(() => [])) {
    const name = entry.replace(/(?<=\.jsonl)\.\d+$/, '');
    const first = everyHost ? name.replace(/-\d+(?=\.jsonl$)/, '') : name;
    if (only === undefined ? name.endsWith('.jsonl') : name === only || first === only) names.add(name);
  }
  return [...names].sort().map((name) => join(folder, name));
}

/** A file of a chain that is open for reading: a rotation renames it and changes nothing here. */
export interface OpenedFile extends AuditFile {
  readonly handle: FileHandle;
  readonly inode: number;
}

/** Opens all files of a chain, oldest first. The caller closes them. */
export async function openChain(newest: string): Promise<OpenedFile[]> {
  const opened: OpenedFile[] = [];
  const inodes = new Set<number>();
  // Newest first, and every file once: a rotation in between then only moves files to names still to be opened.
  const { index: highest = 0 } = (await filesOf(newest)).at(-1) ?? {};
  for (let index = 0; index <= highest + 1; index++) {
    const path = index === 0 ? newest : `${newest}.${index}`;
    const handle = await openRegular(path, 'r').catch((cause: NodeJS.ErrnoException) => {
      if (cause.code === 'ENOENT') return undefined;
      throw cause;
    });
    if (handle === undefined) continue;
    const { ino } = await handle.stat();
    if (inodes.has(ino)) await handle.close();
    else opened.unshift({ path, index, handle, inode: ino });
    inodes.add(ino);
  }
  return opened;
}

/** Values that {@link linesOf} yields in place of a line it cannot read. */
export const HALF_LINE = 'half';
export const LONG_LINE = 'long';

/**
 * Yields the lines of a file from a byte on, without their newlines. Ends after the first that is too long or has no
 * newline.
 */
export async function* linesOf(
  handle: FileHandle,
  start = 0,
): AsyncGenerator<Buffer | typeof HALF_LINE | typeof LONG_LINE> {
  let pending: Buffer = Buffer.alloc(0);
  for await (const chunk of handle.createReadStream({ start, autoClose: false })) {
    let rest: Buffer = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      if (end > MAX_LINE_BYTES) return yield LONG_LINE;
      yield rest.subarray(0, end);
      rest = rest.subarray(end + 1);
    }
    pending = rest;
    if (pending.length > MAX_LINE_BYTES) return yield LONG_LINE;
  }
  if (pending.length > 0) yield HALF_LINE;
}
