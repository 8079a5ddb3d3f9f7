/**
 * The backend contract: a backend runs the turns of a session. `model` and `rehearsal` think in rounds and share the loop of
 * `rounds/rounds.ts`; `acp` hands the whole turn to another agent.
 *
 * `sessions/` owns the turn: it has emitted `preparing...`, read the images and appended the user's message before `run`, and
 * writes the assistant's message and the one terminal event after it.
 */
import type {
  Approval,
  Image,
  Provider,
  SessionSettings,
  StopReason,
  Thinking,
  ToolCall,
  ToolDone,
  Usage,
} from '../../protocol/session-types.ts';
import type { Principal } from '../../session/principal.ts';
import type { ApprovalRequest } from './approver.ts';
import type { HistoryItem, SessionLog } from './session-log.ts';

/** The running turn, as a backend sees it. Nothing here throws once the turn has ended; it does nothing then. */
export interface Turn {
  readonly id: string;
  readonly log: SessionLog;
  /** The principal whose rights it runs with. */
  readonly principal: Principal;
  /** The session's settings, with the server's defaults. */
  readonly settings: SessionSettings;
  readonly cwd: string;
  readonly prompt: { readonly text: string; readonly images: readonly Image[] };
  /** The model's history before this prompt. The prompt itself and later items are in `log.record.history`. */
  readonly history: readonly HistoryItem[];
  /** True when the turn continues after a restart of the server: `log.record.history` ends with the work it had done. */
  readonly continued: boolean;
  /** Aborts on interrupt, time limit, close and shutdown; the reason is a `HandfastError`. `run` must settle soon after. */
  readonly signal: AbortSignal;

  /** Streams a piece of reasoning. */
  thought(text: string): void;
  /** Streams a piece of the answer; the concatenation of all pieces is the assistant's message. */
  answer(text: string): void;
  /** Changes the status line; `detail` is for machines, e.g. `{retry: {attempt, max_attempts, delay_ms}}`. */
  status(label: string, detail?: Readonly<Record<string, unknown>>): void;
  /** Reports that a call of the model begins; rounds count from 1. */
  toolStarted(
    round: number,
    call: ToolCall,
    facts?: { readonly toolKind?: string; readonly risks?: readonly string[] },
  ): void;
  /** Reports live output of a call. */
  toolOutput(callId: string, stream: string, text: string): void;
  toolDone(round: number, done: ToolDone, durationMs?: number): void;
  /** Reports that all calls of a round have ended, in call order. */
  toolResults(round: number, done: readonly ToolDone[]): void;
  /** Adds the usage of a request to the provider. */
  usage(used: Usage): void;
  /** Returns the pending steers; they are appended as user messages (and to the history) before they are returned. */
  takeSteers(): readonly string[];
  /**
   * Asks the user, or the policy; waits for the answer. Expired and refused both come back as such; never rejects but by
   * `signal`.
   *
   * @param withdrawn aborts when the answer is not needed any more: the request comes back as `cancelled`
   */
  ask(request: ApprovalRequest, withdrawn?: AbortSignal): Promise<Approval>;
  /** Reports a debug step; sent only to connections that asked for it. */
  debug(stage: string, data: unknown): void;
}

/** The end of a turn that did not fail. */
export interface TurnOutcome {
  readonly stopReason: Extract<StopReason, 'end_turn' | 'max_tokens' | 'max_rounds' | 'refusal' | 'interrupted'>;
}

/** The model of a turn, as a saved chat has it. */
export interface UsedModel {
  readonly model: string;
  readonly provider: Provider;
  /** The level in force; absent = the session's, else the default one. */
  readonly thinking?: Thinking;
  /** The routing provider of OpenRouter; absent = any. */
  readonly openRouterProvider?: string;
}

/** The outcome of a compaction: the payload of `compaction.completed` and the answer of `/compress`. */
export interface Compaction {
  readonly compressed: boolean;
  readonly reason: 'auto' | 'manual' | 'provider_switch';
  readonly estimated_tokens_before: number;
  readonly estimated_tokens_after: number;
  /** Tokens the model can be given. */
  readonly model_context_window: number;
  /** Tokens from which the context is compressed by itself. */
  readonly target_limit: number;
  /** Items of the conversation that are only in the summary, before and after. */
  readonly anchor_event_index_before: number;
  readonly anchor_event_index_after: number;
}

export interface Backend {
  /** `model`, `acp`, `rehearsal`, or the name a configuration gives it. */
  readonly name: string;
  /** A line for people that describes it. */
  readonly label: string;
  /** True when `run` can continue a turn after a restart (`turn.continued`). */
  readonly continues: boolean;
  /**
   * Looks whether a turn could run at all, before anything is sent. Throws `not_configured`, whose message is shown to
   * the user as it is.
   */
  preflight(settings: SessionSettings): void | Promise<void>;
  /**
   * Compresses the context before a turn; emits `compaction.*`, replaces the history and appends a system message, all by
   * itself. `auto` does so only when the context has grown over its limit, the other two whenever the history has something to
   * sum up. Rejects when the summary could not be made; the history is then as it was.
   */
  compact?(
    turn: Pick<Turn, 'id' | 'log' | 'settings' | 'signal' | 'status'>,
    reason: 'auto' | 'manual' | 'provider_switch',
  ): Promise<Compaction>;
  /** Runs a turn. Rejects with a `HandfastError` when it failed; the message is shown to the user. */
  run(turn: Turn): Promise<TurnOutcome>;
  /** Returns the model that a turn with these settings would use, for saved chats; null for a backend without models. */
  modelOf(settings: SessionSettings): UsedModel | null;
  /** Frees the state of a session that was closed or deleted. */
  release?(sessionId: string): void;
  /** Ends everything. Bounded, never rejects. */
  stop?(): Promise<void>;
}
