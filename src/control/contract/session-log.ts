/**
 * A session as the parts of the control edge see it: its state, and the one way to change it, which is to emit an event. State
 * is the fold of the journal's entries; no other copy decides.
 *
 * `sessions/` implements it.
 */
import type { SessionEventPayloads, SessionEventType } from '../../protocol/session-events.ts';
import type {
  Approval,
  ContextBreakdown,
  Image,
  ImageReference,
  Provider,
  SessionSettings,
  StopReason,
  ToolDone,
  UiMessage,
  Usage,
} from '../../protocol/session-types.ts';

/**
 * One item of the model's conversation. Tool activity is part of it, so that neither a restart nor a later turn loses the work
 * that was done. `turn` is the turn it belongs to.
 */
export type HistoryItem =
  | {
      readonly role: 'user';
      readonly turn: string;
      readonly text: string;
      readonly images?: readonly Image[];
      /** True when its turn failed before any model was asked: a later turn knows the request. */
      readonly unsent?: boolean;
      /** Not a message: a part of the history that later requests do not have. */
      readonly leavesOut?: LeavesOut;
    }
  | {
      readonly role: 'assistant';
      readonly turn: string;
      readonly text: string;
      readonly reasoning?: string;
      readonly calls?: readonly {
        readonly callId: string;
        readonly name: string;
        readonly input: Readonly<Record<string, unknown>>;
      }[];
      /** True when the calls were started at the same time and not one after the other. */
      readonly parallel?: boolean;
      /** Data that the provider wants back with the message, as the model backend wrote it. */
      readonly providerData?: Readonly<Record<string, unknown>>;
    }
  | {
      readonly role: 'tool';
      readonly turn: string;
      readonly callId: string;
      readonly name: string;
      readonly ok: boolean;
      readonly result: unknown;
      readonly error?: string;
      /** Images and audio that it returned. */
      readonly images?: readonly Image[];
    };

export const LEFT_OUT_PARTS = ['turn', 'earlier', 'attachments', 'all_attachments', 'provider_data'] as const;

/**
 * A part of the history that its provider refused: the whole turn, all turns before it, attachments of the turn or of
 * everything before, or the data that the provider wanted back with its own messages.
 */
export interface LeavesOut {
  readonly part: (typeof LEFT_OUT_PARTS)[number];
  readonly reason: string;
}

/** The outcome of a call as an item of the history. */
export const toolItem = (turn: string, { callId = '', name, ok, result, error }: ToolDone): HistoryItem => ({
  role: 'tool',
  turn,
  callId,
  name,
  ok,
  result,
  ...(error !== undefined && { error }),
});

/** A prompt that waits. */
export interface QueuedPrompt {
  readonly turnId: string;
  readonly text: string;
  readonly images: readonly ImageReference[];
  readonly enqueuedAt: string;
}

/** A steer of a running turn that its model has not received yet. */
export interface Steer {
  readonly id: string;
  readonly text: string;
  readonly whenLate: 'report' | 'queue';
}

/** A subagent's task, a run of a chain, or a process, that the model of the session began. */
export interface SessionWork {
  /** Id of the task, of the run, or of the process. */
  readonly id: string;
  readonly kind: 'subagent' | 'chain' | 'process';
  readonly name: string;
  /** Its task. */
  readonly about: string;
  readonly subagent_id?: string;
  /** `running`, then how it ended. */
  readonly state: string;
  /** JSON of its result; present until it was delivered to the model. */
  readonly result?: string;
}

/** One task of a session's plan. */
export interface PlanEntry {
  readonly content: string;
  readonly status: 'pending' | 'in_progress' | 'completed';
  readonly priority?: 'high' | 'medium' | 'low';
}

/** A turn that ran, runs or was dropped. */
export interface TurnRow {
  readonly turnId: string;
  readonly prompt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly stopReason: StopReason | null;
  readonly usage: Usage;
}

/** The whole state of a session. Only the fold changes it in place. */
export interface SessionRecord {
  readonly id: string;
  /** Name of the principal it belongs to. */
  readonly owner: string;
  readonly parent: string | null;
  /** The subagent whose turns it has; null: the session belongs to its owner. */
  readonly subagent: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly title: string;
  /** Absolute. */
  readonly cwd: string;
  /** Name of the backend that runs its turns. */
  readonly backend: string;
  readonly settings: SessionSettings;
  readonly phase: 'idle' | 'running' | 'interrupting' | 'closed';
  readonly statusLabel: string;
  readonly messages: readonly UiMessage[];
  readonly history: readonly HistoryItem[];
  readonly queue: readonly QueuedPrompt[];
  /** The running turn. */
  readonly turn: { readonly id: string; readonly text: string; readonly startedAt: string } | null;
  readonly steers: readonly Steer[];
  /** Requests that wait, and requests of the running turn that were answered. */
  readonly approvals: readonly Approval[];
  readonly turns: readonly TurnRow[];
  /** The task list; `elsewhere`: it was changed by others than its model. Null: it was never set. */
  readonly plan: { readonly entries: readonly PlanEntry[]; readonly elsewhere: boolean } | null;
  /** Work that its model began and that runs, or has ended and was not delivered to it yet. */
  readonly work: readonly SessionWork[];
  readonly chatId: string | null;
  readonly provider: Provider | null;
  readonly usage: Usage;
  readonly context: {
    readonly tokens: number;
    readonly source: 'compaction' | 'history' | 'provider';
    readonly provider: Provider | null;
    readonly breakdown: ContextBreakdown;
  };
  /** Sequence number of its newest event. */
  readonly seq: number;
}

/** One open session. */
export interface SessionLog {
  readonly record: SessionRecord;
  /**
   * Emits an event of the session: folded into `record` and journaled before it returns, sent to every listener once it is
   * on disk.
   * `session_id` (and `turn_id`, when given) are written into the payload first, as the protocol orders them. Stream
   * chunks and tool output are journaled `volatile`, all else `durable`. Throws `session_closed` once it is deleted.
   */
  emit<Type extends SessionEventType>(type: Type, payload: SessionEventPayloads[Type], turnId?: string): void;
  /** Appends to, or replaces, the model's conversation. Journaled, sent to no client. */
  remember(items: readonly HistoryItem[], mode?: 'append' | 'replace'): void;
  /** Appends a message with a new id, and emits `session.message.appended`. Returns it. */
  appendMessage(kind: UiMessage['kind'], text: string, turnId?: string): UiMessage;
  /**
   * Stores an approval; only then `approval.requested` may publish it: a question that a client has seen outlives the process.
   * Undefined where nothing needs a wait, else resolves once it is on disk. Rejects as `flushed` does, throws as `emit` does.
   */
  persistApproval(approval: Approval): Promise<void> | undefined;
  /** Resolves when everything emitted so far that is durable is on disk. Rejects with `disk_full` or `runtime_error`. */
  flushed(): Promise<void>;
}
