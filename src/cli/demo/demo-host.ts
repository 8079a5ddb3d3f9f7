/** The host of `handfast demo`: this command as `handfast up`, a process of its own that can be killed and started again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { within } from '../../base/race.ts';
import { fail } from '../../wire/errors.ts';

/** Time to start, and to stop, in milliseconds. */
const START_MS = 30_000;
const STOP_MS = 5_000;

export class DemoHost {
  readonly #home: string;
  readonly #workspace: string;
  #child: ChildProcess | undefined;
  /** `http://127.0.0.1:PORT`, the same over restarts. */
  address = 'http://127.0.0.1:0';
  /** `tcp://127.0.0.1:PORT`, alike. */
  tcp = 'tcp://127.0.0.1:0';
  token = '';

  constructor({ home, workspace }: { readonly home: string; readonly workspace: string }) {
    this.#home = home;
    this.#workspace = workspace;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts it. Rejects with `unreachable` where it does not come up. */
  async start(): Promise<void> {
    const [, script = ''] = process.argv;
    const words = [...process.execArgv, script, 'up', '--json', '--listen', this.address, '--listen', this.tcp];
    const env = { ...process.env, HANDFAST_HOME: this.#home, HANDFAST_KEYRING: 'off' };
    const child = spawn(process.execPath, words, { cwd: this.#workspace, env, stdio: ['ignore', 'pipe', 'ignore'] });
    this.#child = child;
    const ready = once(createInterface({ input: child.stdout as Readable }), 'line');
    const line = await within(Promise.race([ready, once(child, 'exit').then(() => undefined)]), START_MS);
    if (line === undefined) throw fail('unreachable', 'the host of the demo did not start; try: handfast doctor');
    const { listeners, token_file } = JSON.parse(String(line[0])) as { listeners: string[]; token_file: string };
    const [http = this.address, tcp = this.tcp] = listeners;
    this.address = http;
    this.tcp = tcp;
    this.token = (await readFile(token_file, 'utf8')).trim();
  }

  /** Kills it without a warning. */
  kill(): void {
    this.#child?.kill('SIGKILL');
  }

  /** Kills it, and waits until it is gone. */
  async killed(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  /** Ends it in order. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGTERM');
    if ((await within(gone, STOP_MS)) === undefined) await this.killed();
  }
}
