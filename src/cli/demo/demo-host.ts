/** The host of `handfast demo`: this command as `handfast up`, a process of its own that can be killed and started again. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { type Child, startChild } from '../../base/child.ts';
import { within } from '../../base/race.ts';
import { fail } from '../../wire/errors.ts';

/** Time to start, and to stop, in milliseconds. */
const START_MS = 60_000;
const STOP_MS = 5_000;

export class DemoHost {
  readonly #home: string;
  readonly #workspace: string;
  #child: Child | undefined;
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
    const child = startChild({ argv: [process.execPath, ...words], cwd: this.#workspace, env });
    this.#child = child;
    child.stderr.resume();
    const ready = once(createInterface({ input: child.stdout }), 'line');
    const line = await within(Promise.race([ready, child.exited.then(() => undefined)]), START_MS);
    if (line === undefined) throw fail('unreachable', 'the host of the demo did not start; try: handfast doctor');
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
