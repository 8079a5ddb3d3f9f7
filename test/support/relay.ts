/**
 * A TCP relay that cuts connections: after a number of bytes, in the middle of whatever goes through, or when told to.
 * It stands between agents and hosts in the tests of resuming and in the soak.
 */
import { connect, createServer, type Socket } from 'node:net';

export interface Relay {
  readonly port: number;
  /** Connections cut so far. */
  readonly cuts: number;
  /** Cuts the connections that `choose` says true to; all without it. */
  cut(choose?: () => boolean): void;
  close(): Promise<void>;
}

/**
 * Starts a relay to a host on this machine.
 * @param budget bytes, both ways together, after which a new connection is cut; default never
 */
export async function startRelay(
  target: { host: string; port: number },
  budget: () => number = () => Number.POSITIVE_INFINITY,
): Promise<Relay> {
  const pairs = new Set<{ near: Socket; far: Socket }>();
  let cuts = 0;
  const server = createServer((near) => {
    const far = connect(target);
    const pair = { near, far };
    pairs.add(pair);
    let left = budget();
    const pass = (from: Socket, to: Socket): void => {
      from.on('data', (chunk: Buffer) => {
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
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the relay has no port');
  return {
    port: address.port,
    get cuts() {
      return cuts;
    },
    cut(choose = () => true) {
      for (const pair of [...pairs]) if (choose()) drop(pair);
    },
    close() {
      for (const { near, far } of pairs) {
        near.destroy();
        far.destroy();
      }
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
