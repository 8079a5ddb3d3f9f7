/**
 * Holds the token of this user back from every listener that may belong to another user. A port is free for all users of the
 * machine, so an address alone does not identify the listener's user.
 *
 * The check runs for each link that is dialled with the local token, also when a lost link is dialled again. Tokens that were
 * named by an option or a variable are sent without this check.
 */
import type { Route } from '../../agent/addresses.ts';
import { listenersAt, processOf, type TcpListener, userName } from '../../base/tcp-listeners.ts';
import { foreignSocket, isThisUser } from '../../base/this-user.ts';
import { parseUnixAddress } from '../../transport/socket.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';

/** Tells which sockets accept connections; another one in tests. */
export type ListenersAt = typeof listenersAt;

/** The user's Handfast folder, and the source that lists listeners. */
export interface OwnListener {
  readonly home: string;
  readonly listenersAt?: ListenersAt;
}

/**
 * Rejects with `foreign_listener` unless each process that accepts connections at `address` is of this user. Resolves with
 * false where none does.
 */
export async function requireOwnListener(address: string, own: OwnListener): Promise<boolean> {
  // The other end is a child of this process.
  if (address.startsWith('stdio:')) return true;
  if (address.startsWith('unix:')) return requireOwnSocket(address, own);
  // Windows has no table of listeners, and no socket file that could replace it.
  if (process.platform === 'win32') return true;
  const { host, port } = authorityOf(address);
  const found = await (own.listenersAt ?? listenersAt)(host, port);
  if (found === undefined) throw refused(address, 'this system does not tell which user listens there', own);
  const foreign = found.find(({ uid }) => !isThisUser(uid, own.home));
  if (foreign !== undefined) throw refused(address, `${described(foreign)} listens there`, own);
  return found.length > 0;
}

/** Returns a route that checks the listener before it dials, and again on the open connection before anything is sent. */
export function onlyToOwn(route: Route, address: string, own: OwnListener): Route {
  return {
    ...route,
    async dial(signal) {
      await requireOwnListener(address, own);
      const link = await route.dial(signal);
      try {
        if (await requireOwnListener(address, own)) return link;
        throw fail('unreachable', `${address}: the host stopped listening`, { address });
      } catch (error) {
        link.destroy('the token of this user is not for this host');
        throw error;
      }
    },
  };
}

function requireOwnSocket(address: string, own: OwnListener): boolean {
  let why: string | undefined;
  try {
    why = foreignSocket(parseUnixAddress(address), own.home);
  } catch (error) {
    // No file: dialling says so.
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
  if (why !== undefined) throw refused(address, why, own);
  return true;
}

/** Returns host and port of an address of HTTP, WebSocket or TCP. */
export function authorityOf(address: string): { readonly host: string; readonly port: number } {
  // The parser of addresses leaves out the default port of a scheme, and knows no `tcp:`.
  const secure = /^(?:https|wss):/.test(address);
  const { hostname, port } = new URL(address.replace(/^\w+:/, secure ? 'https:' : 'http:'));
  return { host: hostname.replace(/^\[|\]$/g, ''), port: port !== '' ? Number(port) : secure ? 443 : 80 };
}

function described(listener: TcpListener): string {
  const pid = processOf(listener);
  return `user ${userName(listener.uid)}${pid === undefined ? '' : `, process ${pid},`}`;
}

function refused(address: string, why: string, { home }: OwnListener): HandfastError {
  const advice = `if that host may have a token, name its file: --token-file (${home}/token has that of this user)`;
  return fail('foreign_listener', `the token of this user was not sent to ${address}: ${why}; ${advice}`, { address });
}
