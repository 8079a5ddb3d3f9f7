/**
 * A small client of session RPC over a pair of byte streams: calls, events, and a mode in which input is only stored,
 * so that parsing it costs nothing while the clock runs.
 *
 * It serves every workload except the pings, which have a client that does not even parse (`ping.ts`).
 */
import type { Readable, Writable } from 'node:stream';
import { lineScanner } from '../contenders/carriers.ts';
import { bounded } from '../control.ts';
import { ANSWER_WAIT_MS } from './workload.ts';

/** An event in the form of the wire. */
export interface WireEvent {
  readonly type: string;
  readonly seq: number;
  // biome-ignore lint/suspicious/noExplicitAny: payloads of every type
  readonly payload: any;
}

interface Answer {
  readonly id?: number;
  readonly method?: string;
  readonly params?: WireEvent;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

/** The event that ends a turn, in the form of the stream. */
export const COMPLETED = Buffer.from('"type":"session.completed"');
const NOTHING = Buffer.alloc(0);
const NEWLINE = 10;

export class LineClient {
  readonly #output: Writable;
  readonly #pending = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #scan: (chunk: Buffer) => void;
  #lastId = 0;
  #kept: Buffer[] | undefined;
  #ended = false;
  #completed: (() => void) | undefined;
  /** Called for every event, except while input is only stored. */
  onEvent: (event: WireEvent) => void = () => {};

  constructor(input: Readable, output: Writable) {
    this.#output = output;
    this.#scan = lineScanner((line) => this.#take(line));
    input.on('data', (chunk: Buffer) => this.#receive(chunk));
    // A peer that has ended shows as a call without a reply, which is bounded.
    input.on('error', () => {});
    output.on('error', () => {});
  }

  // biome-ignore lint/suspicious/noExplicitAny: results of every method
  async call(method: string, params: object = {}): Promise<any> {
    const id = ++this.#lastId;
    const answer = Promise.withResolvers<unknown>();
    this.#pending.set(id, answer);
    this.write({ jsonrpc: '2.0', id, method, params });
    return bounded(answer.promise, `no answer to ${method}`, ANSWER_WAIT_MS);
  }

  write(message: object): void {
    this.#output.write(`${JSON.stringify(message)}\n`);
  }

  /** Only stores input until a turn is completed. Between turns: the next byte must begin a line. */
  async keep(): Promise<readonly Buffer[]> {
    const kept: Buffer[] = [];
    this.#kept = kept;
    const completed = new Promise<void>((resolve) => {
      this.#completed = resolve;
    });
    await bounded(completed, 'the turn did not end', ANSWER_WAIT_MS);
    return kept;
  }

  /** Resolves with the next event of a type. */
  event(type: string): Promise<WireEvent> {
    const found = new Promise<WireEvent>((resolve) => {
      this.onEvent = (event) => {
        if (event.type === type) resolve(event);
      };
    });
    return bounded(found, `no event ${type}`, ANSWER_WAIT_MS);
  }

  #receive(chunk: Buffer): void {
    const kept = this.#kept;
    if (kept === undefined) return this.#scan(chunk);
    const before = kept.at(-1)?.subarray(-COMPLETED.length) ?? NOTHING;
    kept.push(chunk);
    // The marker may lie across two chunks.
    const seam = Buffer.concat([before, chunk.subarray(0, COMPLETED.length)]);
    this.#ended ||= chunk.includes(COMPLETED) || seam.includes(COMPLETED);
    if (!this.#ended || chunk.at(-1) !== NEWLINE) return;
    this.#kept = undefined;
    this.#ended = false;
    this.#completed?.();
  }

  #take(line: string): void {
    const message = JSON.parse(line) as Answer;
    if (message.method === 'event') return this.onEvent(message.params as WireEvent);
    const answer = this.#pending.get(message.id ?? -1);
    if (answer === undefined) return;
    this.#pending.delete(message.id ?? -1);
    if (message.error === undefined) answer.resolve(message.result);
    else answer.reject(new Error(message.error.message));
  }
}
