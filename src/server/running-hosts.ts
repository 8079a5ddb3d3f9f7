/**
 * The hosts of this user that run right now, so that commands find them without an address: each running host
 * has one small file in its user's Handfast folder.
 *
 * A host writes it, the command line reads it.
 */
import { join } from 'node:path';
import { findProcesses, registerProcess } from './running-processes.ts';

/** Data that a running host publishes about itself. Contains no secret. */
export interface RunningHost {
  readonly pid: number;
  readonly host_id: string;
  /** Address to be reached at by default; null when it listens nowhere. */
  readonly url: string | null;
  /** Every address it listens on. */
  readonly listeners: readonly string[];
  /** Path of the Unix socket for commands of this user; null when it could not be opened. */
  readonly socket: string | null;
  /** Path of the Unix socket for the HTTP routes of operators; null when it is not open. */
  readonly http_socket: string | null;
  /** Absolute real path. */
  readonly workspace: string;
  /** File of the token for it; null when it needs none. */
  readonly token_file: string | null;
  /** The fleet it runs the orchestrator of; null when it runs none. */
  readonly fleet: string | null;
  /** False: it has no server of sessions. */
  readonly sessions: boolean;
  /** Epoch milliseconds. */
  readonly started_at: number;
}

const folderOf = (home: string): string => join(home, 'running');

/** Writes the file of a running host (0600 in a folder of 0700); resolves with the function that removes it again. */
export const registerRunningHost = (home: string, running: RunningHost): Promise<() => Promise<void>> =>
  registerProcess(folderOf(home), `${running.host_id}-${running.pid}`, running);

/** Finds the hosts whose process is alive, the one started last first. */
export async function findRunning(home: string, isAlive?: (pid: number) => boolean): Promise<RunningHost[]> {
  const found = await findProcesses(folderOf(home), hostFrom, isAlive);
  return found.sort((a, b) => b.started_at - a.started_at);
}

function hostFrom(record: Readonly<Record<string, unknown>>, pid: number): RunningHost | undefined {
  const { host_id, url, listeners, socket, http_socket, workspace, token_file, fleet, sessions, started_at } = record;
  if (typeof host_id !== 'string' || typeof workspace !== 'string' || typeof started_at !== 'number') return undefined;
  if (!Array.isArray(listeners) || !listeners.every((each) => typeof each === 'string')) return undefined;
  return {
    pid,
    host_id,
    url: typeof url === 'string' ? url : null,
    listeners,
    socket: typeof socket === 'string' ? socket : null,
    http_socket: typeof http_socket === 'string' ? http_socket : null,
    workspace,
    token_file: typeof token_file === 'string' ? token_file : null,
    fleet: typeof fleet === 'string' ? fleet : null,
    sessions: sessions !== false,
    started_at,
  };
}

/** Returns the same address as a client on this machine must write it: "every interface" cannot be dialled. */
export function dialable(address: string): string {
  return address.replace(/^(\w+:\/\/)0\.0\.0\.0(?=:)/, '$1127.0.0.1').replace(/^(\w+:\/\/)\[::\](?=:)/, '$1[::1]');
}
