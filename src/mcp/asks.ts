/**
 * What a server asks of its client while it works: an answer of a model, a word of a user. Which of its callers is asked is
 * decided here: the one whose call the question belongs to. Where that is not known, none is.
 *
 * Used by `connection.ts`, which reads and writes the messages.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { fail } from '../wire/errors.ts';

/** A question of a server. */
export interface McpAsk {
  readonly method: 'sampling/createMessage' | 'elicitation/create';
  readonly params: Readonly<Record<string, unknown>>;
  /** As the server numbered it. */
  readonly id: string;
  /** Aborts when the server withdraws it, when it is lost, and when the calls of the one who is asked have ended. */
  readonly signal: AbortSignal;
}

/** Answers questions of a server. The server gets the message of what it rejects with. */
export type McpAnswerer = (ask: McpAsk) => Promise<Readonly<Record<string, unknown>>>;

/** What a server may ask; without an entry it is refused, as the protocol has it. */
export interface McpAllowed {
  readonly sampling?: boolean;
  readonly elicitation?: boolean;
  /** Folders it may ask for. */
  readonly roots?: readonly { readonly uri: string; readonly name: string }[];
  /** Answers while no call runs: of a server that belongs to one session. */
  readonly answerer?: McpAnswerer | undefined;
}

/** The calls that run, by who answers for them. One for each connection. */
export class AskedCallers {
  readonly #running = new Map<McpAnswerer, { count: number; readonly stop: AbortController }>();
  /** The caller of what runs now: messages that belong to a call are read in its context. */
  readonly #current = new AsyncLocalStorage<McpAnswerer | undefined>();
  readonly #otherwise: McpAnswerer | undefined;
  readonly #end = new AbortController();

  constructor(otherwise?: McpAnswerer) {
    this.#otherwise = otherwise;
  }

  /** Runs a call. Questions that are open when the last call of its caller has ended are withdrawn. */
  async during<Result>(caller: McpAnswerer | undefined, call: () => Promise<Result>): Promise<Result> {
    if (caller === undefined) return call();
    const running = this.#running.get(caller) ?? { count: 0, stop: new AbortController() };
    running.count += 1;
    this.#running.set(caller, running);
    try {
      return await this.#current.run(caller, call);
    } finally {
      running.count -= 1;
      if (running.count === 0) {
        this.#running.delete(caller);
        running.stop.abort(fail('cancelled', 'the call that asked has ended'));
      }
    }
  }

  /** The server was lost: what it asked is withdrawn. */
  end(): void {
    this.#end.abort(fail('cancelled', 'the server that asked was lost'));
  }

  /** Who answers for what runs now. */
  get current(): McpAnswerer | undefined {
    return this.#current.getStore();
  }

  /** Reads a message in the context of the caller it belongs to; undefined: of none. */
  within(caller: McpAnswerer | undefined, read: () => void): void {
    this.#current.run(caller, read);
  }

  /** Asks the one whose call it belongs to. Rejects with `refused` where that is not known, and as the answerer does. */
  async ask(ask: McpAsk): Promise<Readonly<Record<string, unknown>>> {
    const answerer = this.#answerer();
    const running = this.#running.get(answerer);
    const signals = [ask.signal, this.#end.signal, ...(running === undefined ? [] : [running.stop.signal])];
    const signal = AbortSignal.any(signals);
    return answerer({ ...ask, signal });
  }

  #answerer(): McpAnswerer {
    const known = this.current ?? this.#otherwise;
    if (known !== undefined) return known;
    const [only, other] = this.#running.keys();
    if (only !== undefined && other === undefined) return only;
    const why = only === undefined ? 'no call is running' : 'calls of several sessions are running';
    throw fail('tool_denied', `it is not known whom to ask: ${why}`);
  }
}
