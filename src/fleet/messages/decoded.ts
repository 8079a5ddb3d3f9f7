/**
 * What the reading side of the fleet protocol hands on: messages in their normalised form (names canonical, absent = null,
 * defaults filled in), and what was found wrong or odd on the way.
 *
 * Made by `decode.ts`; read by everything else in `fleet/`. Names of members follow the wire.
 */
import type {
  Access,
  Blocked,
  Envelope,
  Feature,
  FleetMessage,
  Priority,
  ReplySchema,
  Status,
  Usage,
} from '../../protocol/fleet.ts';

/** A finding: its code (`E_…`, `W_…`) and the JSON Pointer of the member it is about. */
export interface Finding {
  readonly code: string;
  readonly path: string;
}

/** Result of decoding one message. Errors of one message are all there, not only the first. */
export type Decoded =
  | {
      readonly valid: true;
      readonly message: Incoming;
      readonly errors: readonly [];
      readonly warnings: readonly Finding[];
    }
  | {
      readonly valid: false;
      /** The message's type, where it was read and known. */
      readonly type: string | null;
      /** The id of its task, where that much could be read: somebody waits for an answer. */
      readonly taskId?: string;
      readonly errors: readonly Finding[];
      readonly warnings: readonly Finding[];
    };

/** Repository of a worker. */
export interface RepoState {
  readonly branch: string | null;
  readonly clean: boolean;
}

/** SESSION_ANNOUNCE, normalised. The first block is what vectors compare; the second the extensions. */
export interface Announced {
  readonly type: 'SESSION_ANNOUNCE';
  readonly protocol_version: string;
  readonly agent_id: string;
  readonly model: string | null;
  /** `unknown` when absent. */
  readonly model_tier: string;
  readonly context_window: number | null;
  readonly tools: readonly string[];
  readonly mcp_servers: readonly string[];
  /** One entry per listed server. */
  readonly mcp_health: ReadonlyMap<string, string>;
  readonly context_id: string | null;
  readonly active_tasks: number | null;
  readonly repo_state: RepoState | null;
  readonly session_fresh: boolean | null;

  readonly protocol_versions: readonly string[];
  readonly features: readonly Feature[];
  readonly max_concurrent: number | null;
  readonly overhead_tokens: number | null;
  readonly pools: readonly string[];
  readonly incarnation: string | null;
  readonly seq: number | null;
  readonly ttl_s: number | null;
  readonly draining: boolean;
  /** Why its executor cannot work now; null: it can, as far as is known. */
  readonly not_ready: string | null;
  readonly envelope: Envelope;
}

/** TASK_DISPATCH, normalised. */
export interface Dispatched {
  readonly type: 'TASK_DISPATCH';
  readonly protocol_version: string;
  readonly task_id: string;
  readonly priority: Priority;
  readonly reply_schema: ReplySchema;
  readonly token_budget: number | null;
  readonly required_mcp: readonly string[];
  readonly required_capabilities: readonly string[];
  /** UTC, `YYYY-MM-DDThh:mm:ss.mmmZ`. */
  readonly deadline: string | null;

  readonly brief: string;
  readonly min_tier: string | null;
  readonly min_context_window: number | null;
  /** As stated, else worked out from the required capabilities. */
  readonly access: Access;
  readonly worktree: boolean;
  readonly answer_schema: Readonly<Record<string, unknown>> | null;
  readonly retry_safe: boolean;
  readonly parent_task_id: string | null;
  readonly envelope: Envelope;
  /** SHA-256 (hex) of the dispatch without its envelope, keys sorted. */
  readonly digest: string;
}

/** TASK_RESULT, normalised. */
export interface Reported {
  readonly type: 'TASK_RESULT';
  readonly protocol_version: string;
  readonly task_id: string;
  readonly status: Status;
  /** null = unknown. */
  readonly tokens_spent: number | null;
  readonly next_steps: readonly string[];
  readonly blocked_reason: string | null;
  readonly artifacts: { readonly pr: string | null; readonly files_changed: readonly string[] };
  /** Set with status `error` only. */
  readonly error_summary?: string;

  /** All members of `artifacts` as they came, the two above included only where they are usable. */
  readonly more_artifacts: ReadonlyMap<string, unknown>;
  readonly summary: string | null;
  readonly blocked: Blocked | null;
  readonly usage: Usage | null;
  /** undefined = none given. */
  readonly answer: unknown;
  readonly prose: string | null;
  readonly conformance: string | null;
  readonly envelope: Envelope;
}

/** The additive messages, which keep their wire form. */
export type Addition = Exclude<FleetMessage, { readonly type: 'SESSION_ANNOUNCE' | 'TASK_DISPATCH' | 'TASK_RESULT' }>;

/** A message as the rest of `fleet/` gets it. */
export type Incoming = Announced | Dispatched | Reported | Addition;
