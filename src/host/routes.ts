/**
 * Decides which plugin a request goes to: by priority, exclusive ones alone, list requests merged, calls to the plugin
 * that owns the name. Built once when the host starts.
 */

import type { Log } from '../base/log.ts';
import { toldLosses } from '../base/sqlite/losses.ts';
import type { PathGuard } from '../base/workspace/protected-paths.ts';
import type { Route } from '../connection/running-request.ts';
import type { Method } from '../protocol/method.ts';
import type { EditorAccess } from '../session/editors.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { CallContext, SessionView } from './context.ts';
import type { CapabilityOffer } from './negotiate.ts';
import type { FactsFor, Handler, Plugin } from './plugin.ts';
import type { PluginRuntime } from './plugin-runtime.ts';
import type { SessionStores } from './store/store.ts';

type Run = (request: object, context: CallContext & { runtime: PluginRuntime | undefined }) => object | Promise<object>;
/** A handler with the plugin it belongs to. */
interface Served {
  readonly runtime: PluginRuntime;
  readonly handler: Handler;
}

/** Returns the plugins that serve each capability, highest priority first; a single one if any is exclusive. */
export function serving(plugins: readonly PluginRuntime[]): Map<string, PluginRuntime[]> {
  const byType = Map.groupBy(plugins, ({ plugin }) => plugin.type);
  for (const [type, all] of byType) {
    const sorted = all.toSorted((a, b) => byRank(a.plugin, b.plugin));
    const alone = sorted.find(({ plugin }) => plugin.exclusive);
    byType.set(type, alone === undefined ? sorted : [alone]);
  }
  return byType as Map<string, PluginRuntime[]>;
}

/** Orders plugins: the highest priority first, equal ones as they were loaded. */
export const byRank = (a: Plugin, b: Plugin): number => (b.priority ?? 0) - (a.priority ?? 0);

/** Returns the metadata of each capability in the handshake: the facts of its leading plugin. */
export function offers(
  served: ReadonlyMap<string, readonly PluginRuntime[]>,
  who: FactsFor,
): Map<string, CapabilityOffer> {
  const result = new Map<string, CapabilityOffer>();
  for (const [type, plugins] of served) {
    const offer = offerOf(plugins, who);
    if (offer !== undefined) result.set(type, offer);
  }
  return result;
}

/**
 * Returns the facts of the first plugin of a capability that can serve it now; plugins for sessions of another
 * capability come last.
 */
export function offerOf(plugins: readonly PluginRuntime[], who: FactsFor): CapabilityOffer | undefined {
  const leading = plugins.toSorted(
    (a, b) => Number(a.plugin.loadedWith !== undefined) - Number(b.plugin.loadedWith !== undefined),
  );
  for (const { plugin } of leading) {
    const { name, type, priority = 0, exclusive = false, metadata } = plugin;
    const facts = typeof metadata === 'function' ? metadata(who) : (metadata ?? {});
    if (facts === undefined) continue;
    // The state that several plugins share is one loss.
    const losses = toldLosses([...new Set(plugins.flatMap((runtime) => runtime.lossesFor(who.principal)))]);
    return { ...facts, name, type, priority, exclusive, ...(losses.length > 0 && { losses }) };
  }
  return undefined;
}

/** Returns the routes by request type. */
export function routes(served: ReadonlyMap<string, readonly PluginRuntime[]>, log: Log): Map<string, Route> {
  const handlers = new Map<string, { method: Method; all: Served[] }>();
  for (const plugins of served.values()) {
    for (const runtime of plugins) {
      for (const handler of runtime.plugin.methods) {
        const { method } = handler;
        const entry = handlers.get(method.request) ?? { method, all: [] };
        entry.all.push({ runtime, handler });
        handlers.set(method.request, entry);
      }
    }
  }
  const result = new Map<string, Route>();
  for (const [type, { method, all }] of handlers) {
    const run = method.merge === undefined || all.length === 1 ? first(all) : merged(method, all, log);
    result.set(type, {
      method,
      run: run as unknown as Route['run'],
      ...(all.some(asks) && { refuses: refusalOf(all) }),
      ...(all.some(({ handler }) => handler.isIdempotent !== undefined) && { isIdempotent: idempotenceOf(all) }),
    });
  }
  return result;
}

