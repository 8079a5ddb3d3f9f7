/**
 * The host that a command talks to, and the token: the address on the command line, else the host of this user that is running.
 */
import { ADDRESS_FORMS, addressOf, type DialOptions, type Route } from '../../agent/addresses.ts';
import { handfastHome } from '../../base/handfast-home.ts';
import { isInside } from '../../base/is-inside.ts';
import { listenersAt } from '../../base/tcp-listeners.ts';
import { foreignSocket } from '../../base/this-user.ts';
import { isLoopback } from '../../config/listen-address.ts';
import { tokenFromSources } from '../../config/local-token.ts';
import { dialable, findRunning, type RunningHost } from '../../server/running-hosts.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import type { Terminal } from '../output/terminal.ts';
import type { Operator } from './operator.ts';
import { type ListenersAt, type OwnListener, onlyToOwn } from './own-listener.ts';

/** The flags every command that talks to a host has. */
export interface ConnectFlags {
  readonly connect?: string;
  readonly tokenFile?: string;
  /** Wants the server of a fleet, of this name if one is given: that one alone is looked for. */
  readonly fleet?: boolean | string;
  /** Capabilities to ask for, in place of those the command asks for by itself. */
  readonly cap?: readonly string[];
}

/** The environment of the process in which commands look for a host. */
export interface ProcessContext extends Pick<OwnListener, 'listenersAt'> {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

export interface FoundHost {
  /** As the user named it or the host announced it, for messages. */
  readonly address: string;
  /** Address at which it is dialled: the private socket of a host of this user, else `address`. */
  readonly via: string;
  /** `''` without a token to send. */
  readonly token: string;
  /** Set for the local token, which goes to hosts of this user only. */
  readonly own: OwnListener | undefined;
  /** Set when the host was found and not named. */
  readonly running: RunningHost | undefined;
  /** Number of other hosts that the same words could have meant. */
  readonly others: number;
}

/**
 * Finds the host and the token for it.
 *
 * Fails with `unreachable` when none is named and none is running, or the one that is meant serves no sessions and they are
 * wanted (`detail.reason` is `no_sessions`), `usage` when several are and none of them is responsible for the current folder,
 * and as `tokenFromSources` does.
 */
export async function findHost(
  {
    connect,
    tokenFile,
    fleet = false,
    connectOption = '--connect',
    sessions = false,
    like,
  }: Pick<ConnectFlags, 'connect' | 'tokenFile' | 'fleet'> & {
    /** The option that gives `connect`. */
    readonly connectOption?: string;
    /** Its server of sessions is wanted. */
    readonly sessions?: boolean;
    /**
     * A host that was found before: the same is looked for, also as another process. While it is down, no other stands in for
     * it.
     */
    readonly like?: RunningHost | undefined;
  },
  { env, cwd, listenersAt: listeners = listenersAt }: ProcessContext = { env: process.env, cwd: process.cwd() },
): Promise<FoundHost> {
  const home = handfastHome(env);
  const same = ({ host_id, workspace, fleet: name }: RunningHost): boolean =>
    like === undefined || (host_id === like.host_id && workspace === like.workspace && name === like.fleet);
  const candidates = connect === undefined ? (await findRunning(home)).filter(same) : [];
  const running = connect === undefined ? pick(candidates, cwd, fleet, connectOption) : undefined;
  if (sessions && running?.sessions === false) throw noSessions(running, candidates);
  const address = connect ?? publicAddressOf(running as RunningHost);
  const found = await tokenFromSources({ flagFile: tokenFile, env, home: isLocal(address) ? home : undefined });
  const alike = candidates.filter((host) => (host.fleet !== null) === (running?.fleet !== null));
  const own = found?.source === 'local' ? { home, listenersAt: listeners } : undefined;
  const behind = running ?? (own && (await announcedAt(address, home, listeners)));
  return {
    address,
    via: behind === undefined ? address : viaOf(behind, address, home),
    token: found?.token ?? '',
    own,
    running,
    others: Math.max(0, alike.length - 1),
  };
}

/** Reaches a running host at the address it announced. */
export async function reachRunning(
  running: RunningHost,
  { env, home }: Pick<ProcessContext, 'env'> & { readonly home: string },
): Promise<FoundHost> {
  const found = await tokenFromSources({ env, home });
  const address = dialable(running.url ?? '');
  const own = found?.source === 'local' ? { home } : undefined;
  return { address, via: viaOf(running, address, home), token: found?.token ?? '', own, running, others: 0 };
}

/** Returns the route to a found host. With the local token each link is checked first. */
export function routeOf(found: FoundHost, options: DialOptions, at = (address: string): string => address): Route {
  const address = at(found.via);
  const route = addressOf(address, options);
  return found.own === undefined ? route : onlyToOwn(route, address, found.own);
}

/**
 * Finds the host of this user that announced a named address, where the system does not tell which user listens there: its
 * private socket is used in place of the address.
 */
async function announcedAt(address: string, home: string, listeners: ListenersAt): Promise<RunningHost | undefined> {
  const named = originOf(address);
  if (named === undefined || (await listeners('127.0.0.1', 0)) !== undefined) return undefined;
  return (await findRunning(home)).find((host) => host.listeners.some((each) => originOf(each) === named));
}

/** Returns host and port, equal for two spellings of an address on this machine; undefined for an address without a port. */
function originOf(address: string): string | undefined {
  const [, host = '', port] = /^\w+:\/\/(\[[^\]]+\]|[^:/?#]+):(\d+)/.exec(dialable(address)) ?? [];
  return port === undefined ? undefined : `${/^(?:localhost|\[::1\])$/i.test(host) ? '127.0.0.1' : host}:${port}`;
}

/** Returns the address at which a host is dialled: its private socket, or `address` where it has no usable one. */
function viaOf({ socket }: RunningHost, address: string, home: string): string {
  return socket !== null && isOwnSocket(socket, home) ? `unix://${socket}` : address;
}

/** False for a socket that is missing, and for one that another user could be behind. */
function isOwnSocket(path: string, home: string): boolean {
  try {
    return foreignSocket(path, home) === undefined;
  } catch {
    return false;
  }
}

/** Commands that have said it: some connect twice. */
const noted = new WeakSet<Terminal>();

/**
 * Prints, once a command, the host that was chosen of several. Prints nothing where one was named or only one is running, and
 * for `--json`.
 */
export function noteChosen({ address, running, others }: FoundHost, terminal: Terminal): void {
  if (running === undefined || others === 0 || terminal.json || noted.has(terminal)) return;
  noted.add(terminal);
  const { host_id, fleet, pid, workspace } = running;
  const what = fleet === null ? `host ${host_id}` : `fleet ${fleet}`;
  const option = fleet === null ? '--connect' : '--fleet or --connect';
  terminal.note(`${what} at ${address}, process ${pid}, in ${workspace}; ${others} more running: ${option} chooses`);
}

/** Returns the error of a host that has no server of sessions, with the hosts that have one. */
function noSessions({ host_id, pid, workspace }: RunningHost, running: readonly RunningHost[]): HandfastError {
  const why = 'another process had their data when it started, or its configuration turns them off';
  const others = running.filter(({ sessions }) => sessions).map((host) => `  ${described(host)}`);
  const advice = others.length === 0 ? '' : `; name one that does with --connect:\n${others.join('\n')}`;
  const message = `host ${host_id}, process ${pid}, in ${workspace} serves no sessions: ${why}${advice}`;
  return fail('unreachable', message, { reason: 'no_sessions' });
}

const described = (host: RunningHost): string =>
  `${publicAddressOf(host)}  ${host.host_id}, process ${host.pid}, in ${host.workspace}`;

/** Chooses the host when none is named: the only one, else the one whose workspace is nearest around the current folder. */
function pick(running: readonly RunningHost[], cwd: string, fleet: boolean | string, option: string): RunningHost {
  const named = typeof fleet === 'string';
  const meant = running.filter((host) => (named ? host.fleet === fleet : (host.fleet !== null) === fleet));
  // A fleet's server has tools and sessions too, but it is not meant while another host runs.
  const hosts = meant.length === 0 && !fleet ? running : meant;
  const [first, ...others] = hosts;
  if (first === undefined && fleet) {
    throw fail(
      'unreachable',
      `no fleet ${named ? `named ${fleet} ` : ''}of this user is running; start one with: handfast fleet up (or name its server: ${option})`,
    );
  }
  if (first === undefined) {
    throw fail('unreachable', 'no host of this user is running; start one with: handfast up (or name one: --connect)');
  }
  if (others.length === 0) return first;
  const around = hosts
    .filter(({ workspace }) => isInside(workspace, cwd))
    .sort((a, b) => b.workspace.length - a.workspace.length);
  const [nearest, next] = around;
  if (nearest !== undefined && nearest.workspace !== next?.workspace) return nearest;
  if (fleet) {
    const fleets = hosts.map((host) => `  ${host.fleet}, process ${host.pid}, at ${publicAddressOf(host)}`);
    throw fail('usage', `several fleets are running; name one with --fleet:\n${fleets.join('\n')}`);
  }
  const lines = hosts.map((host) => `  ${described(host)}`);
  throw fail('usage', `several hosts are running; name one with --connect:\n${lines.join('\n')}`);
}

/** Returns the address of a running host that is cheapest to reach. */
function publicAddressOf({ listeners, url }: RunningHost): string {
  const nearest = listeners.find((each) => each.startsWith('unix:')) ?? listeners.find((each) => /^tcp:/.test(each));
  return dialable(nearest ?? url ?? '');
}

/**
 * Returns the HTTP address at which a found host serves operators, and the token for it. Fails with `usage` when it has no HTTP
 * address.
 */
export function operatorOf({ address, token, own, running }: FoundHost): Operator {
  const listed = running?.listeners.find((each) => each.startsWith('http'));
  const base = listed === undefined ? httpBaseOf(address) : dialable(listed).replace(/\/$/, '');
  if (base === undefined) {
    throw fail('usage', `this command needs an HTTP address of the host, got ${address}; pass one with --connect`);
  }
  const socketPath = running?.http_socket ?? null;
  const isUsable = socketPath !== null && own !== undefined && isOwnSocket(socketPath, own.home);
  return { base, token, own, ...(isUsable && { socketPath }) };
}

/** Returns the HTTP address behind an address of HTTP or WebSocket. */
function httpBaseOf(address: string): string | undefined {
  const [, secure, authority] = /^(?:http|ws)(s?):\/\/([^/?#]+)/.exec(address) ?? [];
  return authority === undefined ? undefined : `http${secure}://${authority}`;
}

/** True for addresses that only reach this machine: others must never be sent this user's local token. */
export function isLocal(address: string): boolean {
  if (address.startsWith('unix:')) return true;
  const host = /^(?:https?|wss?|tcp):\/\/(?:[^@/?#\\]*@)?(\[[^\]]+\]|[^:/?#\\]+)/.exec(address)?.[1];
  return host !== undefined && isLoopback(host.replace(/^\[|\]$/g, ''));
}

export { ADDRESS_FORMS };
