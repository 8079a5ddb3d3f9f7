/**
 * The values session RPC sends: sessions, messages, snapshots, models. Types only; names are the wire's, whose mixed
 * spelling is part of the contract.
 *
 * @see docs/protocol/session-rpc.md#types
 */

/** The first three are the protocol's; the others appear only where they are configured. */
export type Provider = 'openai' | 'openrouter' | 'antigravity' | 'anthropic' | 'google' | 'compatible';
export type Thinking = 'OFF' | 'MINIMAL' | 'LOW' | 'MEDIUM' | 'HIGH' | 'XHIGH';

export const PROVIDERS: readonly Provider[] = [
  'openai',
  'openrouter',
  'antigravity',
  'anthropic',
  'google',
  'compatible',
];
export const THINKING_LEVELS: readonly Thinking[] = ['OFF', 'MINIMAL', 'LOW', 'MEDIUM', 'HIGH', 'XHIGH'];

/** An image of a prompt, read and checked. `byteSize` in bytes. */
export interface Image {
  readonly path: string;
  readonly mimeType: string;
  readonly dataUrl: string;
  readonly byteSize: number;
}

/** An image as a client names it: a data URL wins over a path. */
export interface ImageReference {
  readonly path: string;
  readonly mime_type?: string;
  readonly data_url?: string;
}

/** One line of what a UI shows. `id` grows over all sessions of a data directory. */
export interface UiMessage {
  readonly id: number;
  readonly kind: 'user' | 'assistant' | 'system';
  readonly text: string;
  readonly images?: readonly Image[];
  /** Addition: true for a prompt whose turn failed before any model was asked. `session.get` leaves those out. */
  readonly unsent?: boolean;
}

/** One message of what the model is given, tools left out. */
export interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly text: string;
  readonly images?: readonly Image[];
}

/** A prompt that waits. `id` is the turn id its sender was given. */
export interface QueueItem {
  readonly id: string;
  readonly text: string;
  readonly images: readonly ImageReference[];
  /** ISO 8601. */
  readonly enqueuedAt: string;
}

export interface ContextBreakdown {
  readonly pinned_tokens: number;
  readonly conversation_tokens: number;
  readonly tool_schema_tokens: number;
  readonly provider_overhead_tokens: number;
}

/** A session as `session.get` answers it. Members below the line are ours. */
export interface SessionState {
  readonly id: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly pending: boolean;
  readonly statusLabel: string;
  readonly messages: readonly UiMessage[];
  readonly history: readonly ChatMessage[];
  readonly queue: readonly QueueItem[];
  readonly pendingSteerCount: number;
  readonly conversationProvider: Provider | null;
  readonly activeSessionId: string | null;
  readonly contextTokenEstimate: number;
  readonly contextTokenSource: 'compaction' | 'history' | 'provider';
  readonly contextTokenProvider: Provider | null;
  readonly contextTokenBreakdown: ContextBreakdown;
  // Additions.
  readonly title: string;
  readonly cwd: string;
  readonly backend: string;
  /** The running turn, or null. */
  readonly turnId: string | null;
  /** Sequence number of the session's newest event. */
  readonly seq: number;
  readonly closed: boolean;
  readonly settings: SessionSettings;
  readonly usage: Usage;
  readonly approvals: readonly Approval[];
}

/** What a session decides for itself; what is absent follows the server's choice. */
export interface SessionSettings {
  readonly model?: string;
  readonly provider?: Provider;
  readonly thinking?: Thinking;
  readonly openRouterProvider?: string;
  /** Name of a backend of the server. */
  readonly backend?: string;
  /** Tool calls of one round at the same time. Default false, as the protocol has it. */
  readonly parallelTools?: boolean;
  /** Most model rounds of a turn. */
  readonly maxRounds?: number;
  /** Time a turn may take, in milliseconds. */
  readonly turnTimeoutMs?: number;
  /** `ask`: the policy decides; `allow`: nothing is asked; `deny`: whatever would be asked is denied. */
  readonly approvals?: 'ask' | 'allow' | 'deny';
  /** Mode of the agent behind an ACP session. */
  readonly mode?: string;
  /**
   * The session of the agent behind this one, written by the `acp` backend so that the agent finds its context again after
   * a restart. Holds only where `session` is this session: a fork has its own.
   */
  readonly agentSession?: { readonly backend: string; readonly id: string; readonly session: string };
  /** MCP servers of the session, handed to the host once it serves that capability. */
  readonly mcpServers?: readonly Readonly<Record<string, unknown>>[];
}

/** Tokens and cost of a turn or a session. Counts are what the provider reported; `cost_usd` only where it did. */
export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly reasoning_tokens: number;
  readonly cached_input_tokens: number;
  readonly total_tokens: number;
  readonly cost_usd?: number;
}

export const NO_USAGE: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  cached_input_tokens: 0,
  total_tokens: 0,
};

