/**
 * A client that is the same for every server and costs as little as possible: it writes the texts of requests and
 * counts replies, and never parses one while the clock runs. The comparison is therefore one of servers.
 *
 * For the pings of session RPC (`ping.ts`) and the calls of MCP (`../mcp-door.ts`).
 */
import type { ChildProcess } from 'node:child_process';
import { bounded } from '../control.ts';
import { startOnPipes, stopOnPipes } from './processes.ts';
import { ANSWER_WAIT_MS } from './workload.ts';

/** Every reply has it once, in every framing. */
const MARK = Buffer.from('"jsonrpc":"2.0"');

/** Moves the texts of requests to a server, and answers back. */
export interface Pipe {
  /** Awaited before the clock starts. */
  ready?(): Promise<void>;
  send(texts: readonly string[]): void;
  /**
   * Sets the listeners: `take` gets the number of replies that have ended, and the received bytes; `fail` is called
   * when no more come.
   */
  onAnswers(take: (answers: number, chunk: Buffer) => void, fail?: (error: Error) => void): void;
  close(): Promise<void>;
}

export type Framing = (texts: readonly string[]) => string;
export const lines: Framing = (texts) => texts.map((text) => `${text}\n`).join('');

/** Counts the replies in the received bytes. */
export class AnswerCounter {
  #tail: Buffer = Buffer.alloc(0);

  count(chunk: Buffer): number {
    const bytes = this.#tail.length === 0 ? chunk : Buffer.concat([this.#tail, chunk]);
    let found = 0;
    let end = 0;
    for (let at = bytes.indexOf(MARK); at !== -1; at = bytes.indexOf(MARK, end)) {
      found++;
      end = at + MARK.length;
    }
    // The beginning of a mark may be all that has arrived of it.
    this.#tail = bytes.subarray(Math.max(end, bytes.length - MARK.length + 1));
    return found;
  }
}

/** The text of a request with this id. */
export type RequestOf = (id: number) => string;

/** Returns a request of JSON-RPC whose text is composed once. */
export function jsonRequest(method: string, params?: object): RequestOf {
  const text = JSON.stringify({ jsonrpc: '2.0', id: 0, method, params });
  const [before, after] = text.split('"id":0', 2) as [string, string];
  return (id) => `${before}"id":${id}${after}`;
}

export class RawClient {
  readonly #pipe: Pipe;
  /** As many digits for every id: all requests are equally long. */
  #lastId = 1_000_000;
  #answered: (answers: number, chunk: Buffer) => void = () => {};
  #failed: (error: Error) => void = () => {};

  constructor(pipe: Pipe) {
    this.#pipe = pipe;
    pipe.onAnswers(
      (answers, chunk) => this.#answered(answers, chunk),
      (error) => this.#failed(error),
    );
  }

  /** Sends a message without a reply. */
  tell(text: string): void {
    this.#pipe.send([text]);
  }

  /** Sends one request, whose reply must contain `expected`. Rejects when no such reply comes. */
  async ask(request: RequestOf, expected: string): Promise<void> {
    let seen = '';
    await this.#pipe.ready?.();
    const answered = new Promise<void>((resolve, reject) => {
      this.#failed = reject;
      this.#answered = (_answers, chunk) => {
        seen += chunk.toString();
        if (seen.includes(expected) && seen.trimEnd().endsWith('}')) resolve();
      };
    });
    this.#pipe.send([request(++this.#lastId)]);
    await bounded(answered, 'no good answer', ANSWER_WAIT_MS).catch((thrown: Error) => {
      throw new Error(`${thrown.message}; there was: ${seen.slice(0, 500)}`);
    });
  }

  /** Sends requests until the time is over and every answer is there. Answers, and the seconds they took. */
  async repeat(
    request: RequestOf,
    inFlight: number,
    durationMs: number,
  ): Promise<{ readonly answers: number; readonly seconds: number }> {
    await this.#pipe.ready?.();
    let answers = 0;
    let open = 0;
    const send = (count: number): void => {
      open += count;
      this.#pipe.send(Array.from({ length: count }, () => request(++this.#lastId)));
    };
    const start = performance.now();
    let end = start;
    const done = new Promise<void>((resolve, reject) => {
      this.#failed = reject;
      this.#answered = (count) => {
        answers += count;
        open -= count;
        end = performance.now();
        if (open < 0) reject(new Error('more answers than requests'));
        else if (end - start < durationMs) send(count);
        else if (open === 0) resolve();
      };
    });
    send(inFlight);
    await bounded(done, 'not every request was answered', durationMs + ANSWER_WAIT_MS);
    return { answers, seconds: (end - start) / 1000 };
  }
}

/** Returns the pipes of a new child. */
export function onPipes(
  args: readonly string[],
  home: string,
  framing: Framing,
): Pipe & { readonly child: ChildProcess } {
  const child = startOnPipes(args, home);
  child.stdin.on('error', () => {});
  const counter = new AnswerCounter();
  return {
    child,
    send: (texts) => child.stdin.write(framing(texts)),
    onAnswers: (take, fail) => {
      child.stdout.on('data', (chunk: Buffer) => take(counter.count(chunk), chunk));
      child.once('exit', (code) => fail?.(new Error(`the server ended with ${code}`)));
    },
    close: () => stopOnPipes(child),
  };
}
