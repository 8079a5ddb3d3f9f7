/**
 * Which handler answers which method. A map, so that names every object inherits are nobody's method.
 *
 * Made once by `rpc-server.ts`, asked for every request.
 */
import {
  approvalAnswer,
  authCancel,
  eventsUnsubscribe,
  handshake,
  ping,
  queueClear,
  queueRemove,
  sessionClose,
  sessionInterrupt,
  shutdown,
} from '../../protocol/session-rpc.ts';
import { fail } from '../../wire/errors.ts';
import type { Handled } from '../contract/handlers.ts';

/** Methods that end work, or only look: a connection that has too much open must still be able to end some of it. */
const relieving: ReadonlySet<string> = new Set(
  [
    handshake,
    ping,
    sessionInterrupt,
    approvalAnswer,
    queueClear,
    queueRemove,
    authCancel,
    sessionClose,
    eventsUnsubscribe,
    shutdown,
  ].map(({ name }) => name),
);

/** A method that is served. */
export interface Served extends Handled {
  /** True when it is answered although too much is open. */
  readonly exemptFromLimit: boolean;
}

export class Router {
  readonly #served = new Map<string, Served>();
  /** Every callable method, sorted: `methods` of the handshake. */
  readonly names: readonly string[];

  /** Throws `runtime_error` when two handlers have one name: a mistake in how the server was put together. */
  constructor(handlers: readonly Handled[]) {
    for (const handled of handlers) {
      const { name } = handled.method;
      if (this.#served.has(name)) throw fail('runtime_error', `two handlers answer ${name}`);
      this.#served.set(name, {
        method: handled.method,
        // Kept on its object: a handler may be a method that needs its `this`.
        handle: (params, call) => handled.handle(params, call),
        exemptFromLimit: relieving.has(name),
      });
    }
    this.names = Object.freeze([...this.#served.keys()].sort());
  }

  /** The handler of exactly this name. */
  find(name: string): Served | undefined {
    return this.#served.get(name);
  }

  has(method: { readonly name: string }): boolean {
    return this.#served.has(method.name);
  }
}
