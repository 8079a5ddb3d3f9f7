/** A relay in front of a TCP listener whose connections can be cut, as a cable is. */
import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';

/** Passes connections to a host on this machine until they are cut. */
export class CuttableWire implements AsyncDisposable {
  readonly address: string;
  readonly #server: ReturnType<typeof createServer>;
  readonly #sockets: Set<Socket>;

  private constructor(server: ReturnType<typeof createServer>, sockets: Set<Socket>) {
    this.#server = server;
    this.#sockets = sockets;
    this.address = `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async to({ hostname, port }: URL): Promise<CuttableWire> {
    const sockets = new Set<Socket>();
    const server = createServer((near) => {
      const far = dial(Number(port), hostname);
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(one);
        one.pipe(other);
        one
          .on('error', () => {})
          .on('close', () => {
            sockets.delete(one);
            other.destroy();
          });
      }
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new CuttableWire(server, sockets);
  }

  /** Cuts every connection; the wire accepts new ones. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    this.#server.close();
  }
}
