/**
 * The wire between a client and its NATS server, for tests: it can fall silent in either direction, as in a partition, it
 * can swallow the first thing that matches and break, and it can hold what is sent, and bring it late.
 */
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

type Direction = 'up' | 'down';

export class Wire {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #silent = new Set<Direction>();
  /** What is on its way from the first thing with this text, and its way. */
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

  /** Nothing gets through any more; new connections are not refused, they just hear nothing. */
  silence(...directions: Direction[]): void {
    for (const direction of directions.length > 0 ? directions : (['up', 'down'] as const)) this.#silent.add(direction);
  }

  /** What is sent gets through again. What was sent meanwhile is lost, so connections of before are broken. */
  speak(): void {
    this.#silent.clear();
    this.cut();
  }

  /** Keeps what is sent to the server on its way, from the next thing that holds this text; answers still come. */
  hold(what: string): void {
    this.#held = { what, chunks: [] };
  }

  /** True when something is on its way. */
  get holds(): boolean {
    return (this.#held?.chunks.length ?? 0) > 0;
  }

  /** What was held arrives, in its order. */
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
