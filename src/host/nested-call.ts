/**
 * One capability calling another: `context.call`. The call runs here, not on the connection: it uses no place of the
 * session's concurrency limit, so that capabilities which call each other cannot block themselves.
 *
 * It keeps the rights of the principal, the deadline and the cancel of the calling request, and is audited like a
 * request. `host/call.ts` starts it for requests of the agent, this file for nested calls of nested calls.
 */

import { MAX_DELAY_MS } from '../base/deadlines.ts';
import type { Log } from '../base/log.ts';
import type { PathGuard } from '../base/workspace/protected-paths.ts';
import type { CallEvent } from '../connection/call.ts';
import type { Route } from '../connection/running-request.ts';
import type { Body, Method } from '../protocol/method.ts';
import { type EditorAccess, type Editors, noting } from '../session/editors.ts';
import { may } from '../session/rights.ts';
import type { Session } from '../session/session.ts';
import { violation } from '../wire/check.ts';
import type { MessageId } from '../wire/codec.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { CallContext, NestedCallOptions } from './context.ts';
import type { HostSlots } from './host-limits.ts';
import type { PluginRuntime } from './plugin-runtime.ts';
import type { SessionStores } from './store/store.ts';

/** Calls of calls at most. */
export const MAX_CALL_DEPTH = 32;
/** Longest run of a call that outlives its caller, milliseconds. */
const OUTLIVES_MS = 10_000;
/** Calls that run at once below one request of an agent. */
const MAX_NESTED_CALLS = 1024;

/** Members that all calls of a host share. */
export interface CallDeps {
  readonly log: Log;
  readonly workspace: string;
  /** Paths that tools of restricted principals do not touch. */
  readonly pathGuard: PathGuard | undefined;
  readonly editors: Editors | undefined;
  /** Threads and processes that calls may start; shared by the hosts of a process. */
  readonly slots: HostSlots;
  /** Loads the plugins that serve a capability; undefined if they are loaded. */
  prepare(capability: string): Promise<void> | undefined;
  /** Returns the route of a request type for the capabilities of a principal; throws if none exists. */
  nestedRoute(type: string, session: Session): Route;
  /** Returns the error that the caller gets for an error that a handler threw. */
  failure(route: Route, session: Session, thrown: unknown): HandfastError;
  /** The nested calls that run. */
  readonly running: Set<NestedCall>;
  /** Called when a nested call ended. */
  nestedDone(call: NestedCall, error: HandfastError | undefined): void;
  /** Called when a handler was abandoned and still runs (`+1`), or an abandoned one has settled (`-1`). */
  abandoned(change: 1 | -1): void;
}

/** The calling request, or the calling call. */
export interface Caller {
  readonly deps: CallDeps;
  readonly session: Session;
  readonly signal: AbortSignal;
  readonly deadlineAt: number;
  readonly depth: number;
  readonly id: MessageId;
  readonly route: Route;
  readonly tree: CallTree;
  yieldSlot(): () => void;
}

/** The calls below one request of an agent. */
export class CallTree {
  running = 0;
  /** Numbers the calls, for their ids. */
  count = 0;
}

export class NestedCall implements CallContext, Caller {
  readonly deps: CallDeps;
  readonly session: Session;
  readonly depth: number;
  readonly id: string;
  readonly route: Route;
  readonly tree: CallTree;
  readonly message: Record<string, unknown>;
  readonly caller: Caller;
  readonly startedAt = performance.now();
  deadlineAt: number;
  runtime: PluginRuntime | undefined;
  /** The party outside this host that did work for the call; for the audit. */
  by: 'editor' | undefined;
  refusal: HandfastError | undefined;
  readonly #controller = new AbortController();
  readonly #onEvent: NestedCallOptions['onEvent'];
  #timer: NodeJS.Timeout | undefined;
  #seq = 0;
  #done = false;
  #subscribed = false;
  readonly #afterReply: (() => void)[] = [];

  constructor(caller: Caller, route: Route, message: Record<string, unknown>, options: NestedCallOptions) {
    this.caller = caller;
    this.deps = caller.deps;
    this.session = caller.session;
    this.tree = caller.tree;
    this.depth = caller.depth + 1;
    this.route = route;
    this.message = message;
    this.id = message.id as string;
    this.deadlineAt = options.outlives === true ? Number.POSITIVE_INFINITY : caller.deadlineAt;
    this.#onEvent = options.onEvent;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get log(): Log {
    return this.deps.log;
  }

  get workspace(): string {
    return this.deps.workspace;
  }

  get pathGuard(): PathGuard | undefined {
    return may(this.session.principal, 'administer') ? undefined : this.deps.pathGuard;
  }

  get editor(): EditorAccess | undefined {
    return noting(this.deps.editors?.of(this.session.id), () => {
      this.by = 'editor';
    });
  }

  get store(): SessionStores {
    return (this.runtime as PluginRuntime).store.of(this.session);
  }

  get grant(): unknown {
    return this.runtime?.grantOf(this.session.principal);
  }

  dataFolder(): Promise<string> {
    return (this.runtime as PluginRuntime).dataFolder();
  }

  acquireThread(signal: AbortSignal = this.signal, waitMs?: number): Promise<() => void> {
    return this.deps.slots.threads.acquire(this.session.principal.name, signal, { waitMs });
  }

  acquireProcess(signal: AbortSignal = this.signal, waitMs?: number): Promise<() => void> {
    return this.deps.slots.processes.acquire(this.session.principal.name, signal, { waitMs });
  }

  call<Request extends object, Reply extends object>(
    method: Method<Request, Reply>,
    body: Body<Request>,
    options: NestedCallOptions = {},
  ): Promise<Body<Reply>> {
    return callCapability(this, method as unknown as Method, body, options) as Promise<Body<Reply>>;
  }

