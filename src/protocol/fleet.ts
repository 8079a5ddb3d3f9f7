/**
 * The messages of the fleet handshake 2.0 as they are on the wire, and the words they are made of.
 *
 * Three messages carry the protocol (`SESSION_ANNOUNCE`, `TASK_DISPATCH`, `TASK_RESULT`); the others are additive and go
 * only to peers whose announce, or whose `SESSION_ACCEPT`, lists the feature. Written messages validate against
 * `schema/fleet.json`; what arrives is read by `fleet/messages/`, which is stricter about text and kinder about fields.
 * @see docs/protocol/fleet.md
 */

/** The version this side speaks, and writes. */
export const FLEET_VERSION = '2.0';

/** Names this protocol where A2A peers list what they speak beside A2A: agent cards, headers, metadata. No comma in it. */
export const FLEET_EXTENSION = 'https://handfast.dev/fleet-handshake/v2';

/**
 * What a peer understands beside the three messages. `ack` TASK_ACK · `progress` TASK_PROGRESS · `cancel` TASK_CANCEL ·
 * `lease` renewals by progress and heartbeat · `heartbeat` SESSION_HEARTBEAT and SESSION_BYE · `accept` SESSION_ACCEPT ·
 * `announce` ANNOUNCE_REQUEST · `poll` TASK_POLL · `steer` TASK_STEER · `questions` TASK_QUESTION and TASK_ANSWER.
 */
export const FEATURES = [
  'ack',
  'progress',
  'cancel',
  'lease',
  'heartbeat',
  'accept',
  'announce',
  'poll',
  'steer',
  'questions',
] as const;
export type Feature = (typeof FEATURES)[number];

export const PRIORITIES = ['low', 'normal', 'high', 'urgent'] as const;
export type Priority = (typeof PRIORITIES)[number];

export const REPLY_SCHEMAS = ['prose', 'structured', 'json'] as const;
export type ReplySchema = (typeof REPLY_SCHEMAS)[number];

export const STATUSES = ['done', 'blocked', 'error', 'partial'] as const;
export type Status = (typeof STATUSES)[number];

/** Health of an MCP server. Only `ok` is healthy; words not listed here act as not ok. */
export const HEALTHS = ['ok', 'timeout', 'error', 'starting', 'auth_required', 'disabled', 'unknown'] as const;
export type Health = (typeof HEALTHS)[number];

/** Whether a task changes the repository. */
export type Access = 'read' | 'write';

/** Says who sent a message, when, and for which attempt. Never part of what a task is: digests leave it out. */
export interface Envelope {
  readonly message_id?: string;
  readonly context_id?: string | null;
  readonly correlation_id?: string;
  readonly causation_id?: string;
  /** RFC 3339, for measuring clock skew. */
  readonly sent_at?: string;
  readonly sender?: string;
  /** 1 for the first dispatch of a task, more for each one after it. */
  readonly attempt?: number;
  readonly lease?: { readonly ttl_s: number; readonly fence: number };
  /** On the first announce of a stream link where a token is required. Never logged, kept or sent on. */
  readonly token?: string;
}

interface Enveloped {
  readonly protocol_version: string;
  readonly envelope?: Envelope;
}

/** Worker → orchestrator: who it is, what it can do, and how it is. */
export interface SessionAnnounce extends Enveloped {
  readonly type: 'SESSION_ANNOUNCE';
  readonly worker: {
    readonly agent_id: string;
    readonly model?: string | null;
    readonly model_tier?: string | null;
    /** Tokens. */
    readonly context_window?: number | null;
    readonly protocol_versions?: readonly string[];
    readonly features?: readonly string[];
    readonly max_concurrent?: number;
    /** Measured cost of an empty first turn, tokens. */
    readonly overhead_tokens?: number | null;
    /** Names of pools whose tasks it takes. */
    readonly pools?: readonly string[];
  };
  readonly capabilities: { readonly tools: readonly string[]; readonly mcp_servers: readonly string[] };
  readonly mcp_health?: Readonly<Record<string, string>>;
  readonly session?: {
    readonly context_id?: string | null;
    readonly active_tasks?: number;
    readonly repo_state?: {
      readonly branch: string | null;
      readonly clean: boolean;
      readonly head?: string | null;
    } | null;
    readonly session_fresh?: boolean | null;
    /** Another value for each start of the worker's process. */
    readonly incarnation?: string;
    /** Rises with every announce of an incarnation. */
    readonly seq?: number;
    /** How long this description may be used, seconds. */
    readonly ttl_s?: number;
    readonly draining?: boolean;
    /** Why its executor cannot work now: the code it refuses tasks with. Absent: it can, as far as is known. */
    readonly not_ready?: string;
  };
}

