/**
 * What running processes of this user publish about themselves: one small file each, in a folder of the user's Handfast folder
 * that other users cannot read or write.
 *
 * Used for hosts (`running-hosts.ts`) and workers (`fleet/running-workers.ts`). A reader removes a file whose process has ended.
 */
import { readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../base/replace-file.ts';
import { isObject } from '../wire/json.ts';

/** A file larger than this was not written by us. */
const MAX_RECORD_BYTES = 64 * 1024;

/** Writes the file of a process (0600 in a folder of 0700); resolves with the function that removes it again. */
export async function registerProcess(
  folder: string,
  name: string,
  record: { readonly pid: number },
): Promise<() => Promise<void>> {
  const file = join(folder, `${name}.json`);
  await replaceFile(file, `${JSON.stringify(record)}\n`);
  return () => unlink(file).catch(() => {});
}

/** The records whose process is alive. Files of dead processes, and what is no such record, are removed. */
export async function findProcesses<T>(
  folder: string,
  read: (record: Readonly<Record<string, unknown>>, pid: number) => T | undefined,
  isAlive: (pid: number) => boolean = alive,
): Promise<T[]> {
  const found: T[] = [];
  for (const name of await readdir(folder).catch(() => [])) {
    // A draft of `replaceFile`: its writer is about to rename it.
    if (!name.endsWith('.json')) continue;
    const file = join(folder, name);
    const record = await recordIn(file);
    const pid = Number(record?.pid);
    const running = Number.isInteger(pid) && pid > 0 ? read(record as Record<string, unknown>, pid) : undefined;
    if (running !== undefined && isAlive(pid)) found.push(running);
    else await unlink(file).catch(() => {});
  }
  return found;
}

async function recordIn(file: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    const text = await readFile(file, 'utf8');
    const record: unknown = text.length > MAX_RECORD_BYTES ? undefined : JSON.parse(text);
    return isObject(record) ? record : undefined;
  } catch {
    return undefined;
  }
}

/** True when a process of this id exists, also when it belongs to another user. */
function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
