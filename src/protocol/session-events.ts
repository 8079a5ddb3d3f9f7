/**
 * The events of session RPC: their types and payloads. The first block is the protocol's, the second additive.
 *
 * On the wire an event is `{"jsonrpc":"2.0","method":"event","params":{type, timestamp, payload, seq}}`; `seq` is an
 * addition: strictly growing per session (events of a session) or per server (all others), never reused.
 * @see docs/protocol/session-rpc.md#events
 */
import type {
  Approval,
  Chunk,
  ContextBreakdown,
  ImageReference,
  Provider,
  SessionSettings,
  Snapshot,
  StopReason,
  ToolCall,
  ToolDone,
  UiMessage,
  Usage,
} from './session-types.ts';

/** What every terminal event of a turn adds to the protocol's payload. Exactly one of them comes per turn id. */
export interface TurnEnd {
  readonly stop_reason: StopReason;
  readonly usage: Usage;
  readonly duration_ms: number;
}

/** Payloads by type. `session_id` and `turn_id` are written by whoever emits. */
export interface SessionEventPayloads {
  'session.status': {
    readonly pending: boolean;
    readonly status_label: string;
    /** Addition, machine readable: e.g. `retrying` with attempt and delay. */
    readonly detail?: Readonly<Record<string, unknown>>;
  };
  'session.message.appended': { readonly message: UiMessage };
  'session.stream.chunk': { readonly chunk: Chunk };
  'session.tool.call.started': {
    readonly data: { readonly toolRound: number; readonly call: ToolCall };
    readonly tool_kind?: string;
    readonly risks?: readonly string[];
  };
  'session.tool.call.completed': {
    readonly data: { readonly toolRound: number; readonly executed: ToolDone };
    readonly duration_ms?: number;
  };
  'session.tool.results': { readonly data: { readonly toolRound: number; readonly executed: readonly ToolDone[] } };
  'session.completed': { readonly answer_length: number } & TurnEnd;
  'session.interrupted': { readonly partial_output: boolean } & TurnEnd;
  'session.error': { readonly message: string; readonly kind: string; readonly retryable: boolean } & TurnEnd;
  'session.context.estimate': {
    readonly provider: Provider | null;
    readonly source: string;
    readonly total_tokens_estimate: number;
    readonly breakdown: ContextBreakdown;
    readonly context_window_tokens?: number;
  };
  'compaction.started': Readonly<Record<string, unknown>>;
  'compaction.anchor_selected': Readonly<Record<string, unknown>>;
  'compaction.summary_merged': Readonly<Record<string, unknown>>;
  'compaction.completed': Readonly<Record<string, unknown>>;
  'compaction.failed': Readonly<Record<string, unknown>>;
  'session.debug': { readonly stage: string; readonly data: unknown };

  // Additions.
  'session.created': Readonly<Record<string, unknown>>;
  'session.turn.queued': {
    readonly text: string;
    readonly images: readonly ImageReference[];
    readonly enqueued_at: string;
    /** What its sender called it. */
    readonly idempotency_key?: string;
  };
  'session.turn.started': {
    readonly text: string;
    readonly started_at: string;
    /** The same, of a prompt that did not wait. */
    readonly idempotency_key?: string;
  };
  'session.tool.output': { readonly call_id: string; readonly stream: string; readonly text: string };
  'session.steer.injected': { readonly steer_ids: readonly string[] };
  'session.steer.returned': {
    readonly steers: readonly { readonly id: string; readonly text: string }[];
    readonly reason: string;
  };
  'session.renamed': { readonly title: string };
  'session.configured': { readonly settings: SessionSettings };
  'session.cleared': Readonly<Record<string, unknown>>;
  'session.closed': { readonly reason: string };
  'session.usage': { readonly usage: Usage; readonly session_usage: Usage };
  'session.plan': {
    readonly entries: readonly { readonly content: string; readonly status: string; readonly priority?: string }[];
  };
  'approval.requested': { readonly approval: Approval };
  'approval.resolved': { readonly approval: Approval };
}

/** Events of the server rather than of one session. */
export interface ServerEventPayloads {
  'state.changed': { readonly reason: string; readonly snapshot: Snapshot; readonly session_id?: string };
  'auth.flow.started': { readonly provider: string };
  'auth.flow.url': { readonly provider: string; readonly url: string };
  'auth.flow.device_code': {
    readonly provider: string;
    readonly verification_url: string;
    readonly user_code: string;
    readonly interval_seconds: number;
    readonly expires_in_seconds: number;
  };
  'auth.flow.completed': Readonly<Record<string, unknown>>;
  'auth.flow.failed': { readonly provider: string; readonly message: string };
}

/** Events about the events of one connection: additions that only subscribers are sent. `session_id` null = the server's. */
export interface ConnectionEventPayloads {
  /** Events between what was sent and what comes next are gone. Its `seq` is `to_seq`. Numbers are inclusive. */
  'events.gap': {
    readonly session_id: string | null;
    readonly subscription_id?: string;
    readonly from_seq: number;
    readonly to_seq: number;
  };
  /** The subscription cannot go on; `kind` is the name of the error. It has no `seq`. */
  'events.ended': {
    readonly session_id: string | null;
    readonly subscription_id?: string;
    readonly kind: string;
    readonly message: string;
  };
}

export type SessionEventType = keyof SessionEventPayloads;
export type ServerEventType = keyof ServerEventPayloads;

/** An event as a client reads it: `params` of the notification. */
export interface SessionEvent<Type extends string = string> {
  readonly type: Type;
  /** ISO 8601. */
  readonly timestamp: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly seq: number;
}