/** Orchestrator → worker: a task and what must hold for it. */
export interface TaskDispatch extends Enveloped {
  readonly type: 'TASK_DISPATCH';
  readonly task: {
    readonly task_id: string;
    readonly priority?: string | null;
    readonly reply_schema?: ReplySchema | null;
    readonly token_budget?: number | null;
    /** JSON Schema of `TASK_RESULT.answer`. */
    readonly answer_schema?: Readonly<Record<string, unknown>> | null;
    /** A second run does no harm. */
    readonly retry_safe?: boolean | null;
    /** The task whose budget this one takes a part of. */
    readonly parent_task_id?: string | null;
  };
  readonly requirements?: {
    readonly required_mcp?: readonly string[] | null;
    readonly required_capabilities?: readonly string[] | null;
    readonly min_tier?: string | null;
    readonly min_context_window?: number | null;
    readonly access?: Access | null;
    /** Wants a git worktree of its own. */
    readonly worktree?: boolean | null;
  } | null;
  /** RFC 3339 with an offset. */
  readonly deadline?: string | null;
  readonly brief: string;
}

/** Where the tokens of a result come from. */
export type UsageSource = 'measured' | 'provider' | 'claimed' | 'unknown';

/** What a turn of an executor has used. Tokens; `input` is what no cache gave. */
export interface Usage {
  readonly source: UsageSource;
  readonly input?: number;
  readonly output?: number;
  /** Only where it is not part of `output`. */
  readonly reasoning?: number;
  readonly cache_read?: number;
  readonly cache_write?: number;
  readonly cost_usd?: number;
  /** What the model said of itself, where that is more than a fifth off. */
  readonly claimed?: number;
}

/** Why a task did not start, for machines. */
export interface Blocked {
  readonly code: string;
  readonly retryable: boolean;
  readonly missing?: readonly string[];
  readonly retry_after_s?: number;
}

/** Worker → orchestrator: how a task ended. */
export interface TaskResult extends Enveloped {
  readonly type: 'TASK_RESULT';
  readonly task_id: string;
  readonly status: Status;
  /** Absent or null: unknown, never zero. */
  readonly tokens_spent?: number | null;
  readonly next_steps?: readonly string[] | null;
  readonly blocked_reason?: string | null;
  readonly error_summary?: string | null;
  readonly summary?: string | null;
  readonly artifacts?: Readonly<Record<string, unknown>> | null;
  readonly blocked?: Blocked | null;
  readonly usage?: Usage | null;
  /** What `answer_schema` asked for. */
  readonly answer?: unknown;
  /** What the executor said beside the result, cut at 256 KiB. */
  readonly prose?: string | null;
  /** How the result was found; see `fleet/phases/reply.ts`. */
  readonly conformance?: string;
}

/**
 * Worker → orchestrator: the dispatch is taken (`accepted`), or what a poll found; orchestrator → worker: the result of
 * this task and attempt is kept for good, and need not be sent again.
 */
export interface TaskAck extends Enveloped {
  readonly type: 'TASK_ACK';
  readonly task_id: string;
  readonly accepted: boolean;
  readonly lease?: { readonly ttl_s: number; readonly fence: number };
  /** Answer to a poll, or why it was not taken now. `busy`: ask again after `retry_after_s`. */
  readonly state?: 'accepted' | 'running' | 'finished' | 'unknown' | 'busy';
  readonly retry_after_s?: number;
}

