/**
 * A model that works in rounds: it gets the conversation and the tools, and streams text and tool calls.
 *
 * Implemented by the `model` backend (a provider) and the `rehearsal` backend (directives); driven by `rounds.ts`, which
 * owns tools, history, limits and the events.
 */
import type { Usage } from '../../protocol/session-types.ts';
import type { HistoryItem } from '../contract/session-log.ts';
import type { ToolOffer } from './toolbox.ts';

/** The parts of one round's request. */
export interface RoundRequest {
  /** The whole conversation, with the prompt and the work of this turn so far. */
  readonly history: readonly HistoryItem[];
  /** Id of the running turn; items of the history carry it. */
  readonly turnId: string;
  /** Instructions before the conversation, e.g. the skills the prompt names. May be empty. */
  readonly system: string;
  readonly tools: readonly ToolOffer[];
  /** Counts from 1 within the turn. */
  readonly round: number;
  /** Aborts with the turn; its reason is a `HandfastError`. */
  readonly signal: AbortSignal;
  /**
   * The answer of this round as far as it was streamed before it was cut off; the stream continues behind it. Default: none.
   */
  readonly partial?: string;
}

/** Reason why a round ended. `other` is every further reason of a provider. */
export type FinishReason = 'stop' | 'tool_calls' | 'max_tokens' | 'refusal' | 'other';

/** One piece of a round, in the order the model produced it. */
export type ModelPart =
  | { readonly type: 'thought'; readonly text: string }
  | { readonly type: 'answer'; readonly text: string }
  | {
      readonly type: 'call';
      /** The provider's id; `rounds.ts` makes one where it is empty or used before. */
      readonly callId: string;
      /** The tool's own name; for an unknown tool, the name that the model gave. */
      readonly name: string;
      /** The name the provider was given for it. Default: `name`. */
      readonly providerToolName?: string;
      readonly input: Readonly<Record<string, unknown>>;
      /** Reason why the arguments could not be read. The call is then answered with it and not made. */
      readonly invalid?: string;
    }
  /** The request is tried again after `delayMs`. Nothing of the failed attempt may have been streamed. */
  | {
      readonly type: 'retry';
      /** The attempt that comes next, counted from 1. */
      readonly attempt: number;
      readonly maxAttempts: number;
      readonly delayMs: number;
      readonly reason: string;
      /** The cause in the status line. Default: `capacity unavailable`. */
      readonly cause?: string;
    }
  /** Usage of a request; the values are added up. */
  | { readonly type: 'usage'; readonly usage: Usage }
  | {
      readonly type: 'finish';
      readonly reason: FinishReason;
      /** Data that the provider wants back with this message in later rounds. Stored in the history, JSON only. */
      readonly providerData?: Readonly<Record<string, unknown>>;
    };

export interface RoundModel {
  /** True when a round that was cut off after its first words can be continued (`partial`). Default false. */
  readonly continues?: boolean;
  /**
   * Streams one round. The last part is `finish`; a stream without one counts as `other`. Throws `provider_error`,
   * `not_configured`, `login_failed`, … when the round failed for good; may throw anything once `signal` aborted.
   */
  stream(request: RoundRequest): AsyncIterable<ModelPart>;
}
