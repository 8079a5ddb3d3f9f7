/**
 * The hosts of this user that run right now, so that commands find them without an address: each running host
 * has one small file in its user's Handfast folder.
 *
 * Written by `serve.ts`, read by the command line. A reader removes a file whose process has ended.
 */
import { readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../base/replace-file.ts';
import { isObject } from '../wire/json.ts';

/** What a running host publishes about itself. Contains no secret. */
export interface RunningHost {
  readonly pid: number;
  readonly host_id: string;
  /** Address to be reached at by default; null when it listens nowhere. */
  readonly url: string | null;
  /** Every address it listens on. */
  readonly listeners: readonly string[];
  /** Absolute real path. */
  readonly workspace: string;
  /** Where the token for it is; null when it needs none. */
  readonly token_file: string | null;
  /** The fleet it runs the orchestrator of; null when it runs none. */
  readonly fleet: string | null;
  /** Epoch milliseconds. */
  readonly started_at: number;
}

/** A file larger than this was not written by us. */
const MAX_RECORD_BYTES = 64 * 1024;

const folderOf = (home: string): string => join(home, 'running');

/** Writes the file of a running host (0600 in a folder of 0700); resolves with the function that removes it again. */
export async function registerRunningHost(home: string, running: RunningHost): Promise<() => Promise<void>> {
  const file = join(folderOf(home), `${running.host_id}-${running.pid}.json`);
  await replaceFile(file, `${JSON.stringify(running)}\n`);
  return () => unlink(file).catch(() => {});
}

/** The hosts whose process is alive, the one started last first. Files of dead ones, and what is no such file, go. */
export async function findRunning(home: string, isAlive: (pid: number) => boolean = alive): Promise<RunningHost[]> {
  const folder = folderOf(home);
  const found: RunningHost[] = [];
  for (const name of await readdir(folder).catch(() => [])) {
    // A draft of `replaceFile`: its writer is about to rename it.
    if (!name.endsWith('.json')) continue;
    const file = join(folder, name);
    const running = await readRecord(file);
    if (running !== undefined && isAlive(running.pid)) found.push(running);
    else await unlink(file).catch(() => {});
  }
  return found.sort((a, b) => b.started_at - a.started_at);
}

async function readRecord(file: string): Promise<RunningHost | undefined> {
  try {
    const text = await readFile(file, 'utf8');
    const record: unknown = text.length > MAX_RECORD_BYTES ? undefined : JSON.parse(text);
    if (!isObject(record)) return undefined;
    const { pid, host_id, url, listeners, workspace, token_file, fleet, started_at } = record;
    if (typeof pid !== 'number' || !Number.isInteger(pid) || pid < 1) return undefined;
    if (typeof host_id !== 'string' || typeof workspace !== 'string' || typeof started_at !== 'number')
      return undefined;
    if (!Array.isArray(listeners) || !listeners.every((each) => typeof each === 'string')) return undefined;
    return {
      pid,
      host_id,
      url: typeof url === 'string' ? url : null,
      listeners,
      workspace,
      token_file: typeof token_file === 'string' ? token_file : null,
      fleet: typeof fleet === 'string' ? fleet : null,
      started_at,
    };
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

/** The same address as a client on this machine must write it: "every interface" cannot be dialled. */
export function dialable(address: string): string {
  return address.replace(/^(\w+:\/\/)0\.0\.0\.0(?=:)/, '$1127.0.0.1').replace(/^(\w+:\/\/)\[::\](?=:)/, '$1[::1]');
}
