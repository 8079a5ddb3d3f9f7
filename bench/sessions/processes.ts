/**
 * The processes of the session benchmark: `handfast` in its installed form (the compiled command), and children of this
 * folder that receive their orders over the channel of `fork`.
 *
 * Each has a data folder under one temporary folder, which `main` removes. The functions that this file returns end
 * them all.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { endChild, lineScanner } from '../contenders/carriers.ts';
import { bounded } from '../control.ts';
import { ANSWER_WAIT_MS } from './workload.ts';

/** The compiled command. */
export const COMMAND = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** A folder for everything of one run. Short: paths of Unix sockets have little room. */
export class Scratch implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
  #count = 0;

  /** Returns one more empty folder. */
  make(): string {
    const folder = join(this.folder, String(++this.#count));
    mkdirSync(folder);
    return folder;
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The arguments with which all measurements start `handfast rpc`. */
export const RPC_ARGS: readonly string[] = [COMMAND, 'rpc', '--backend', 'rehearsal'];

/** Starts a Node program on pipes, with a separate data folder. */
export function startOnPipes(args: readonly string[], home: string) {
  return spawn(process.execPath, args, {
    cwd: home,
    env: { ...process.env, HANDFAST_HOME: home, HANDFAST_KEYRING: 'off' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
}

/** A running `handfast up`. */
export interface Up {
  readonly child: ChildProcess;
  /** Its addresses in the order of the configuration. */
  readonly listeners: readonly string[];
  stop(): Promise<void>;
}

/** Starts `handfast up` with a configuration file in its data folder. */
export async function startUp(home: string, config: string): Promise<Up> {
  const child = startOnPipes([COMMAND, 'up', '--json', '--config', config], home);
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), 5000);
    await exited;
    clearTimeout(timer);
  };
  try {
    const ready = new Promise<readonly string[]>((resolve, reject) => {
      child.stdout.on(
        'data',
        lineScanner((line) => resolve((JSON.parse(line) as { listeners: string[] }).listeners)),
      );
      child.once('exit', (code) => reject(new Error(`handfast up ended with code ${code}`)));
    });
    return { child, listeners: await bounded(ready, 'handfast up was not ready', ANSWER_WAIT_MS), stop };
  } catch (thrown) {
    await stop();
    throw thrown;
  }
}

/** Ends a process on pipes by the end of its input. */
export const stopOnPipes = endChild;

/** A child of this folder. It sends a greeting when it is ready, and replies to one question at a time. */
export class Forked<Hello, Question, Answer> {
  readonly hello: Hello;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, hello: Hello) {
    this.#child = child;
    this.hello = hello;
  }

  static async start<Hello, Question, Answer>(
    file: string,
    args: readonly string[],
  ): Promise<Forked<Hello, Question, Answer>> {
    const child = fork(fileURLToPath(new URL(file, import.meta.url)), [...args], {
      execArgv: ['--no-warnings'],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    return new Forked<Hello, Question, Answer>(child, (await messageOf(child, `${file} did not start`)) as Hello);
  }

  async ask(question: Question): Promise<Answer> {
    this.#child.send(question as object);
    return (await messageOf(this.#child, 'a child did not answer')) as Answer;
  }

  /** Cuts it off; it ends in good order then, by force after five seconds. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    if (child.connected) child.disconnect();
    const timer = setTimeout(() => child.kill('SIGKILL'), 5000);
    await exited;
    clearTimeout(timer);
  }
}

async function messageOf(child: ChildProcess, message: string): Promise<unknown> {
  const stop = new AbortController();
  const gone = once(child, 'exit', { signal: stop.signal }).then(([code]) => {
    throw new Error(`a child ended with code ${code}`);
  });
  const said = once(child, 'message', { signal: stop.signal });
  try {
    const [value] = (await bounded(Promise.race([said, gone]), message, ANSWER_WAIT_MS)) as [unknown];
    return value;
  } finally {
    gone.catch(() => {});
    said.catch(() => {});
    stop.abort();
  }
}
