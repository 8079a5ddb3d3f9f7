/**
 * The wire between a client and its NATS server, for tests: it can fall silent in either direction, as in a partition, it can
 * swallow the first message that matches and break, and it can hold messages and bring them late.
 */
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

type Direction = 'up' | 'down';

export class Wire {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #silent = new Set<Direction>();
  /** Held data, from the first message with this text on, and its direction. */
  #held: { readonly what: string; readonly chunks: [Socket, Buffer][] } | undefined;
  #eat: { readonly what: string; readonly eaten: () => void } | undefined;

  private constructor(target: number) {
    this.#server = createServer((near) => {
      const far = connect(target, '127.0.0.1');
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => {
          this.#sockets.delete(socket);
          near.destroy();
          // Its sender may be gone when it arrives.
          if (!this.#held?.chunks.some(([way]) => way === far)) far.destroy();
        });
      }
      near.on('data', (chunk: Buffer) => {
        const held = this.#held;
        if (held !== undefined && (held.chunks.length > 0 || chunk.includes(held.what))) held.chunks.push([far, chunk]);
        else if (this.#eat !== undefined && chunk.includes(this.#eat.what)) {
          this.#eat.eaten();
          this.#eat = undefined;
          near.destroy();
        } else if (!this.#silent.has('up')) far.write(chunk);
      });
      far.on('data', (chunk) => {
        if (!this.#silent.has('down')) near.write(chunk);
      });
    });
  }

  static async to(context: TestContext, port: number): Promise<Wire> {
    const wire = new Wire(port);
    await new Promise<void>((resolve) => wire.#server.listen(0, '127.0.0.1', resolve));
    context.after(() => wire.close());
    return wire;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the wire is closed');
    return `nats://127.0.0.1:${address.port}`;
  }

  /** Lets nothing through any more; new connections are not refused, they just hear nothing. */
  silence(...directions: Direction[]): void {
    for (const direction of directions.length > 0 ? directions : (['up', 'down'] as const)) this.#silent.add(direction);
  }

  /** Lets messages through again. Those sent meanwhile are lost, so earlier connections are broken. */
  speak(): void {
    this.#silent.clear();
    this.cut();
  }

  /** Holds messages to the server on their way, from the next one with this text on; answers still come. */
  hold(what: string): void {
    this.#held = { what, chunks: [] };
  }

  /** True when something is on its way. */
  get holds(): boolean {
    return (this.#held?.chunks.length ?? 0) > 0;
  }

  /** Sends on the held messages, in their order. */
  release(): void {
    const held = this.#held;
    this.#held = undefined;
    for (const [far, chunk] of held?.chunks ?? []) far.write(chunk);
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Loses the next thing to the server that holds this text, and breaks the connection. Resolves when it has happened. */
  eat(what: string): Promise<void> {
    return new Promise((eaten) => {
      this.#eat = { what, eaten };
    });
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
