/**
 * The context of a handler besides its parameters: the running request as plugins and tools see it.
 *
 * `host/call.ts` implements it; plugins (`definePlugin`) and tools (`tool`) receive it.
 */
import type { Log } from '../base/log.ts';
import type { PathGuard } from '../base/workspace/protected-paths.ts';
import type { CallEvent } from '../connection/call.ts';
import type { Body, Method } from '../protocol/method.ts';
import type { EditorAccess } from '../session/editors.ts';
import type { Principal, SessionView, ToolRules } from '../session/principal.ts';

import type { HandfastError } from '../wire/errors.ts';
import type { SessionStores } from './store/store.ts';

export type { Principal, SessionView, ToolRules };

/** Options of a call to another capability. */
export interface NestedCallOptions {
  /** Time limit in milliseconds; the deadline of the calling request holds as well. */
  readonly timeoutMs?: number;
  /** Cancels the call. */
  readonly signal?: AbortSignal;
  /** Receives each event of the call; the callee waits for the returned promise. */
  readonly onEvent?: (event: CallEvent) => void | Promise<void>;
  /**
   * True for a call about work that the calling request has started: it runs also when that request was cancelled or is
   * late, for at most `timeoutMs`, by default ten seconds. Default false: it ends with the request.
   */
  readonly outlives?: boolean;
}

/** The four kinds of event; other strings pass on the wire, but Handfast sends these. */
export type EventKind = 'progress' | 'artifact' | 'log' | 'status';

/** The running request. */
export interface CallContext {
  /** Aborts on cancel, deadline, lost link without resume, and shutdown. `signal.reason` is a `HandfastError`. */
  readonly signal: AbortSignal;
  readonly session: SessionView;
  readonly log: Log;
  /** Absolute real path of the host's workspace; file tools must stay inside it. */
  readonly workspace: string;
  /**
   * The paths that tools of this principal neither read nor change; undefined for an administrator.
   * @internal
   */
  readonly pathGuard?: PathGuard | undefined;
  /**
   * The editor in which the session is open and which lends it files and terminals; undefined: tools use those of the host.
   * @internal
   */
  readonly editor?: EditorAccess | undefined;
  /** The durable state of this plugin, by scope. Throws `usage` for a plugin that declares no `store`. */
  readonly store: SessionStores;
  /** The principal's grant within this capability, checked by the plugin's `grant` schema; undefined = no grant. */
  readonly grant: unknown;
  /** 0 for a request of the agent, one more for each call between capabilities. */
  readonly depth: number;
  /**
   * True when repeating this request has no more effect than running it once. Set by the handler that decides it; an
   * error that ends the work before its reply then stays `retryable`. Default: as the method declares, else false.
   */
  idempotent?: boolean;
  /** Set if a reply without an error reports that the request was refused: the audit has the error. */
  refusal?: HandfastError | undefined;
  /** Returns a private folder of this plugin; see `PluginContext.dataFolder`. */
  dataFolder(): Promise<string>;
  /**
   * Acquires a slot for one worker thread; code that starts a thread for this call holds a slot until the thread has
   * ended. Each principal has a share of the threads of the process, and a bounded number of calls that wait for one.
   *
   * Rejects with `over_capacity` when the queue of the principal is full or after `waitMs`, and with the signal's
   * reason.
   * @param signal ends the wait. Default: the signal of this call.
   * @param waitMs longest wait, milliseconds. Default: until the signal aborts.
   */
  acquireThread(signal?: AbortSignal, waitMs?: number): Promise<() => void>;
  /**
   * Acquires a slot for one child process; code that starts a program for this call holds a slot until the program has
   * ended. Shared out and refused like threads: see {@link acquireThread}.
   */
  acquireProcess(signal?: AbortSignal, waitMs?: number): Promise<() => void>;
  /**
   * Calls another capability of this host for the same agent: under its principal's rights, within the deadline of this
   * request, with a line in the audit, and outside the concurrency limit of the session.
   *
   * Rejects with the error that the callee throws, `capability_missing` for a capability that the principal may not use
   * or the host does not have, `unknown_type`, `schema_violation`, `call_depth_exceeded`, `over_capacity`, `timeout`,
   * `cancelled`.
   */
  call<Request extends object, Reply extends object>(
    method: Method<Request, Reply>,
    body: Body<Request>,
    options?: NestedCallOptions,
  ): Promise<Body<Reply>>;
  /**
   * Gives up the place of this request in `max_parallel` while it only waits for a later message of its agent: for an answer, the
   * end of a task. The returned function ends the wait. `waits` of its method lets further requests reach the host meanwhile.
   * A call of another capability gives up the place of the agent's request. Questions of the host to the agent need none of this.
   */
  yieldSlot(): () => void;
  /** Its start, monotonic milliseconds (`performance.now()`). */
  readonly startedAt: number;
  /** Brings the deadline forward to `ms` after the start; a later one than it has is ignored. */
  limit(ms: number): void;
  /** Returns the milliseconds left until the deadline; `Infinity` without one. */
  remainingMs(): number;
  /**
   * Sends one event of this request. `seq` is counted here. Await it to feel the reader's backpressure; a handler that
   * never awaits fails with `slow_consumer` once the outbox bound is passed. While the reader is behind, `progress`
   * events are replaced by the newest one; no other kind is ever dropped. Sends nothing when the caller asked for no
   * events, and after the reply; throws the reason once the call was given up. Every thousandth or so asks for a turn of
   * the event loop, so that a handler that awaits it cannot starve the host.
   *
   * `fields` are those that the method's own events have beside `kind`, `data` and `seq` (`checkEvent` of the method).
   *
   * `progress` {pct 0–100, message} · `artifact` {name, mime, chunk: base64, final} · `log` {level, message} · `status` {message}
   */
  readonly emit: (
    kind: EventKind | (string & {}),
    data: Record<string, unknown>,
    fields?: object,
  ) => Promise<void> | undefined;
  /**
   * Keeps the stream of events open behind the reply: a subscription. It continues until {@link finishStream}, until its
   * caller cancels it (then `signal` aborts), or until the session ends; over a lost link it is replayed. Call it before
   * replying. Throws `over_capacity` when the session has too many.
   */
  keepStream(): void;
  /** Ends the stream, in order or with an error. The caller's iteration ends with it. */
  finishStream(error?: HandfastError): void;
  /** Runs `work` right after the reply, or the error: for events that must not precede it. `work` must not throw. */
  afterReply(work: () => void): void;
}
