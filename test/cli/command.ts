/**
 * The command as its users have it: a child process with a separate Handfast folder and working directory. Waits for output of
 * the child or for its end, each within a bound.
 */
import assert from 'node:assert/strict';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));

const atTerminal = fileURLToPath(new URL('./at-terminal.py', import.meta.url));

/** A document that a command prints, as the test that asked for it knows it. */
// biome-ignore lint/suspicious/noExplicitAny: each test asserts the shape of its document
export type Json = any;

/** Longest wait for anything a child does, in milliseconds: far above its need, also where two cores run other work. */
const PATIENCE_MS = 60_000;

/** Options of Node with which a child prints `importer imports module` lines on stderr when it ends. */
export const PRINT_IMPORTS: readonly string[] = [
  '--import',
  `data:text/javascript,${encodeURIComponent(`
    import { registerHooks } from 'node:module';
    const seen = [];
    registerHooks({ resolve(name, context, next) {
      const found = next(name, context);
      seen.push(context.parentURL + ' imports ' + found.url);
      return found;
    } });
    process.on('exit', () => process.stderr.write(seen.join('\\n')));
  `)}`,
];

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running command. */
export class Command {
  readonly child: ChildProcessWithoutNullStreams;
  stdout = '';
  stderr = '';
  readonly #ended: Promise<Ended>;

  constructor(child: ChildProcessWithoutNullStreams) {
    this.child = child;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    child.stdin.on('error', () => {});
    this.#ended = once(child, 'close').then(([code]) => ({ code, stdout: this.stdout, stderr: this.stderr }));
  }

  /** Waits until a text is on one of the outputs, behind its first `after` characters. */
  async says(text: string, from: 'stdout' | 'stderr' = 'stdout', after = 0): Promise<void> {
    const said = () => this[from].includes(text, after);
    const stream = this.child[from];
    await this.#within(
      new Promise<void>((resolve, reject) => {
        const look = () => {
          if (said()) resolve();
        };
        stream.on('data', look);
        this.child.once('close', () => {
          look();
          reject(new Error(`ended without saying ${text}:\n${this.stdout}${this.stderr}`));
        });
        look();
      }),
      `saying ${text}`,
    );
  }

  /** Waits for the end. */
  ended(): Promise<Ended> {
    return this.#within(this.#ended, 'ending');
  }

  async #within<T>(promise: Promise<T>, what: string): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(
        () => reject(new Error(`not ${what} in ${PATIENCE_MS} ms:\n${this.stdout}${this.stderr}`)),
        PATIENCE_MS,
      );
    });
    try {
      return await Promise.race([promise, late]);
    } finally {
      clearTimeout(timer);
    }
  }
}

export interface RunOptions {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Options for Node itself. */
  readonly node?: readonly string[];
  /** At a pseudo-terminal: both outputs are its content, and the input is typed. Needs python3. */
  readonly terminal?: boolean;
}

/**
 * Variables that a command gets from this process's environment: none that is about this user, whose keys and settings are no
 * part of a test.
 */
const INHERITED = ['PATH', 'TMPDIR', 'TZ', 'LANG', 'LC_ALL', 'TERM', 'SHELL', 'USER', 'NODE_COMPILE_CACHE'];

/** Returns the environment of a command: the few variables of {@link INHERITED}, and the given ones. */
export function plainEnvironment(given: Readonly<Record<string, string>>): Record<string, string> {
  const inherited = INHERITED.flatMap((name): [string, string][] => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return { ...Object.fromEntries(inherited), ...given };
}

/** Returns the text about tools without the times, which are printed of slow tools: on a busy machine of any. */
export const untimed = (text: string): string => text.replaceAll(/ \(\d+\.\d s\)$/gm, '');

/** A user: a Handfast folder, a working directory, and commands run there. */
export class User {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), 'handfast-cli-')));
  readonly home = join(this.folder, 'home');
  readonly cwd = join(this.folder, 'work');
  readonly #commands: Command[] = [];

  constructor() {
    mkdirSync(this.cwd);
  }

  /** Writes a file into the working directory and gives its path. */
  write(name: string, text: string): string {
    const file = join(this.cwd, name);
    writeFileSync(file, text);
    return file;
  }

  /** Returns the program and arguments that run a command. */
  line(words: readonly string[], node: readonly string[] = []): string[] {
    return [process.execPath, ...node, '-C', 'handfast-source', main, ...words];
  }

  /** Returns the environment of its commands. */
  environment(env: Readonly<Record<string, string>> = {}): Record<string, string> {
    return plainEnvironment({ HOME: this.folder, HANDFAST_HOME: this.home, NO_COLOR: '1', ...env });
  }

  /** Starts a command. */
  start(words: readonly string[], { env = {}, node = [], terminal }: Omit<RunOptions, 'input'> = {}): Command {
    const line = this.line(words, node);
    const [program = '', ...rest] = terminal ? ['python3', atTerminal, ...line] : line;
    const child = spawn(program, rest, { cwd: this.cwd, env: this.environment(env) });
    const command = new Command(child);
    this.#commands.push(command);
    return command;
  }

  /** Starts a program at a pseudo-terminal in the working directory. Needs python3. */
  terminal(words: readonly string[], env: Readonly<Record<string, string>>): Command {
    const command = new Command(spawn('python3', [atTerminal, ...words], { cwd: this.cwd, env }));
    this.#commands.push(command);
    return command;
  }

  /** Runs a command to its end. */
  async run(words: readonly string[], options: RunOptions = {}): Promise<Ended> {
    const command = this.start(words, options);
    command.child.stdin.end(options.input ?? '');
    return command.ended();
  }

  /** Runs a command that must succeed and say nothing on stderr; gives the JSON document it prints. */
  async json<T = Json>(words: readonly string[], options: RunOptions = {}): Promise<T> {
    const { code, stdout, stderr } = await this.run([...words, '--json'], options);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    assert.equal(stdout.trimEnd().split('\n').length, 1, 'one document on one line');
    return JSON.parse(stdout) as T;
  }

  /** Runs a command that must fail with `--json`; gives its exit code and the error it reports. */
  async failure(
    words: readonly string[],
    options: RunOptions = {},
  ): Promise<{ exit: number | null; code: string; message: string }> {
    const { code, stdout, stderr } = await this.run([...words, '--json'], options);
    assert.equal(stdout, '');
    assert.equal(stderr.trimEnd().split('\n').length, 1, `one line on stderr, not:\n${stderr}`);
    const { error } = JSON.parse(stderr) as {
      error: { code: string; message: string; retryable: boolean; detail: object };
    };
    assert.deepEqual(Object.keys(error), ['code', 'message', 'detail', 'retryable']);
    return { exit: code, code: error.code, message: error.message };
  }

  /** Starts a host and waits until it is ready. */
  async up(words: readonly string[] = [], options: Omit<RunOptions, 'input'> = {}) {
    const command = this.start(['up', '--json', '--port', '0', ...words], options);
    await command.says('\n');
    const ready = JSON.parse(command.stdout) as {
      ready: boolean;
      url: string;
      listeners: string[];
      token_file: string | null;
      pid: number;
    };
    return { command, ready };
  }

  /** Ends running commands and removes the folder. */
  async leave(): Promise<void> {
    for (const { child } of this.#commands)
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await Promise.all(this.#commands.map((command) => command.ended()));
    // A program that a client of the user started may still be writing its last files.
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}