const asks = ({ handler }: Served): boolean => handler.refuses !== undefined;

/** The error of the first handler that refuses. */
const refusalOf =
  (all: readonly Served[]): Route['refuses'] =>
  (request, session) => {
    for (const { handler } of all) {
      const error = handler.refuses?.(request as never, session as SessionView);
      if (error !== undefined) return error;
    }
    return undefined;
  };

/** Returns the idempotence that the serving handler declares for the request. */
const idempotenceOf =
  (all: readonly Served[]): Route['isIdempotent'] =>
  (request, session) =>
    all
      .find(({ handler }) => handler.declines?.(request as never, session as SessionView) === undefined)
      ?.handler.isIdempotent?.(request as never, session as SessionView);

/** Asks handlers in order; the first that does not decline serves the request. */
function first(all: readonly Served[]): Run {
  const [only] = all as [Served];
  const serve = ({ runtime, handler }: Served, request: object, context: Parameters<Run>[1]) => {
    context.runtime = runtime;
    return runtime.serve(handler, request, context);
  };
  if (all.length === 1 && only.handler.declines === undefined) {
    return (request, context) => serve(only, request, context);
  }
  return (request, context) => {
    let declined: HandfastError | undefined;
    for (const each of all) {
      const reason = each.handler.declines?.(request as never, context.session);
      if (reason === undefined) return serve(each, request, context);
      declined ??= reason;
    }
    throw declined;
  };
}

/** Asks all handlers and joins their answers; one that fails is left out, unless all do. */
function merged(method: Method, all: readonly Served[], log: Log): Run {
  return async (request, context) => {
    const settled = await Promise.allSettled(
      all.map(async ({ runtime, handler }) => runtime.serve(handler, request, new PluginView(context, runtime))),
    );
    const replies: object[] = [];
    let failure: unknown;
    for (const [at, outcome] of settled.entries()) {
      if (outcome.status === 'fulfilled') replies.push(outcome.value);
      else {
        failure ??= outcome.reason;
        log.warn('a plugin failed to list', { plugin: all[at]?.runtime.plugin.name, error: outcome.reason });
      }
    }
    if (replies.length === 0) throw failure;
    return method.merge?.(replies as never, request as never) as object;
  };
}

/** The context of one of several plugins that serve a request at the same time: each has its own state. */
class PluginView implements CallContext {
  readonly #context: CallContext;
  readonly #runtime: PluginRuntime;
  readonly session: SessionView;
  readonly log: Log;
  readonly workspace: string;
  readonly startedAt: number;
  readonly depth: number;
  readonly emit: CallContext['emit'];
  readonly call: CallContext['call'];

  constructor(context: CallContext, runtime: PluginRuntime) {
    this.#context = context;
    this.#runtime = runtime;
    this.session = context.session;
    this.log = context.log;
    this.workspace = context.workspace;
    this.startedAt = context.startedAt;
    this.depth = context.depth;
    this.emit = context.emit;
    this.call = context.call.bind(context);
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }

  get pathGuard(): PathGuard | undefined {
    return this.#context.pathGuard;
  }

  get editor(): EditorAccess | undefined {
    return this.#context.editor;
  }

  get store(): SessionStores {
    return this.#runtime.store.of(this.session);
  }

  get grant(): unknown {
    return this.#runtime.grantOf(this.session.principal);
  }

  dataFolder(): Promise<string> {
    return this.#runtime.dataFolder();
  }

  acquireThread(signal?: AbortSignal, waitMs?: number): Promise<() => void> {
    return this.#context.acquireThread(signal, waitMs);
  }

  acquireProcess(signal?: AbortSignal, waitMs?: number): Promise<() => void> {
    return this.#context.acquireProcess(signal, waitMs);
  }

  yieldSlot(): () => void {
    return this.#context.yieldSlot();
  }

  keepStream(): void {
    throw fail('usage', 'a list that several plugins serve has no stream');
  }

  finishStream(): void {}

  afterReply(work: () => void): void {
    this.#context.afterReply(work);
  }

  remainingMs(): number {
    return this.#context.remainingMs();
  }

  limit(ms: number): void {
    this.#context.limit(ms);
  }
}
