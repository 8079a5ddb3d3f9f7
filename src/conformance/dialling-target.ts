/**
 * Targets that open their connections themselves: the kit listens, and each case takes the next connection.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { withTimeout } from '../base/race.ts';
import { fail } from '../wire/errors.ts';
import { type Carrier, type CarrierSink, socketCarrier } from './carriers.ts';

/** Longest wait for a connection, in milliseconds: targets start, and reconnect after a pause that grows. */
const CONNECT_MS = 60_000;

/** Address at which the kit listens. */
export type DiallingAddress =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string };

export class DiallingTarget {
  /** Its address, in the form in which a target names it. */
  readonly address: string;
  readonly #server: Server;
  readonly #binding: 'tcp' | 'unix';
  /** The newest connection that no case has taken. */
  #waiting: Socket | undefined;
  #taken: ((socket: Socket) => void) | undefined;

  private constructor(server: Server, binding: 'tcp' | 'unix', address: string) {
    this.#server = server;
    this.#binding = binding;
    this.address = address;
    server.on('connection', (socket) => this.#offer(socket));
  }

  /** Listens; port 0 is any free one. Fails with `runtime_error` if it cannot. */
  static async listen(at: DiallingAddress): Promise<DiallingTarget> {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
    await new Promise<void>((resolve, reject) => {
      server.once('error', (cause: NodeJS.ErrnoException) =>
        reject(fail('runtime_error', `cannot listen: ${cause.code ?? cause.message}`, {}, cause)),
      );
      server.listen(at.kind === 'unix' ? { path: at.path } : { host: at.host, port: at.port }, resolve);
    });
    const bound = server.address();
    const address =
      typeof bound === 'string' || bound === null
        ? `unix://${bound}`
        : `tcp://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`;
    return new DiallingTarget(server, at.kind, address);
  }

  /** Returns the next connection. Fails with `unreachable` when none comes. */
  async accept(sink: CarrierSink): Promise<Carrier> {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    const next = Promise.withResolvers<Socket>();
    if (waiting !== undefined && !waiting.destroyed) next.resolve(waiting);
    else this.#taken = next.resolve;
    const none = () => fail('unreachable', `nothing connected to ${this.address} within ${CONNECT_MS / 1000} s`);
    const socket = await withTimeout(next.promise, CONNECT_MS, none);
    return socketCarrier(this.#binding, socket, sink);
  }

  async close(): Promise<void> {
    this.#waiting?.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #offer(socket: Socket): void {
    socket.on('error', () => {});
    const taken = this.#taken;
    this.#taken = undefined;
    if (!this.#server.listening) return void socket.destroy();
    if (taken !== undefined) return taken(socket);
    this.#waiting?.destroy();
    this.#waiting = socket;
  }
}
