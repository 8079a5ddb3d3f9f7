/**
 * Which plugin a request goes to: by priority, exclusive ones alone, list requests merged, calls to the plugin that owns
 * the name. Built once when the host starts.
 */

import type { Log } from '../base/log.ts';
import type { CapabilityOffer } from '../connection/negotiate.ts';
import type { Route } from '../connection/running-request.ts';
import type { Method } from '../protocol/method.ts';
import type { HandfastError } from '../wire/errors.ts';
import type { CallContext } from './context.ts';
import type { Handler, Plugin } from './plugin.ts';

type Run = (request: object, context: CallContext) => object | Promise<object>;

/** The plugins that serve each capability, highest priority first; one alone where any is exclusive. */
export function serving(plugins: readonly Plugin[]): Map<string, Plugin[]> {
  const byType = Map.groupBy(plugins, (plugin) => plugin.type);
  for (const [type, all] of byType) {
    const sorted = all.toSorted((a, b) => (b.priority ?? 0) - (a.priority ?? 0));
    const alone = sorted.find((plugin) => plugin.exclusive);
    byType.set(type, alone === undefined ? sorted : [alone]);
  }
  return byType as Map<string, Plugin[]>;
}

/** What the handshake tells of each capability: the facts of the plugin that leads it. */
export function offers(served: ReadonlyMap<string, readonly Plugin[]>): Map<string, CapabilityOffer> {
  const result = new Map<string, CapabilityOffer>();
  for (const [type, [lead]] of served) {
    if (lead === undefined) continue;
    const { name, priority = 0, exclusive = false, metadata } = lead;
    result.set(type, { ...metadata, name, type, priority, exclusive });
  }
  return result;
}

/** Request type → route. */
export function routes(served: ReadonlyMap<string, readonly Plugin[]>, log: Log): Map<string, Route> {
  const handlers = new Map<string, { method: Method; all: { plugin: Plugin; handler: Handler }[] }>();
  for (const plugins of served.values()) {
    for (const plugin of plugins) {
      for (const handler of plugin.methods) {
        const { method } = handler;
        const entry = handlers.get(method.request) ?? { method, all: [] };
        entry.all.push({ plugin, handler });
        handlers.set(method.request, entry);
      }
    }
  }
  const result = new Map<string, Route>();
  for (const [type, { method, all }] of handlers) {
    const run =
      method.merge === undefined || all.length === 1
        ? first(all.map(({ handler }) => handler))
        : merged(method, all, log);
    result.set(type, { method, run: run as unknown as Route['run'] });
  }
  return result;
}

/** Asks handlers in order; the first that does not decline serves the request. */
function first(handlers: readonly Handler[]): Run {
  const [only] = handlers as [Handler];
  if (handlers.length === 1 && only.declines === undefined) return only.run as Run;
  return (request, context) => {
    let declined: HandfastError | undefined;
    for (const handler of handlers) {
      const reason = handler.declines?.(request as never);
      if (reason === undefined) return handler.run(request as never, context);
      declined ??= reason;
    }
    throw declined;
  };
}

/** Asks all handlers and joins their answers; one that fails is left out, unless all do. */
function merged(method: Method, all: readonly { plugin: Plugin; handler: Handler }[], log: Log): Run {
  return async (request, context) => {
    const settled = await Promise.allSettled(all.map(async ({ handler }) => handler.run(request as never, context)));
    const replies: object[] = [];
    let failure: unknown;
    for (const [at, outcome] of settled.entries()) {
      if (outcome.status === 'fulfilled') replies.push(outcome.value);
      else {
        failure ??= outcome.reason;
        log.warn('a plugin failed to list', { plugin: all[at]?.plugin.name, error: outcome.reason });
      }
    }
    if (replies.length === 0) throw failure;
    return method.merge?.(replies as never, request as never) as object;
  };
}
