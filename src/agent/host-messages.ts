/**
 * Messages that a host sends to an agent unasked: pushes, which belong to no request, and requests, which the agent
 * serves.
 *
 * Capability clients and programs register their listeners and handlers here.
 */
import type { Route } from '../connection/running-request.ts';
import type { Body, Method, Push } from '../protocol/method.ts';
import type { Incoming, Message } from '../wire/codec.ts';
import { fail } from '../wire/errors.ts';

/** Receives the content of a push. While the promise that it returned is pending, the host is read no faster. */
export type PushListener<Content> = (content: Content) => unknown;

/** The context that the handler of a host's request gets with the request. */
export interface AskContext {
  /** Aborts when the host withdraws the request, at its deadline, and when the session ends. */
  readonly signal: AbortSignal;
}

/** Serves a request of the host. An error that it throws becomes the error that the host gets. */
export type AskHandler<Request, Reply> = (request: Request, context: AskContext) => Reply | Promise<Reply>;

/** Pushes stored for listeners that are registered in the turn in which the session opened. */
const MAX_EARLY = 1024;

export class HostMessages {
  readonly #listeners = new Map<string, Set<(message: Message) => unknown>>();
  readonly #routes = new Map<string, Route>();
  #others: ((type: string, content: Message) => void) | undefined;
  /** Pushes that arrived before the program could register listeners; undefined from then on. */
  #early: Incoming[] | undefined = [];

  /** Calls `listener` for each push of a type. Returns the function that ends it. */
  on<Content extends object>({ push, check }: Push<Content>, listener: PushListener<Content>): () => void {
    const listeners = this.#listeners.get(push) ?? new Set();
    this.#listeners.set(push, listeners);
    const checked = (message: Message): unknown =>
      check === undefined || check(message) ? listener(message as unknown as Content) : undefined;
    listeners.add(checked);
    return () => {
      listeners.delete(checked);
      if (listeners.size === 0) this.#listeners.delete(push);
    };
  }

  /** Calls `listener` for each push that no listener of {@link on} gets. One at a time. */
  onOther(listener: (type: string, content: Message) => void): void {
    this.#others = listener;
  }

  /** Serves a request type of the host. Throws `usage` where it is served already. Returns the function that ends it. */
  serve<Request extends object, Reply extends object>(
    method: Method<Request, Reply>,
    handler: AskHandler<Body<Request>, Body<Reply>>,
  ): () => void {
    const { request } = method;
    if (this.#routes.has(request)) throw fail('usage', `${request} has a handler already`);
    const run: Route['run'] = (body, { signal }) => handler(body as Body<Request>, { signal });
    this.#routes.set(request, { method: method as unknown as Method, run });
    return () => void this.#routes.delete(request);
  }

  /** Returns the route of a request of the host; without a handler, a route that refuses. */
  route({ type }: Incoming): Route {
    return (
      this.#routes.get(type) ?? {
        method: { request: type, reply: '', event: '', capability: '', checkRequest: anyShape },
        run() {
          throw fail('no_handler', `this agent has no handler for ${type}; register one with agent.serve`);
        },
      }
    );
  }

  /** Returns true when a request type has a handler. */
  serves(type: string): boolean {
    return this.#routes.has(type);
  }

  /** Hands a push to its listeners. Returns a promise while they have not finished; false when no listener exists. */
  notice(incoming: Incoming): Promise<unknown> | boolean {
    if (this.#early !== undefined) {
      if (this.#early.length >= MAX_EARLY) return false;
      this.#early.push(incoming);
      return true;
    }
    const listeners = this.#listeners.get(incoming.type);
    if (listeners === undefined) {
      this.#others?.(incoming.type, incoming.message as Message);
      return this.#others !== undefined;
    }
    const pending: Promise<unknown>[] = [];
    for (const listener of listeners) {
      // A failing listener must not prevent the calls of the others.
      const outcome = settle(() => listener(incoming.message as Message));
      if (outcome !== undefined) pending.push(outcome);
    }
    return pending.length === 0 ? true : Promise.all(pending);
  }

  /** Hands the earlier pushes out; from now on, pushes without a listener are dropped. */
  release(): void {
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const incoming of early) this.notice(incoming);
  }
}

/** Runs a listener. If it fails, the failure surfaces as an unhandled rejection, like that of an event listener. */
function settle(run: () => unknown): Promise<unknown> | undefined {
  try {
    const outcome = run();
    return typeof (outcome as Promise<unknown> | undefined)?.then === 'function'
      ? (outcome as Promise<unknown>)
      : undefined;
  } catch (error) {
    void Promise.reject(error);
    return undefined;
  }
}

const anyShape = Object.assign(() => true, { errors: null });
