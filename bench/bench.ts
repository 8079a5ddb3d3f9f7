/**
 * The tools of a workload inside the client process: one contender on one transport, its server process, and one
 * session that stays open between rounds so that each round meets warm code.
 */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Contender, Session, Target, TransportName } from './contenders/contender.ts';
import { bounded, collectGarbage, ownUsage, ServerControl, type Usage } from './control.ts';

/** Node flags of both processes, the same for all contenders. */
export const PROCESS_FLAGS: readonly string[] = ['--expose-gc', '--no-warnings'];

const SERVER_PROCESS = fileURLToPath(new URL('./server-process.ts', import.meta.url));

/** Longest wait for a handshake or a close. */
const SESSION_WAIT_MS = 20_000;

export class Bench {
  readonly contender: Contender;
  readonly transport: TransportName;
  #control: ServerControl | undefined;
  #target: Promise<Target> | undefined;
  #session: Promise<Session> | undefined;

  constructor(contender: Contender, transport: TransportName) {
    this.contender = contender;
    this.transport = transport;
  }

  /** Returns the target to connect to; starts the server process the first time. */
  target(): Promise<Target> {
    this.#target ??= this.#startServer();
    return this.#target;
  }

  /** Returns the session that the rounds share. */
  session(): Promise<Session> {
    this.#session ??= this.open();
    return this.#session;
  }

  /** Opens one more session. */
  async open(): Promise<Session> {
    return bounded(this.contender.connect(await this.target()), 'no session was opened', SESSION_WAIT_MS);
  }

  /** Returns the CPU time of both processes together, microseconds. */
  async cpuUs(): Promise<number> {
    const far = (await this.#control?.usage())?.cpuUs ?? 0;
    return ownUsage().cpuUs + far;
  }

  /** Returns the resident memory of each end after collecting garbage, bytes. */
  async residentBytes(): Promise<{ near: number; far: number }> {
    const far: Usage | undefined = await this.#control?.collectGarbage();
    await collectGarbage();
    return { near: ownUsage().rssBytes, far: far?.rssBytes ?? 0 };
  }

  /** Closes the shared session and ends the server process. */
  async close(): Promise<void> {
    const session = await this.#session?.catch(() => undefined);
    // A peer whose close hangs must not delay the benchmark: its server is stopped in any case.
    const closed = session && bounded(session.close(), 'the session did not close', 3000).catch(() => {});
    await this.#control?.stop();
    await closed;
  }

  async #startServer(): Promise<Target> {
    if (this.transport === 'memory') return { transport: 'memory' };
    this.#control = await ServerControl.listen();
    const args = [...PROCESS_FLAGS, SERVER_PROCESS, this.contender.name, this.transport, String(this.#control.port)];
    if (this.transport === 'stdio') return { transport: 'stdio', command: process.execPath, args };
    spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
    const { port } = await this.#control.hello();
    return { transport: this.transport, port };
  }
}
