/**
 * A Python process that runs one environment of Gymnasium: requests out, replies in, every wait bounded. It ends with its
 * environment and with the host, however the host ends.
 *
 * `python/gym_bridge.py` is the other side.
 */
import { fileURLToPath } from 'node:url';
import { type Child, startChild } from '../../../base/child.ts';
import { whyNotStarted } from '../../../base/not-started.ts';
import { errnoOf } from '../../../base/workspace/file-error.ts';
import type { HandfastError } from '../../../wire/errors.ts';
import { LineReader } from '../../../wire/frame.ts';
import { isObject, type JsonObject, membersOf } from '../../../wire/json.ts';
import { environmentFailed } from '../refusals.ts';

export interface GymProcessOptions {
  /** The Python that has gymnasium. */
  readonly python: string;
  /** Names of environment variables that it inherits beside PATH, HOME, LANG, TZ, TERM and those of a virtual environment. */
  readonly inherits: readonly string[];
  /** Longest wait for a reply, milliseconds; then the process is killed. */
  readonly replyMs: number;
  /** Called when it has ended. */
  readonly onEnd: () => void;
}

/** Not part of the JavaScript: it lies beside `src` and `dist`. */
const PROGRAM = fileURLToPath(new URL('../../../../python/gym_bridge.py', import.meta.url));

/** Environment variables that every process inherits. Tokens and keys of the host are not among them. */
const INHERITED = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TERM', 'TMPDIR', 'VIRTUAL_ENV', 'PYTHONPATH', 'SYSTEMROOT'];

/** Longest reply: observations may be pictures. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;

/** Time between the end of its input and SIGKILL. */
const END_MS = 2000;
/** Length of the end of its stderr that an error repeats. */
const MAX_WORDS = 1000;

interface Waiting {
  readonly operation: string;
  readonly resolve: (ok: JsonObject) => void;
  readonly reject: (error: HandfastError) => void;
  readonly timer: NodeJS.Timeout;
}

export class GymProcess implements AsyncDisposable {
  readonly #child: Child;
  readonly #options: GymProcessOptions;
  readonly #waiting = new Map<number, Waiting>();
  #count = 0;
  /** The reason of its end. */
  #ended: HandfastError | undefined;
  /** The end of its stderr. */
  #words = '';

  private constructor(child: Child, options: GymProcessOptions) {
    this.#child = child;
    this.#options = options;
    const reader = new LineReader(
      { line: (line) => this.#received(line), malformed: () => this.#end('it sent a line that is too long') },
      MAX_REPLY_BYTES,
    );
    child.stdout.on('data', (chunk: Buffer) => reader.push(chunk));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#words = (this.#words + text).slice(-MAX_WORDS);
    });
    void child.exited.then(({ code, signal }) => {
      const how = signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`;
      const last = this.#words.trimEnd().split('\n').at(-1) ?? '';
      this.#end(last === '' ? how : `${how}: ${last}`);
    });
  }

  /** Starts Python. Rejects with `runtime_error` when it cannot be started. */
  static async start(options: GymProcessOptions): Promise<GymProcess> {
    const { python, inherits } = options;
    const names = [...INHERITED, ...inherits].filter((name) => process.env[name] !== undefined);
    try {
      const child = startChild({
        argv: [python, '-u', PROGRAM],
        env: { ...Object.fromEntries(names.map((name) => [name, process.env[name]])), PYTHONDONTWRITEBYTECODE: '1' },
        stdin: 'pipe',
      });
      const started = new GymProcess(child, options);
      await child.started;
      return started;
    } catch (thrown) {
      options.onEnd();
      const isMissing = ['ENOENT', 'ENOTDIR', 'EACCES'].includes(errnoOf(thrown) ?? '');
      const advice = isMissing ? '; name the Python that has gymnasium in the option "python"' : '';
      throw environmentFailed(
        isMissing ? 'python_missing' : 'not_started',
        `cannot start ${python}: ${whyNotStarted(thrown)}${advice}`,
        undefined,
        thrown,
      );
    }
  }

  /** Sends one request. Rejects with `runtime_error`: for an exception of Python, a timeout, or the end of the process. */
  call(operation: string, body: JsonObject = {}): Promise<JsonObject> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const id = this.#count++;
    const { promise, resolve, reject } = Promise.withResolvers<JsonObject>();
    const timer = setTimeout(() => this.#late(operation), this.#options.replyMs);
    timer.unref();
    this.#waiting.set(id, { operation, resolve, reject, timer });
    this.#child.stdin?.write(`${JSON.stringify({ ...body, id, op: operation })}\n`);
    return promise;
  }

  /** Ends the process. A running request fails. */
  async close(): Promise<void> {
    this.#end('its environment was closed');
    this.#child.stdin?.end();
    const timer = setTimeout(() => void this.#child.kill(), END_MS);
    await this.#child.exited;
    clearTimeout(timer);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #received(line: string): void {
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      this.#end('it sent a line that is not JSON');
      void this.#child.kill();
      return;
    }
    const { id, ok, error } = membersOf(message);
    const waiting = this.#waiting.get(id as number);
    if (waiting === undefined) return;
    this.#waiting.delete(id as number);
    clearTimeout(waiting.timer);
    if (isObject(error)) waiting.reject(raised(error));
    else waiting.resolve(membersOf(ok));
  }

  #late(operation: string): void {
    const { replyMs } = this.#options;
    this.#end(`no reply to ${operation} within ${replyMs} ms`, 'environment_timeout');
    void this.#child.kill();
  }

  #end(why: string, reason = 'environment_crashed'): void {
    if (this.#ended !== undefined) return;
    this.#ended = environmentFailed(reason, `the process of the environment has ended: ${why.slice(0, 1000)}`);
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(this.#ended);
    }
    this.#waiting.clear();
    this.#options.onEnd();
  }
}

/** Returns an exception of Python as the error of a request. */
function raised({ kind, message }: JsonObject): HandfastError {
  const said = `${String(kind)}: ${String(message)}`.slice(0, 2000);
  const missing = kind === 'ModuleNotFoundError' ? '; install it for the Python in the option "python"' : '';
  return environmentFailed('python_error', `${said}${missing}`, { exception: String(kind) });
}
