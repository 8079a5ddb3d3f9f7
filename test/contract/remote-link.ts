/**
 * The stdio link of a child process, as a link of the test: `stdio-child.ts` runs the real one and obeys the commands
 * that this one sends it over a separate socket. So the contract suite checks both ends of a stdio link.
 */
import { createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { CloseInfo, Link, LinkReceiver, Malformed, Message } from '../../src/transport/link.ts';
import { toAscii } from '../../src/wire/ascii.ts';
import { within } from './recorder.ts';

/** Returns program and arguments of the child; `mode` is the use of its stdio. */
export function childCommand(mode: 'link' | 'raw', controlPort: number, maxMessageBytes?: number): string[] {
  const script = fileURLToPath(new URL('./stdio-child.ts', import.meta.url));
  return [process.execPath, script, mode, String(controlPort), String(maxMessageBytes ?? '')];
}

/** Waits for the control connection of one child. */
export async function controlServer(): Promise<{ port: number; control: Promise<Socket> }> {
  const server = createServer({ noDelay: true, allowHalfOpen: true });
  const control = new Promise<Socket>((resolve) => {
    server.once('connection', (socket) => {
      server.close();
      socket.on('error', () => {});
      resolve(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the control server has no port');
  return { port: address.port, control: within(control, 'the child to call back') };
}

/** A report of the child. */
type Report =
  | { event: 'message'; text: string }
  | { event: 'malformed'; problem: Malformed }
  | { event: 'ended' }
  | { event: 'closed'; cause: CloseInfo }
  | { event: 'done'; id: number; buffered: number };

export class RemoteLink implements Link {
  readonly transport = 'stdio';
  readonly peer = 'the test';
  readonly text = true;
  /** As of the last answer of the child. */
  buffered = 0;
  readonly #control: Socket;
  #receiver: LinkReceiver | undefined;
  #closing: Promise<void> | undefined;
  readonly #waiting = new Map<number, () => void>();
  #ids = 0;
  #closed = false;

  constructor(control: Socket) {
    this.#control = control;
    createInterface({ input: control })
      .on('line', (line) => this.#heard(JSON.parse(line) as Report))
      .on('error', () => {});
    control.on('end', () => control.end());
    control.on('close', () => this.#lost());
  }

  open(receiver: LinkReceiver): void {
    const first = this.#receiver === undefined;
    this.#receiver = receiver;
    if (first) this.#tell({ do: 'open' });
  }

  send(message: string | Message): void {
    this.#tell({ do: 'send', message });
  }

  drained(lowWaterBytes?: number): Promise<void> {
    return this.#ask({ do: 'drained', lowWaterBytes });
  }

  pause(paused: boolean): void {
    this.#tell({ do: 'pause', paused });
  }

  setMaxMessageBytes(bytes: number): void {
    this.#tell({ do: 'limit', bytes });
  }

  close(reason?: string, graceMs?: number): Promise<void> {
    this.#closing ??= this.#ask({ do: 'close', reason, graceMs });
    return this.#closing;
  }

  destroy(reason?: string): void {
    this.#tell({ do: 'destroy', reason });
  }

  /** Resolves when the child has obeyed everything so far. */
  sync(): Promise<void> {
    return this.#ask({ do: 'sync' });
  }

  /** Ends the child. */
  dispose(): void {
    this.#control.destroy();
  }

  #tell(command: object): void {
    if (!this.#control.destroyed) this.#control.write(`${toAscii(JSON.stringify(command))}\n`);
  }

  #ask(command: object): Promise<void> {
    const id = ++this.#ids;
    const done = new Promise<void>((resolve) => {
      this.#waiting.set(id, resolve);
    });
    if (this.#control.destroyed) this.#settleAll();
    else this.#tell({ ...command, id });
    return done;
  }

  #heard(report: Report): void {
    switch (report.event) {
      case 'message':
        this.#receiver?.message(report.text);
        return;
      case 'malformed':
        return this.#receiver?.malformed(report.problem);
      case 'ended':
        return this.#receiver?.ended();
      case 'closed':
        this.#closed = true;
        return this.#receiver?.closed(report.cause);
      case 'done':
        this.buffered = report.buffered;
        this.#waiting.get(report.id)?.();
        this.#waiting.delete(report.id);
    }
  }

  /** Handles the end of the child; a killed one could not report it itself. */
  #lost(): void {
    this.#settleAll();
    if (!this.#closed) this.#receiver?.closed({ clean: false, reason: 'the child is gone' });
    this.#closed = true;
  }

  #settleAll(): void {
    for (const resolve of this.#waiting.values()) resolve();
    this.#waiting.clear();
  }
}
