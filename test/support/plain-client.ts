/**
 * A client of plain session RPC 1.0.0, as an author writes one from the specification alone: lines of JSON on the pipes
 * of a child, 29 methods, events without numbers. It contains no code of Handfast's client.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

interface PlainEvent {
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as it arrived
  readonly payload: any;
}

/** Longest wait for a reply or an event, in milliseconds: far above the usual time of either. */
const PATIENCE_MS = 60_000;

export class PlainClient {
  readonly child: ChildProcessWithoutNullStreams;
  readonly events: PlainEvent[] = [];
  readonly #calls = new Map<number, PromiseWithResolvers<unknown>>();
  #listeners: (() => void)[] = [];
  #id = 0;

  constructor(program: string, words: readonly string[], options: { cwd: string; env: Record<string, string> }) {
    this.child = spawn(program, words, { ...options, stdio: 'pipe' });
    this.child.stdin.on('error', () => {});
    this.child.stderr.resume();
    createInterface({ input: this.child.stdout }).on('line', (line) => this.#read(JSON.parse(line)));
  }

  // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as it arrived
  #read({ id, result, error, method, params }: any): void {
    if (method === 'event') this.events.push(params);
    else if (error !== undefined) this.#calls.get(id)?.reject(new Error(error.message));
    else this.#calls.get(id)?.resolve(result);
    for (const listener of this.#listeners.splice(0)) listener();
  }

  /** Calls a method and resolves with its result. */
  // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as it arrived
  call(method: string, params: object = {}): Promise<any> {
    const id = ++this.#id;
    this.#calls.set(id, Promise.withResolvers());
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    return Promise.race([this.#calls.get(id)!.promise, late(`a reply to ${method}`)]);
  }

  /** Resolves with the first event, from the start on, that fits. */
  async event(fits: (event: PlainEvent) => boolean): Promise<PlainEvent> {
    for (;;) {
      const found = this.events.find(fits);
      if (found !== undefined) return found;
      await Promise.race([new Promise<void>((resolve) => this.#listeners.push(resolve)), late('an event')]);
    }
  }

  /** The labels of the status events so far. */
  get labels(): string[] {
    return this.events.filter(({ type }) => type === 'session.status').map(({ payload }) => payload.status_label);
  }
}

const late = (what: string): Promise<never> =>
  new Promise((_resolve, reject) => setTimeout(() => reject(new Error(`no ${what}`)), PATIENCE_MS).unref());
