/**
 * A process that measures on request, one line of JSON each way (`lines.ts`), alone or under `strace`, which counts its
 * syncs.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { bounded } from '../control.ts';

/** Nodes one after another, all side by side, and in rows of 20 whose nodes each wait for two of the row before. */
export type Shape = 'row' | 'fan' | 'mesh';

/** Longest wait for one reply. */
const REPLY_MS = 180_000;
const END_MS = 15_000;

/** A started process. */
export class MeasuredProcess {
  readonly #child: ChildProcess;
  readonly #name: string;
  readonly #trace: string | undefined;
  readonly #lines: AsyncIterator<string>;

  private constructor(name: string, argv: readonly string[], trace: string | undefined) {
    this.#name = name;
    this.#trace = trace;
    const traced = trace === undefined ? argv : [...STRACE, '-o', trace, ...argv];
    const [program = '', ...args] = traced;
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.on('error', () => {});
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /**
   * Resolves when it is ready to measure.
   * @param trace a folder for the record of its syncs; undefined: they are not counted
   */
  static async start(name: string, argv: readonly string[], trace?: string): Promise<MeasuredProcess> {
    const started = new MeasuredProcess(name, argv, trace && join(trace, `${name.replace(/\W/g, '-')}.trace`));
    await started.#reply();
    return started;
  }

  /** Rejects when it fails, or ends. */
  ask<Reply>(request: object): Promise<Reply> {
    this.#child.stdin?.write(`${JSON.stringify(request)}\n`);
    return this.#reply() as Promise<Reply>;
  }

  /** Syncs of files so far, of the process and all its children. */
  get syncs(): number {
    if (this.#trace === undefined || !existsSync(this.#trace)) return 0;
    return readFileSync(this.#trace, 'utf8').match(/\bf(?:data)?sync\(/g)?.length ?? 0;
  }

  /** Ends it at once. */
  async kill(): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }

  /** Ends it in order. */
  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.stdin?.end();
    await bounded(exited, `${this.#name} did not end`, END_MS).catch(() => this.kill());
  }

  async #reply(): Promise<unknown> {
    const { value, done } = await bounded(this.#lines.next(), `${this.#name} did not reply`, REPLY_MS);
    if (done) throw new Error(`${this.#name} ended`);
    const reply = JSON.parse(value) as { readonly error?: string };
    if (reply.error !== undefined) throw new Error(`${this.#name}: ${reply.error}`);
    return reply;
  }
}

const STRACE = ['strace', '-f', '-qq', '-e', 'trace=fsync,fdatasync'] as const;

/** Returns true if the syncs of a process can be counted here. */
export function canTrace(): boolean {
  try {
    execFileSync('strace', ['-qq', '-o', '/dev/null', 'true'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