/** Worker → orchestrator: a task goes on. Renews its lease. */
export interface TaskProgress extends Enveloped {
  readonly type: 'TASK_PROGRESS';
  readonly task_id: string;
  readonly seq: number;
  /** `starting`, `running`, `repairing`, `stopping`, or a word of the executor's. */
  readonly phase: string;
  readonly note?: string;
  /** 0–100. */
  readonly percent?: number;
  readonly tokens_so_far?: number | null;
}

export interface TaskCancel extends Enveloped {
  readonly type: 'TASK_CANCEL';
  readonly task_id: string;
  readonly reason?: string;
}

/** Orchestrator → worker: more input for a running task. */
export interface TaskSteer extends Enveloped {
  readonly type: 'TASK_STEER';
  readonly task_id: string;
  /** The same id again does nothing. */
  readonly steer_id: string;
  readonly text: string;
}

/** Orchestrator → worker: how is this task? Answered with TASK_RESULT, or TASK_ACK with its `state`. */
export interface TaskPoll extends Enveloped {
  readonly type: 'TASK_POLL';
  readonly task_id: string;
}

/** Worker → orchestrator: the executor asks something and waits. */
export interface TaskQuestion extends Enveloped {
  readonly type: 'TASK_QUESTION';
  readonly task_id: string;
  readonly question_id: string;
  /** `tool`: may this be done? `question`: something to be filled in. */
  readonly kind: 'tool' | 'question';
  readonly title: string;
  readonly tool?: { readonly name: string; readonly input: Readonly<Record<string, unknown>> };
  readonly risks?: readonly string[];
  /** JSON Schema of the answer's `content`. */
  readonly schema?: Readonly<Record<string, unknown>>;
  /** Seconds after which the worker goes on as if refused. */
  readonly expires_s?: number;
}

/** Orchestrator → worker: the answer to a question. */
export interface TaskAnswer extends Enveloped {
  readonly type: 'TASK_ANSWER';
  readonly task_id: string;
  readonly question_id: string;
  readonly allowed: boolean;
  readonly content?: Readonly<Record<string, unknown>>;
  readonly reason?: string;
}

/** Either way: still there. */
export interface SessionHeartbeat extends Enveloped {
  readonly type: 'SESSION_HEARTBEAT';
  readonly agent_id: string;
  readonly incarnation: string;
  readonly seq: number;
  readonly active_tasks: number;
}

/** Either way: the session ends in good order. */
export interface SessionBye extends Enveloped {
  readonly type: 'SESSION_BYE';
  readonly agent_id: string;
  readonly incarnation?: string;
  readonly reason: string;
}

/** Orchestrator → worker: the announce is accepted under these terms. */
export interface SessionAccept extends Enveloped {
  readonly type: 'SESSION_ACCEPT';
  /** The name the worker has here; tasks are addressed to it. */
  readonly peer_id: string;
  readonly features: readonly string[];
  readonly heartbeat_s: number;
  readonly lease_ttl_s: number;
}

/** Orchestrator → worker: describe yourself now. */
export interface AnnounceRequest extends Enveloped {
  readonly type: 'ANNOUNCE_REQUEST';
  readonly context_id?: string | null;
}

export type FleetMessage =
  | SessionAnnounce
  | TaskDispatch
  | TaskResult
  | TaskAck
  | TaskProgress
  | TaskCancel
  | TaskSteer
  | TaskPoll
  | TaskQuestion
  | TaskAnswer
  | SessionHeartbeat
  | SessionBye
  | SessionAccept
  | AnnounceRequest;

/** Which feature a peer must list to be sent a message; the three of the protocol itself need none. */
export const FEATURE_OF: Readonly<Record<FleetMessage['type'], Feature | undefined>> = {
  SESSION_ANNOUNCE: undefined,
  TASK_DISPATCH: undefined,
  TASK_RESULT: undefined,
  TASK_ACK: 'ack',
  TASK_PROGRESS: 'progress',
  TASK_CANCEL: 'cancel',
  TASK_STEER: 'steer',
  TASK_POLL: 'poll',
  TASK_QUESTION: 'questions',
  TASK_ANSWER: 'questions',
  SESSION_HEARTBEAT: 'heartbeat',
  SESSION_BYE: 'heartbeat',
  SESSION_ACCEPT: 'accept',
  ANNOUNCE_REQUEST: 'announce',
};
