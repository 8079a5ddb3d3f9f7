/**
 * The private socket of a server of sessions that speaks on pipes: only the program that started it has those pipes, so
 * `handfast approve` in another terminal of the same user reaches it here. One socket for each process, in a separate folder of
 * the user's Handfast folder.
 *
 * The system lets only this user connect (file 0600, folder 0700), so no token is required. A client here may read sessions and
 * answer their approvals, nothing else.
 */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../../base/log.ts';
import { ensurePrivateFolder } from '../../base/private-file.ts';
import type { RpcServer } from '../../control/rpc/rpc-server.ts';
import { LOCAL_PRINCIPAL } from '../../session/auth.ts';
import type { Principal } from '../../session/principal.ts';
import { listenUnix } from '../../transport/socket.ts';
import { clearStale } from '../../transport/unix-path.ts';

/** The rights of a client of the socket: the rights of the command line that answers approvals. */
const APPROVER: Principal = Object.freeze({
  name: LOCAL_PRINCIPAL.name,
  sessions: Object.freeze({ read: 'own', approve: 'own' }),
});

const folderOf = (home: string): string => join(home, 'sockets');

/**
 * Opens the socket and closes it when the server has stopped. Never rejects: a server without it serves its pipes, and
 * `log` says why commands will not find it.
 */
export async function openPrivateSocket(
  server: Pick<RpcServer, 'accept' | 'stopped' | 'maxMessageBytes'>,
  { home, log }: { readonly home: string; readonly log: Log },
): Promise<void> {
  if (process.platform === 'win32') return;
  try {
    const folder = folderOf(home);
    await ensurePrivateFolder(folder);
    // Removes the sockets of killed processes; the commands remove them too.
    await findPrivateSockets(home);
    const random = crypto.randomUUID().slice(0, 8);
    const path = join(folder, `${process.pid}-${random}.sock`);
    const { maxMessageBytes } = server;
    const listener = await listenUnix({ path, maxMessageBytes }, (link) => server.accept(link, APPROVER));
    void server.stopped.then(() => listener.close());
  } catch (error) {
    log.warn('`handfast approve` will not find this server: its private socket could not be opened', { error });
  }
}

/** A socket that may be connected to, by its `unix://` address, and the process that opened it. */
export interface PrivateSocket {
  readonly address: string;
  readonly pid: number;
}

/**
 * Finds the sockets of this user's servers on pipes. Removes those of killed processes. Ignores sockets that another user owns
 * or may connect to: its owner could read the answers.
 */
export async function findPrivateSockets(home: string): Promise<PrivateSocket[]> {
  const folder = folderOf(home);
  if (process.platform === 'win32' || !(await isPrivate(folder, 'folder'))) return [];
  const found: PrivateSocket[] = [];
  for (const name of (await readdir(folder).catch(() => [])).sort()) {
    const pid = /^(\d+)-[0-9a-f]{8}\.sock$/.exec(name)?.[1];
    const path = join(folder, name);
    if (pid === undefined || !(await isPrivate(path, 'socket')) || (await clearStale(path))) continue;
    found.push({ address: `unix://${path}`, pid: Number(pid) });
  }
  return found;
}

/** True for a folder or socket of this user that no other user may use. Symbolic links are neither. */
async function isPrivate(path: string, kind: 'folder' | 'socket'): Promise<boolean> {
  const stats = await lstat(path).catch(() => undefined);
  if (stats === undefined || !(kind === 'folder' ? stats.isDirectory() : stats.isSocket())) return false;
  return stats.uid === process.geteuid!() && (stats.mode & 0o077) === 0;
}
