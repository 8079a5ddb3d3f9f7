/**
 * A relay that cuts connections: after a number of bytes, in the middle of the traffic, or on command. It can also
 * swallow everything, as behind a dead router, or refuse connections. It runs between agents and hosts in the tests of
 * resuming, reconnecting and liveness, and in the soak.
 */
import { connect, createServer, type Socket } from 'node:net';

/**
 * The address to which the relay forwards connections, and on which it listens itself: a port, or the path of a Unix
 * socket.
 */
export type RelayTarget = { readonly host: string; readonly port: number } | { readonly path: string };

export interface Relay {
  /** 0 where it listens on a path. */
  readonly port: number;
  /** Connections cut so far. */
  readonly cuts: number;
  /** Connections made so far. */
  readonly connections: number;
  /** While true, the relay forwards nothing that arrives, in either direction, and informs no end. */
  swallowing: boolean;
  /** Cuts the connections for which `choose` returns true; all without it. */
  cut(choose?: () => boolean): void;
  /** Stops listening, so that the system refuses connections; those that are open stay. */
  refuse(): Promise<void>;
  /** Listens again where it did. */
  listen(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts a relay to a host on this machine.
 * @param budget bytes, both ways together, after which a new connection is cut; default never
 * @param path listens on a Unix socket instead of a port
 */
export async function startRelay(
  target: RelayTarget,
  budget: () => number = () => Number.POSITIVE_INFINITY,
  path?: string,
): Promise<Relay> {
  const pairs = new Set<{ near: Socket; far: Socket }>();
  let cuts = 0;
  let connections = 0;
  let port = 0;
  const server = createServer((near) => {
    connections++;
    const far = connect(target);
    const pair = { near, far };
    pairs.add(pair);
    let left = budget();
    const pass = (from: Socket, to: Socket): void => {
      from.on('data', (chunk: Buffer) => {
        if (relay.swallowing) return;
        left -= chunk.length;
        const whole = left >= 0;
        if (!to.write(whole ? chunk : chunk.subarray(0, Math.max(0, chunk.length + left)))) {
          from.pause();
          to.once('drain', () => from.resume());
        }
        if (!whole) drop(pair);
      });
      from.on('error', () => {});
      from.on('close', () => {
        // Behind a dead router the other end does not learn that this one has closed.
        if (relay.swallowing) return;
        pairs.delete(pair);
        to.destroy();
      });
    };
    pass(near, far);
    pass(far, near);
  });
  const drop = (pair: { near: Socket; far: Socket }): void => {
    if (!pairs.delete(pair)) return;
    cuts++;
    pair.near.destroy();
    pair.far.destroy();
  };
  const relay: Relay = {
    get port() {
      return port;
    },
    get cuts() {
      return cuts;
    },
    get connections() {
      return connections;
    },
    swallowing: false,
    cut(choose = () => true) {
      for (const pair of [...pairs]) if (choose()) drop(pair);
    },
    // Resolves when the port is free, which does not wait for the connections.
    async refuse() {
      server.close();
    },
    async listen() {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(path === undefined ? { port, host: '127.0.0.1' } : { path }, resolve);
      });
      const address = server.address();
      if (typeof address === 'object' && address !== null) port = address.port;
    },
    close() {
      for (const { near, far } of pairs) {
        near.destroy();
        far.destroy();
      }
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  await relay.listen();
  return relay;
}
