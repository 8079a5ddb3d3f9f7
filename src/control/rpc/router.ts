/**
 * The handler of each method. A map, so that names every object inherits are not methods.
 */

import type { Route } from '../../connection/running-request.ts';
import { untyped } from '../../protocol/method.ts';
import { readParams } from '../../protocol/rpc-reader.ts';
import {
  approvalAnswer,
  authCancel,
  eventsUnsubscribe,
  handshake,
  isRepeatable,
  ping,
  queueClear,
  queueRemove,
  sessionClose,
  sessionInterrupt,
  shutdown,
} from '../../protocol/session-rpc.ts';
import { must } from '../../session/rights.ts';
import { fail } from '../../wire/errors.ts';
import { JsonText } from '../../wire/json.ts';
import type { EventSource } from '../contract/events.ts';
import type { Handled } from '../contract/handlers.ts';
import type { RpcRequest } from './rpc-request.ts';

/** Methods that end work, or only look: a connection at its limit must still be able to end some of it. */
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

export class Router {
  readonly #handled = new Map<string, Handled>();
  readonly #routes = new Map<string, Route>();
  /** Every callable method, sorted: `methods` of the handshake. */
  readonly names: readonly string[];

  /**
   * `settled` is `EventSource.settled`: no reply tells changes that are not on disk. Throws `runtime_error` when two handlers
   * have one name: a mistake in how the server was put together.
   */
  constructor(handlers: readonly Handled[], settled: EventSource['settled']) {
    for (const handled of handlers) {
      const { name } = handled.method;
      if (this.#routes.has(name)) throw fail('runtime_error', `two handlers are registered for ${name}`);
      this.#handled.set(name, handled);
      this.#routes.set(name, {
        method: { ...untyped(name), idempotent: isRepeatable(name) },
        exempt: relieving.has(name),
        run: (body, request) => {
          const call = request as RpcRequest;
          call.needs = handled.needs;
          if (handled.needs !== 'none') must(call.caller.principal, handled.needs);
          const params = readParams(handled.method, body);
          if (typeof params.session_id === 'string') call.session = params.session_id;
          const result = handled.handle(params, call);
          return handled.needs === 'none' ? result : whenSettled(result, () => settled(call.session));
        },
      });
    }
    this.names = Object.freeze([...this.#routes.keys()].sort());
  }

  /** Returns the route of exactly this name. */
  find(name: string): Route | undefined {
    return this.#routes.get(name);
  }

  /** Returns the handler of exactly this name. */
  handlerOf(name: string): Handled | undefined {
    return this.#handled.get(name);
  }

  has(method: { readonly name: string }): boolean {
    return this.#routes.has(method.name);
  }
}

/** Returns a result that leaves once the changes it may tell of are on disk. Its text is made now. */
function whenSettled(result: unknown, settled: () => Promise<unknown> | undefined): unknown {
  if (result instanceof Promise) return result.then((value) => whenSettled(value, settled));
  const waiting = settled();
  if (waiting === undefined) return result;
  if (!(result instanceof JsonText)) return waiting.then(() => result);
  const text = result.text();
  return waiting.then(() => new JsonText(() => text, result.value));
}
