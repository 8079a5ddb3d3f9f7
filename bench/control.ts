/**
 * The side channel between the two processes of a pair: a loopback socket on which the client process asks the server
 * process for its CPU time and memory, and stops it. It is apart from the transport under test, so that it also works
 * for servers that a library starts itself.
 */
import { once } from 'node:events';
import { createServer, connect as openSocket, type Server, type Socket } from 'node:net';
import { lineScanner } from './contenders/carriers.ts';
import { LOOPBACK, type Served } from './contenders/contender.ts';

/** The resources that a process has used so far. */
export interface Usage {
  /** User and system time of all threads, microseconds. */
  readonly cpuUs: number;
  /** Resident memory, bytes. */
  readonly rssBytes: number;
}

/** Longest wait for a server process to report or to answer. */
const WAIT_MS = 30_000;

export function ownUsage(): Usage {
  const { user, system } = process.cpuUsage();
  return { cpuUs: user + system, rssBytes: process.memoryUsage.rss() };
}

/**
 * Collects garbage twice (the second pass frees objects that finalizers released) and lets the system take the freed
 * pages back.
 */
export async function collectGarbage(): Promise<void> {
  for (let pass = 0; pass < 2; pass++) {
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Server side: reports `served`, then replies until the client process stops it or has ended. */
export function reportTo(controlPort: number, served: Served): void {
  const socket = openSocket({ port: controlPort, host: LOOPBACK });
  socket.on('error', () => process.exit(1));
  // This process ends with the client process, also when that crashes.
  socket.on('close', () => process.exit(0));
  socket.on(
    'data',
    lineScanner(async (command) => {
      if (command === 'stop') process.exit(0);
      if (command === 'collect') await collectGarbage();
      socket.write(`${JSON.stringify(ownUsage())}\n`);
    }),
  );
  socket.write(`${JSON.stringify({ pid: process.pid, port: served.port ?? 0 })}\n`);
}

/** Client side: waits for one server process and sends it requests. */
export class ServerControl {
  readonly #listener: Server;
  readonly #answers: ((line: string) => void)[] = [];
  #socket: Socket | undefined;
  #hello: Promise<{ pid: number; port: number }> | undefined;

  private constructor(listener: Server) {
    this.#listener = listener;
  }

  static async listen(): Promise<ServerControl> {
    const listener = createServer();
    listener.listen({ port: 0, host: LOOPBACK });
    await once(listener, 'listening');
    const control = new ServerControl(listener);
    control.#hello = control.#accept();
    // The wait is bounded in `hello`; a server that never connects is reported there.
    control.#hello.catch(() => {});
    return control;
  }

  /** The port to pass to the server process. */
  get port(): number {
    const address = this.#listener.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** Resolves with the server's pid and port, as soon as it serves. */
  async hello(): Promise<{ pid: number; port: number }> {
    return bounded(this.#hello as Promise<{ pid: number; port: number }>, 'the server process did not report');
  }

  usage(): Promise<Usage> {
    return this.#ask('usage');
  }

  collectGarbage(): Promise<Usage> {
    return this.#ask('collect');
  }

  /** Tells the server process to end; after two seconds it is ended by its pid. */
  async stop(): Promise<void> {
    this.#listener.close();
    const socket = this.#socket;
    if (socket === undefined || socket.destroyed) return;
    const { pid } = await this.hello();
    const closed = once(socket, 'close');
    const timer = setTimeout(() => {
      process.kill(pid, 'SIGKILL');
    }, 2000);
    socket.write('stop\n');
    await closed;
    clearTimeout(timer);
  }

  async #accept(): Promise<{ pid: number; port: number }> {
    const [socket] = (await once(this.#listener, 'connection')) as [Socket];
    this.#socket = socket;
    socket.on('error', () => {});
    socket.on(
      'data',
      lineScanner((line) => this.#answers.shift()?.(line)),
    );
    return JSON.parse(await this.#nextLine());
  }

  #nextLine(): Promise<string> {
    return new Promise((resolve) => {
      this.#answers.push(resolve);
    });
  }

  async #ask(command: 'usage' | 'collect'): Promise<Usage> {
    await this.hello();
    this.#socket?.write(`${command}\n`);
    return JSON.parse(await bounded(this.#nextLine(), `the server process did not answer "${command}"`));
  }
}

/** Rejects with `message` when `promise` has not settled in time. */
export async function bounded<T>(promise: Promise<T>, message: string, timeoutMs: number = WAIT_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${message} within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