/** One row of `session.list`. */
export interface SessionSummary {
  readonly session_id: string;
  readonly title: string;
  readonly owner: string;
  readonly cwd: string;
  readonly backend: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly message_count: number;
  readonly pending: boolean;
  readonly closed: boolean;
  readonly queue_length: number;
  readonly approvals_pending: number;
  /** The session this one was forked from, or null. */
  readonly parent_session_id: string | null;
  readonly seq: number;
}

/** The server's state. */
export interface Snapshot {
  readonly auth: {
    readonly enabledProviders: readonly Provider[];
    readonly hasOpenAiToken: boolean;
    readonly hasOpenRouterKey: boolean;
    readonly hasAntigravityToken: boolean;
    readonly antigravityProfile: AntigravityProfile | null;
  };
  readonly onboarding: { readonly completed: boolean };
  readonly model: {
    readonly selectedModel: string;
    readonly selectedThinking: Thinking;
    readonly selectedOpenRouterProvider: string;
    readonly selectedProvider: Provider | null;
  };
  readonly sessions: { readonly count: number; readonly ids: readonly string[] };
  readonly skills: { readonly count: number; readonly directories: readonly string[] };
}

export interface AntigravityProfile {
  readonly email: string;
  readonly name: string;
  readonly picture?: string;
}

export interface ModelOption {
  readonly id: string;
  readonly provider: Provider;
  readonly displayProvider?: string;
  readonly label: string;
  readonly description: string;
  readonly supportedThinkingLevels?: readonly Thinking[];
  readonly defaultThinkingLevel?: Thinking;
  readonly routingProviders?: readonly string[];
  readonly contextWindowTokens?: number;
}

export interface SavedChat {
  readonly id: string;
  readonly title: string;
  readonly provider: Provider;
  readonly model: string;
  readonly thinkingLevel: Thinking;
  readonly openRouterProvider?: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly messageCount: number;
  readonly rolloutPath: string;
}

export interface SavedChatRecord extends SavedChat {
  readonly messages: readonly ChatMessage[];
}

export interface Chunk {
  readonly thoughts: readonly string[];
  readonly answerText: string;
  readonly segments?: readonly { readonly kind: 'thought' | 'answer'; readonly text: string }[];
}

/** A call the model made. */
export interface ToolCall {
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly providerToolName: string;
  readonly callId: string;
}

/** What became of a call. `callId` is an addition. */
export interface ToolDone {
  readonly name: string;
  readonly ok: boolean;
  readonly input?: Readonly<Record<string, unknown>>;
  readonly result: unknown;
  readonly error?: string;
  readonly callId?: string;
}

/** Why a turn ended. Sent as `stop_reason` on every terminal event. */
export type StopReason =
  | 'end_turn'
  | 'max_tokens'
  | 'max_rounds'
  | 'refusal'
  /** `session.interrupt`, or a client's cancel. */
  | 'interrupted'
  /** The turn's time limit. */
  | 'timeout'
  /** The prompt was dropped from the queue before it ran. */
  | 'cleared'
  | 'shutdown'
  /** The server was killed while it ran or waited. */
  | 'restart'
  /** The session was closed or deleted. */
  | 'closed'
  | 'error';

/** What a question to the user is about. */
export type ApprovalKind = 'tool' | 'question';

/** An answer to an approval. `text`/`content` answer questions. */
export interface ApprovalAnswer {
  readonly decision: 'allow' | 'deny';
  /** How long the decision holds: this call, this session, or this working directory for good. */
  readonly remember: 'once' | 'session' | 'directory';
  readonly content?: Readonly<Record<string, unknown>>;
}

/** A question that waits for an answer, or waited. */
export interface Approval {
  readonly id: string;
  readonly session_id: string;
  readonly turn_id: string;
  readonly kind: ApprovalKind;
  /** One line: what is asked. */
  readonly title: string;
  /** For `tool`: what is to be called. */
  readonly tool?: {
    readonly name: string;
    readonly input: Readonly<Record<string, unknown>>;
    readonly call_id: string;
  };
  readonly risks: readonly string[];
  /** Why it is asked, e.g. the rule of the policy. */
  readonly reason: string;
  /** For `tool`: what an answer kept for longer than this call would cover, in words, e.g. `shell: npm test …`. */
  readonly covers?: string;
  /** For `question`: JSON Schema of the answer's `content`. */
  readonly schema?: Readonly<Record<string, unknown>>;
  readonly created_at: string;
  /** Unanswered by then, it is denied. */
  readonly expires_at: string;
  readonly state: 'pending' | 'allowed' | 'denied' | 'expired' | 'cancelled';
  readonly answer?: ApprovalAnswer;
  /** Who answered: principal and client name, or the policy. */
  readonly answered_by?: string;
  readonly resolved_at?: string;
}
