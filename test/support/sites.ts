/**
 * Contract hosts behind every transport, and peers dialled to them. One site is one transport; its hosts are started at
 * their first use.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createLog } from '../../src/base/log.ts';
import type { Host } from '../../src/host/host.ts';
import { httpServer } from '../../src/server/http/http.ts';
import { type HttpSseOptions, httpSseEndpoint } from '../../src/transport/http/http-sse.ts';
import type { Listener } from '../../src/transport/link.ts';
import { listenTcp, listenUnix, parseTcpAddress, parseUnixAddress } from '../../src/transport/socket.ts';
import { webSocketAcceptor } from '../../src/transport/websocket.ts';
import { dialHttp, dialMemory, dialSocket, dialWebSocket, overStdio } from './carriers.ts';
import { contractHost, type HostKind } from './contract-host.ts';
import type { Peer } from './peer.ts';

export const textTransports = ['tcp', 'unix', 'websocket', 'http', 'stdio'] as const;
export const allTransports = ['memory', ...textTransports] as const;
export type TransportName = (typeof allTransports)[number];

/** The way in which peers dial a running host. */
export interface Door {
  dial(): Promise<Peer>;
  /** The address for Handfast's `connect`; undefined for memory. */
  readonly address?: string;
  close(): Promise<void>;
}

/**
 * Puts a host of this process behind a transport; not for stdio. `endpoint` is for HTTP only, `allowedHosts` for relays in
 * front of an HTTP server, which call it by another port than its own.
 */
export async function doorOf(
  name: Exclude<TransportName, 'stdio'>,
  host: Pick<Host, 'accept'>,
  endpoint: Partial<HttpSseOptions> = {},
  allowedHosts: readonly string[] = [],
): Promise<Door> {
  const accept = (link: Parameters<Host['accept']>[0]): void => host.accept(link);
  switch (name) {
    case 'memory':
      return { dial: async () => dialMemory(accept), close: async () => {} };
    case 'tcp': {
      const listener = await listenTcp({ port: 0 }, accept);
      return { ...of(listener), dial: () => dialSocket(parseTcpAddress(listener.address)) };
    }
    case 'unix': {
      const folder = await mkdtemp(join(tmpdir(), 'handfast-site-'));
      const listener = await listenUnix({ path: join(folder, 'socket') }, accept);
      return {
        address: listener.address,
        dial: () => dialSocket({ path: parseUnixAddress(listener.address) }),
        async close() {
          await listener.close();
          await rm(folder, { recursive: true, force: true });
        },
      };
    }
    case 'websocket': {
      const listener = await httpServer({ webSocket: webSocketAcceptor(), accept, allowedHosts });
      const address = `${listener.address.replace(/^http/, 'ws')}/ws`;
      return { address, dial: () => dialWebSocket(address), close: () => listener.close() };
    }
    case 'http': {
      const listener = await httpServer({ endpoint: httpSseEndpoint({ ...endpoint, accept }), allowedHosts });
      return { ...of(listener), dial: () => dialHttp(listener.address) };
    }
  }
}

function of(listener: Listener): Pick<Door, 'address' | 'close'> {
  return { address: listener.address, close: () => listener.close() };
}

/** Children of the commonest kind that are started before they are asked for. */
const CHILDREN_AHEAD = 2;

/** All kinds of contract hosts on one transport. */
export class Site {
  readonly name: TransportName;
  readonly #doors = new Map<HostKind, Promise<Door>>();
  #address: string | undefined;
  readonly #hosts = new Map<HostKind, Host>();
  readonly #ran: string[] = [];
  readonly #written: string[] = [];
  readonly #children = new Set<ChildProcess>();
  readonly #ready: ChildProcess[] = [];
  #cache: string | undefined;
  readonly #peers: Peer[] = [];

  constructor(name: TransportName) {
    this.name = name;
  }

  /** True when peers can end their side and continue to read. */
  get halfCloses(): boolean {
    return this.name !== 'websocket' && this.name !== 'http';
  }

  /** True when bytes can be cut anywhere: no frames, no bodies. */
  get isByteStream(): boolean {
    return this.name === 'tcp' || this.name === 'unix' || this.name === 'stdio';
  }

  /** Returns the host of this kind; undefined if it lives in another process. */
  host(kind: HostKind): Host | undefined {
    return this.#hosts.get(kind);
  }

  /** Names of the `mark` calls that really ran, in all hosts of this site. */
  get ran(): readonly string[] {
    return this.#ran;
  }

  /** Address of the kind of host that was requested last. */
  get address(): string | undefined {
    return this.#address;
  }

  /** Forgets the host of a kind, failures it remembers included; the next dial starts another one. */
  async renew(kind: HostKind): Promise<void> {
    const door = this.#doors.get(kind);
    const host = this.#hosts.get(kind);
    this.#doors.delete(kind);
    this.#hosts.delete(kind);
    await host?.close(0);
    await (await door)?.close();
  }

  /** Text that the hosts of this process wrote to their logs and audits. */
  get written(): readonly string[] {
    return this.#written;
  }

  async dial(kind: HostKind): Promise<Peer> {
    const peer = this.name === 'stdio' ? this.#child(kind) : await (await this.#door(kind)).dial();
    this.#peers.push(peer);
    return peer;
  }

  async stop(): Promise<void> {
    for (const peer of this.#peers) peer.cut();
    const exits = [...this.#children].map((child) => once(child, 'exit'));
    for (const child of this.#children) child.kill('SIGKILL');
    await Promise.all(exits);
    if (this.#cache !== undefined) rmSync(this.#cache, { recursive: true, force: true });
    await Promise.all([...this.#hosts.values()].map((host) => host.close(0)));
    await Promise.all([...this.#doors.values()].map(async (door) => (await door).close()));
  }

  #door(kind: HostKind): Promise<Door> {
    let door = this.#doors.get(kind);
    if (door === undefined) {
      door = (async () => {
        const write = (line: string): void => void this.#written.push(line);
        const host = await contractHost(kind, (name) => this.#ran.push(name), {
          log: createLog({ level: 'debug', write }),
          audit: { record: (one) => write(JSON.stringify(one)) },
        });
        this.#hosts.set(kind, host);
        const opened = await doorOf(this.name as Exclude<TransportName, 'stdio'>, host);
        this.#address = opened.address;
        return opened;
      })();
      this.#doors.set(kind, door);
    }
    return door;
  }

  /** Returns a peer of a child. A child takes time to start, so the next ones start while the tests use this one. */
  #child(kind: HostKind): Peer {
    if (kind !== 'open') return overStdio(this.#spawn(kind));
    while (this.#ready.length <= CHILDREN_AHEAD) this.#ready.push(this.#spawn(kind));
    return overStdio(this.#ready.shift() as ChildProcess);
  }

  #spawn(kind: HostKind): ChildProcess {
    const script = fileURLToPath(new URL('./stdio-host.ts', import.meta.url));
    // Most of a child's start is compiling; the first one does it for all.
    this.#cache ??= mkdtempSync(join(tmpdir(), 'handfast-cache-'));
    const child = spawn(process.execPath, [script, kind], {
      stdio: ['pipe', 'pipe', 'inherit', 'ipc'],
      env: { ...process.env, NODE_COMPILE_CACHE: this.#cache },
    });
    child.on('message', (name) => this.#ran.push(String(name)));
    this.#children.add(child);
    void once(child, 'exit').then(() => this.#children.delete(child));
    return child;
  }
}
