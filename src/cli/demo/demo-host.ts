/**
 * The host of `handfast demo`: this command as `handfast up`, a separate process that can be killed and started again.
 */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { type Child, cannotStart, startChild } from '../../base/child.ts';
import { nodeProgram } from '../../base/node-program.ts';
import { within } from '../../base/race.ts';
import { fail } from '../../wire/errors.ts';

/** Time to start, and to stop, in milliseconds. */
const START_MS = 60_000;
const STOP_MS = 5_000;
/** Maximum number of characters read of the reason why it does not start. */
const COMPLAINT_CHARS = 2_000;

export interface DemoHostOptions {
  readonly home: string;
  readonly workspace: string;
  /** Aborted: it does not start any more. */
  readonly signal: AbortSignal;
}

export class DemoHost {
  readonly #home: string;
  readonly #workspace: string;
  readonly #signal: AbortSignal;
  #child: Child | undefined;
  /** `http://127.0.0.1:PORT`, the same over restarts. */
  address = 'http://127.0.0.1:0';
  /** `tcp://127.0.0.1:PORT`, alike. */
  tcp = 'tcp://127.0.0.1:0';
  token = '';

  constructor({ home, workspace, signal }: DemoHostOptions) {
    this.#home = home;
    this.#workspace = workspace;
    this.#signal = signal;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts it. Rejects with `unreachable`, and with its output, where it does not come up. */
  async start(): Promise<void> {
    this.#signal.throwIfAborted();
    const [, script = ''] = process.argv;
    const words = [...process.execArgv, script, 'up', '--json', '--listen', this.address, '--listen', this.tcp];
    const env = { ...process.env, HANDFAST_HOME: this.#home, HANDFAST_KEYRING: 'off' };
    const child = startChild({ argv: [...nodeProgram(), ...words], cwd: this.#workspace, env });
    this.#child = child;
    let complaint = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      complaint = (complaint + text).slice(-COMPLAINT_CHARS);
    });
    await child.started.catch((error: unknown) => {
      throw cannotStart('the host of the demo', error, this.#workspace);
    });
    const ready = once(createInterface({ input: child.stdout }), 'line');
    const line = await within(Promise.race([ready, child.exited.then(() => undefined)]), START_MS);
    if (line === undefined) {
      const [last = 'it does not answer; try: handfast doctor'] = complaint
        .trim()
        .split('\n')
        .slice(-1)
        .filter(Boolean);
      throw fail('unreachable', `the host of the demo did not start: ${last}`);
    }
    const { listeners, token_file } = JSON.parse(String(line[0])) as { listeners: string[]; token_file: string };
    const [http = this.address, tcp = this.tcp] = listeners;
    this.address = http;
    this.tcp = tcp;
    this.token = (await readFile(token_file, 'utf8')).trim();
  }

  /** Kills it without a warning, and waits until it is gone. */
  async killed(): Promise<void> {
    this.#child?.signal('SIGKILL');
    await this.#child?.exited;
  }

  /** Ends it in order, and at last without. */
  async stop(): Promise<void> {
    await this.#child?.stop(STOP_MS);
  }
}