  /** Gives up the place, which is that of the agent's request. */
  yieldSlot(): () => void {
    return this.caller.yieldSlot();
  }

  remainingMs(): number {
    return Math.max(0, this.deadlineAt - performance.now());
  }

  limit(ms: number): void {
    this.deadlineAt = Math.min(this.deadlineAt, this.startedAt + ms);
    if (this.#done || this.deadlineAt === Number.POSITIVE_INFINITY) return;
    clearTimeout(this.#timer);
    const late = () => this.abort(fail('timeout', 'the deadline passed before the work was done'));
    this.#timer = setTimeout(late, Math.min(this.remainingMs(), MAX_DELAY_MS));
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  readonly emit = (kind: string, data: Record<string, unknown>, fields?: object): Promise<void> | undefined => {
    if (this.signal.aborted) throw this.signal.reason;
    if ((this.#done && !this.#subscribed) || this.#onEvent === undefined) return undefined;
    const event: CallEvent = { kind, data, seq: this.#seq++, ...(fields && { fields: { ...fields, kind, data } }) };
    return this.#onEvent(event) as Promise<void> | undefined;
  };

  /** Continues the stream until the caller's own signal aborts, or the session ends. */
  keepStream(): void {
    if (this.#done || this.#subscribed) return;
    this.#subscribed = true;
    this.session.signal.addEventListener('abort', this.#sessionEnded, { once: true });
  }

  finishStream(error?: HandfastError): void {
    if (!this.#subscribed) return;
    this.#subscribed = false;
    this.session.signal.removeEventListener('abort', this.#sessionEnded);
    if (error !== undefined) this.abort(error);
  }

  afterReply(work: () => void): void {
    this.#afterReply.push(work);
  }

  readonly #sessionEnded = (): void => this.abort(this.session.signal.reason);

  /** Ends the call when the rights that its session has now do not allow it. */
  rightsChanged(): void {
    const { deps, route, message, session } = this;
    try {
      const refused = deps.nestedRoute(route.method.request, session).refuses?.(message, session);
      if (refused !== undefined) this.abort(refused);
    } catch (error) {
      this.abort(error);
    }
  }

  /** Runs the handler; settles at the latest when the call is aborted. */
  async run(options: NestedCallOptions): Promise<object> {
    const { caller, route, deps } = this;
    const callerAborted = () => this.abort(caller.signal.reason);
    const cancelled = () =>
      this.abort(fail('cancelled', 'the call was cancelled by its caller', undefined, options.signal?.reason));
    const aborted = Promise.withResolvers<never>();
    this.signal.addEventListener('abort', () => aborted.reject(this.signal.reason), { once: true });
    const outlives = options.outlives === true;
    if (!outlives) caller.signal.addEventListener('abort', callerAborted, { once: true });
    options.signal?.addEventListener('abort', cancelled, { once: true });
    if (caller.signal.aborted && !outlives) callerAborted();
    else if (options.signal?.aborted) cancelled();
    const longestMs = options.timeoutMs ?? (outlives ? OUTLIVES_MS : Infinity);
    this.limit(Math.min(longestMs, route.method.limitMs?.(this.message as never) ?? Infinity));
    this.tree.running++;
    deps.running.add(this);
    let error: HandfastError | undefined;
    try {
      if (this.signal.aborted) return await aborted.promise;
      const outcome = route.run(this.message, this as never);
      if (!isPromise(outcome)) return outcome as object;
      let settled = false;
      let abandoned = false;
      const work = outcome.finally(() => {
        settled = true;
        if (abandoned) deps.abandoned(-1);
      });
      return await Promise.race([work, aborted.promise]).finally(() => {
        if (settled) return;
        abandoned = true;
        deps.abandoned(1);
        work.catch(() => {}); // Its failure has no caller any more.
      });
    } catch (thrown) {
      error = deps.failure(route, this.session, thrown);
      throw error;
    } finally {
      aborted.promise.catch(() => {});
      this.#done = true;
      this.tree.running--;
      deps.running.delete(this);
      clearTimeout(this.#timer);
      caller.signal.removeEventListener('abort', callerAborted);
      if (!this.#subscribed || error !== undefined) options.signal?.removeEventListener('abort', cancelled);
      deps.nestedDone(this, error);
      for (const work of this.#afterReply) work();
    }
  }
}

/** Makes a call for a caller; see `CallContext.call`. */
export async function callCapability(
  caller: Caller,
  method: Method,
  body: object,
  options: NestedCallOptions,
): Promise<object> {
  const { deps, session, tree } = caller;
  if (caller.depth >= MAX_CALL_DEPTH) {
    throw fail('call_depth_exceeded', `capabilities may call each other ${MAX_CALL_DEPTH} deep`, {
      limit: MAX_CALL_DEPTH,
    });
  }
  if (tree.running >= MAX_NESTED_CALLS) {
    throw fail('over_capacity', `one request may have ${MAX_NESTED_CALLS} calls running`, { limit: MAX_NESTED_CALLS });
  }
  const loading = deps.prepare(method.capability);
  if (loading !== undefined) await loading;
  const route = deps.nestedRoute(method.request, session);
  const message: Record<string, unknown> = { ...body, type: method.request, id: `${caller.id}.${++tree.count}` };
  if (route.method.streaming !== undefined) message.streaming = options.onEvent !== undefined;
  const check = route.method.checkRequest;
  if (!check(message)) throw violation(method.request, check.errors);
  return new NestedCall(caller, route, message, options).run(options);
}

const isPromise = (value: unknown): value is Promise<object> =>
  typeof (value as Promise<object> | undefined)?.then === 'function';
