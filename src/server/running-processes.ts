/**
 * Records that running processes of this user publish about themselves: one small file each, in a folder of the user's Handfast
 * folder that other users cannot read or write.
 *
 * For hosts (`running-hosts.ts`) and workers (`fleet/running-workers.ts`). A reader removes a file whose process has ended. A
 * process id is used again, also by other users: a file names the start of its process too.
 */

import { readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { isRunning, seesProcesses, startOf, systemIdentity, userOf } from '../base/children/process-table.ts';
import { readRegular } from '../base/regular-file.ts';
import { replaceFile } from '../base/replace-file.ts';
import { isThisUser } from '../base/this-user.ts';
import { isObject } from '../wire/json.ts';

/** A file larger than this was not written by Handfast. */
const MAX_RECORD_BYTES = 64 * 1024;

/** Facts by which a record is of one process and no other. */
interface ProcessIdentity {
  /** As `process-table.ts` reads it. */
  readonly process_start: number;
  /** The boot of the machine and the namespace of process ids; '' where the system does not say. */
  readonly system: string;
}

/** Writes the file of a process (0600 in a folder of 0700); resolves with the function that removes it again. */
export async function registerProcess(
  folder: string,
  name: string,
  record: { readonly pid: number },
): Promise<() => Promise<void>> {
  const file = join(folder, `${name}.json`);
  const identity: ProcessIdentity = { process_start: startOf(record.pid), system: systemIdentity() };
  await replaceFile(file, `${JSON.stringify({ ...record, ...identity })}\n`);
  return () => unlink(file).catch(() => {});
}

/**
 * Returns the records whose process is alive and belongs to this user. Files of dead processes, and files without a record, are
 * removed; files of another container that shares the folder stay.
 */
export async function findProcesses<T>(
  folder: string,
  read: (record: Readonly<Record<string, unknown>>, pid: number) => T | undefined,
  isAlive?: (pid: number) => boolean,
): Promise<T[]> {
  const found: T[] = [];
  for (const name of await readdir(folder).catch(() => [])) {
    // A draft of `replaceFile`: its writer is about to rename it.
    if (!name.endsWith('.json')) continue;
    const file = join(folder, name);
    const record = await recordIn(file);
    const pid = Number(record?.pid);
    const running = Number.isInteger(pid) && pid > 0 ? read(record as Record<string, unknown>, pid) : undefined;
    const state = running === undefined ? 'ended' : await stateOf(record!, pid, folder, isAlive);
    if (state === 'runs') found.push(running!);
    else if (state === 'ended') await unlink(file).catch(() => {});
  }
  return found;
}

async function recordIn(file: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    const text = await readRegular(file);
    const record: unknown = text.length > MAX_RECORD_BYTES ? undefined : JSON.parse(text);
    return isObject(record) ? record : undefined;
  } catch {
    return undefined;
  }
}

/** Returns whether the process of a record runs here; `elsewhere`: its ids belong to another namespace than this process's. */
async function stateOf(
  { process_start: started, system }: Readonly<Record<string, unknown>>,
  pid: number,
  folder: string,
  isAlive = seesProcesses ? undefined : maySignal,
): Promise<'runs' | 'ended' | 'elsewhere'> {
  if (isAlive !== undefined) return isAlive(pid) ? 'runs' : 'ended';
  const here = systemIdentity();
  if (typeof system !== 'string' || typeof started !== 'number') return 'ended';
  if (system !== here) return system.split(' ')[0] === here.split(' ')[0] ? 'elsewhere' : 'ended';
  if (!(await isRunning({ pid, started }))) return 'ended';
  const uid = await userOf(pid);
  return uid !== undefined && isThisUser(uid, folder) ? 'runs' : 'ended';
}

/** True when a process of this id exists and is this user's. */
function maySignal(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
