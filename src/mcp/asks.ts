/**
 * Requests of a server to its client while it works: for an answer of a model or of a user. This file decides which of
 * the client's callers gets the request: the one whose call the question belongs to. If that is unknown, none gets it.
 *
 * `connection.ts` reads and writes the messages.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { evictOldest } from '../base/evict-oldest.ts';
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';

/** The notification that a person has done the requested action at an address. */
export const ELICITATION_COMPLETE = 'notifications/elicitation/complete';
/** The number of the protocol for a request that needs a person to open addresses first. */
export const ADDRESSES_REQUIRED = -32_042;
/** Questions of a connection that are remembered until they are complete, and characters of their ids. */
const MAX_OPENED = 256;
const MAX_ID = 256;
/** Addresses that one refusal names. */
const MAX_REQUIRED = 16;

/** A question of a server. */
export interface McpAsk {
  readonly method: 'sampling/createMessage' | 'elicitation/create';
  readonly params: Readonly<Record<string, unknown>>;
  /** As the server numbered it. */
  readonly id: string;
  /**
   * Aborts when the server withdraws the request, when the server is lost, and when the calls of the asked caller have
   * ended.
   */
  readonly signal: AbortSignal;
}

/** Answers questions of a server. */
export interface McpAnswerer {
  /** Answers a request. The server gets the message of the error it rejects with. */
  (ask: McpAsk): Promise<Readonly<Record<string, unknown>>>;
  /** Called when a person has done the action at an address: `id` is the `elicitationId` of the question. */
  readonly completed?: (id: string) => void;
}

/** Requests that a server may make; one without an entry is refused, as the protocol demands. */
export interface McpAllowed {
  readonly sampling?: boolean;
  readonly elicitation?: boolean;
  /** Folders it may ask for. */
  readonly roots?: readonly { readonly uri: string; readonly name: string }[];
  /** Answers while no call runs: of a server that belongs to one session. */
  readonly answerer?: McpAnswerer | undefined;
}

/** The running calls, by the answerer for their questions. One for each connection. */
export class AskedCallers {
  readonly #running = new Map<McpAnswerer, { count: number; readonly stop: AbortController }>();
  /** The caller of the code that runs now: messages that belong to a call are read in its context. */
  readonly #current = new AsyncLocalStorage<McpAnswerer | undefined>();
  readonly #otherwise: McpAnswerer | undefined;
  readonly #end = new AbortController();
  /** Answerers that were asked to open an address, by the ids of these questions. */
  readonly #opened = new Map<string, McpAnswerer>();
  /** Ids of completed actions that were not requested yet. */
  readonly #early = new Set<string>();

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
    } catch (thrown) {
      for (const id of elicitationsOf(thrown)) this.#opens(id, caller);
      throw thrown;
    } finally {
      running.count -= 1;
      if (running.count === 0) {
        this.#running.delete(caller);
        running.stop.abort(fail('cancelled', 'the call that asked has ended'));
      }
    }
  }

  /** Withdraws the requests of a lost server. */
  end(): void {
    this.#end.abort(fail('cancelled', 'the server that asked was lost'));
  }

  /** The answerer for the code that runs now. */
  get current(): McpAnswerer | undefined {
    return this.#current.getStore();
  }

  /** Reads a message in the context of the caller it belongs to; undefined: of none. */
  within(caller: McpAnswerer | undefined, read: () => void): void {
    this.#current.run(caller, read);
  }

  /**
   * Sends a request to the answerer whose call it belongs to. Rejects with `refused` if that is unknown, and as the
   * answerer does.
   */
  async ask(ask: McpAsk): Promise<Readonly<Record<string, unknown>>> {
    const answerer = this.#answerer();
    const running = this.#running.get(answerer);
    const { elicitationId } = ask.params;
    if (ask.method === 'elicitation/create' && typeof elicitationId === 'string') this.#opens(elicitationId, answerer);
    const signals = [ask.signal, this.#end.signal, ...(running === undefined ? [] : [running.stop.signal])];
    const signal = AbortSignal.any(signals);
    return answerer({ ...ask, signal });
  }

  /**
   * Handles the server's notification that a person has done the action at an address. A notification for an unknown
   * request is ignored, as the protocol demands.
   */
  completed({ elicitationId: id }: Readonly<Record<string, unknown>>): void {
    if (typeof id !== 'string' || id.length > MAX_ID) return;
    const answerer = this.#opened.get(id);
    if (answerer === undefined) {
      evictOldest(this.#early.add(id), MAX_OPENED);
      return;
    }
    this.#opened.delete(id);
    answerer.completed?.(id);
  }

  #opens(id: string, answerer: McpAnswerer): void {
    if (answerer.completed === undefined || id.length > MAX_ID) return;
    // A completion in the same message as the request is read before it.
    if (this.#early.delete(id)) setImmediate(answerer.completed, id);
    else evictOldest(this.#opened.set(id, answerer), MAX_OPENED);
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

/** Returns the addresses that a person must open before a request can be served, from an error that lists them. */
export function requiredAddresses(thrown: unknown): readonly Readonly<Record<string, unknown>>[] {
  const { code, data } = (thrown ?? {}) as { readonly code?: unknown; readonly data?: unknown };
  const elicitations = isObject(data) ? data.elicitations : undefined;
  if (code !== ADDRESSES_REQUIRED || !Array.isArray(elicitations)) return [];
  return elicitations.slice(0, MAX_REQUIRED).filter(isObject);
}

const elicitationsOf = (thrown: unknown): string[] =>
  requiredAddresses(thrown).flatMap(({ elicitationId: id }) => (typeof id === 'string' ? [id] : []));
