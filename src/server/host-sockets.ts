/**
 * The Unix sockets by which commands of this user reach a running host beside its addresses: only this user may connect, and
 * only this user's processes can be behind them, so that the local token goes to no other user. One carries messages, the other
 * HTTP for the routes of operators.
 *
 * A host that is announced to commands has them; commands find the paths in its record (`running-hosts.ts`).
 */
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Log } from '../base/log.ts';
import { ensurePrivateFolder } from '../base/private-file.ts';
import type { Link, Listener } from '../transport/link.ts';
import type { Operated } from './http/operator-routes.ts';

export interface HostSocketsOptions {
  /** The user's Handfast folder. */
  readonly home: string;
  /** Tells this host from others of the user, and stays when it is started again: clients that lost it find it. */
  readonly identity: readonly string[];
  readonly accept: (link: Link) => void;
  /** Serves the routes of operators; undefined for a host without an HTTP address. */
  readonly operated: Operated | undefined;
  readonly log: Log;
}

/** The open sockets. */
export interface HostSockets {
  readonly socket: string | null;
  readonly httpSocket: string | null;
  close(): Promise<void>;
}

/** Opens the sockets. Never rejects: without them commands use the addresses of the host, and `log` has the reason. */
export async function openHostSockets(options: HostSocketsOptions): Promise<HostSockets> {
  const listeners: Listener[] = [];
  const close = async (): Promise<void> => void (await Promise.all(listeners.map((listener) => listener.close())));
  if (process.platform === 'win32') return { socket: null, httpSocket: null, close };
  const { home, identity, accept, operated, log } = options;
  const name = `host-${createHash('sha256').update(JSON.stringify(identity)).digest('hex').slice(0, 12)}`;
  let problem: unknown;
  // A second host with this configuration finds the first name taken, and uses one with its process id.
  const places = folders(home).flatMap((folder) => [join(folder, name), join(folder, `${name}-${process.pid}`)]);
  for (const place of places) {
    try {
      await privateFolder(dirname(place));
      const [socket, httpSocket] = [`${place}.sock`, `${place}.http`];
      const { listenUnix } = await import('../transport/socket.ts');
      listeners.push(await listenUnix({ path: socket }, accept));
      if (operated === undefined) return { socket, httpSocket: null, close };
      const [{ httpServer }, { operatorRoutes }] = await Promise.all([
        import('./http/http.ts'),
        import('./http/operator-routes.ts'),
      ]);
      const onHandlerError = (error: unknown, path: string): void =>
        log.error('an HTTP request failed', { path, error });
      listeners.push(
        await httpServer({ path: httpSocket, routes: operatorRoutes(operated), access: operated, onHandlerError }),
      );
      return { socket, httpSocket, close };
    } catch (error) {
      problem ??= error;
      await close();
      listeners.length = 0;
    }
  }
  log.warn('the private socket for commands of this user could not be opened', { error: problem });
  return { socket: null, httpSocket: null, close };
}

/**
 * Returns the folders that the sockets may be in. The path of a socket has about a hundred bytes, and some file systems have no
 * sockets: then a folder of the session or of the system for temporary files is used.
 */
function folders(home: string): string[] {
  const own = `handfast-${process.geteuid!()}`;
  const { XDG_RUNTIME_DIR: runtime } = process.env;
  return [
    ...new Set([join(home, 'sockets'), ...(runtime ? [join(runtime, own)] : []), join(tmpdir(), own), `/tmp/${own}`]),
  ];
}

/** Makes the folder. In a folder for temporary files another user may have made one of this name: it is not used. */
async function privateFolder(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const found = lstatSync(folder);
  if (!found.isDirectory() || found.uid !== process.geteuid!()) throw new Error(`${folder} belongs to another user`);
  await ensurePrivateFolder(folder);
}
