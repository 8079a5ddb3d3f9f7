/**
 * What a handler is given besides its parameters: the running request as plugins and tools see it.
 *
 * `host/call.ts` implements it; plugins (`definePlugin`) and tools (`tool`) receive it.
 */
import type { Log } from '../base/log.ts';
import type { Principal, SessionView, ToolRules } from '../session/principal.ts';

export type { Principal, SessionView, ToolRules };

/** The four kinds of event; other strings pass on the wire, but ours are these. */
export type EventKind = 'progress' | 'artifact' | 'log' | 'status';

/** The running request. */
export interface CallContext {
  /** Aborts on cancel, deadline, lost link without resume, and shutdown. `signal.reason` is a `HandfastError`. */
  readonly signal: AbortSignal;
  readonly session: SessionView;
  readonly log: Log;
  /** Absolute real path of the host's workspace; file tools must stay inside it. */
  readonly workspace: string;
  /** When it started, monotonic milliseconds (`performance.now()`). */
  readonly startedAt: number;
  /** Brings the deadline forward to `ms` after the start; a later one than it has is ignored. */
  limit(ms: number): void;
  /** Milliseconds left until the deadline; `Infinity` without one. */
  remainingMs(): number;
  /**
   * Sends one event of this request. `seq` is counted here. Await it to feel the reader's backpressure; a handler that
   * never awaits fails with `slow_consumer` once the outbox bound is passed. While the reader is behind, `progress`
   * events are replaced by the newest one; no other kind is ever dropped. Sends nothing when the caller asked for no
   * events, and after the reply; throws the reason once the call was given up. Every thousandth or so asks for a turn of
   * the event loop, so that a handler that awaits it cannot starve the host.
   *
   * `progress` {pct 0–100, message} · `artifact` {name, mime, chunk: base64, final} · `log` {level, message} · `status` {message}
   */
  readonly emit: (kind: EventKind, data: Record<string, unknown>) => Promise<void> | undefined;
}
