/**
 * The size of a conversation in a model's context: the protocol's estimate, replaced by the provider's own count as far as it
 * has counted.
 *
 * The functions are pure and may be used by any view of a session. `ContextMeter` is the model backend's: it remembers
 * estimates of items, which never change, and the last count of each session.
 * @see docs/protocol/session-rpc.md#types
 */
import { setNewest } from '../../../base/evict-oldest.ts';
import type { SessionEventPayloads } from '../../../protocol/session-events.ts';
import type { ContextBreakdown, Image, Provider, Usage } from '../../../protocol/session-types.ts';
import { isAudio } from '../../../protocol/session-words.ts';
import type { HistoryItem } from '../../contract/session-log.ts';
import { resultText } from './conversation.ts';
import type { FunctionTool } from './provider-model.ts';

const CHARACTERS_PER_TOKEN = 4;
const TOKENS_PER_MESSAGE = 20;
const TOKENS_PER_IMAGE = 850;
/** For speech in a compressed format; for other audio the estimate is too high. */
const AUDIO_BYTES_PER_TOKEN = 500;
/** Share of a window from which the context is compressed, and the least it may hold. */
const HIGH_WATERMARK = 0.82;
const MIN_LIMIT = 6_000;

/** Window of a model whose window is unknown. */
export const UNKNOWN_WINDOW = 128_000;

/** Returns the tokens from which a context with this window is compressed. */
export const contextLimit = (windowTokens: number): number =>
  Math.max(MIN_LIMIT, Math.floor(windowTokens * HIGH_WATERMARK));

/** Counts the tokens of a text, after white space was collapsed. */
export function textTokens(text: string): number {
  return Math.ceil(text.replaceAll(/\s+/g, ' ').trim().length / CHARACTERS_PER_TOKEN);
}

const attachmentTokens = (images: readonly Image[] = []): number =>
  images.reduce(
    (sum, { mimeType, byteSize }) =>
      sum + (isAudio(mimeType) ? Math.ceil(byteSize / AUDIO_BYTES_PER_TOKEN) : TOKENS_PER_IMAGE),
    0,
  );

/** Counts the tokens of one item of a history. Reasoning does not count: providers drop it once it has led to an answer. */
export function itemTokens(item: HistoryItem): number {
  switch (item.role) {
    case 'user':
      return TOKENS_PER_MESSAGE + textTokens(item.text) + attachmentTokens(item.images);
    case 'assistant': {
      const calls = (item.calls ?? []).map(({ name, input }) => textTokens(`${name} ${JSON.stringify(input)}`));
      return TOKENS_PER_MESSAGE + textTokens(item.text) + calls.reduce((sum, tokens) => sum + tokens, 0);
    }
    case 'tool':
      return TOKENS_PER_MESSAGE + textTokens(resultText(item)) + attachmentTokens(item.images);
  }
}

/** Sessions whose counts are remembered: each has a whole system prompt. */
const MAX_METERED = 256;

export interface ContextEstimate {
  readonly tokens: number;
  /** `provider` once the provider has counted, `compaction` after one until then, else `history`. */
  readonly source: 'compaction' | 'history' | 'provider';
  readonly breakdown: ContextBreakdown;
}

/** The parts of a request beside the conversation. */
export interface Fixed {
  readonly system: string;
  readonly tools: readonly FunctionTool[];
}

/** A count of a history that is better than an estimate. */
interface Count {
  readonly source: 'provider' | 'compaction';
  readonly tokens: number;
  /** The count holds as long as this item is at this place, and covers the first `items` of the history. */
  readonly at: number;
  readonly item: HistoryItem | undefined;
  readonly items: number;
}

interface Metered {
  system: string;
  toolTokens: number;
  count: Count | undefined;
  /** The last emitted estimate. */
  emitted: string;
}

export class ContextMeter {
  readonly #items = new WeakMap<HistoryItem, number>();
  /** The one used longest ago first. */
  readonly #sessions = new Map<string, Metered>();

  /** Stores the constant beginning of a session's requests. */
  fixed(sessionId: string, { system, tools }: Fixed): void {
    const session = this.#session(sessionId);
    session.system = system;
    session.toolTokens = tools.length === 0 ? 0 : Math.ceil(JSON.stringify(tools).length / CHARACTERS_PER_TOKEN);
  }

  /** Records the provider's count for a request with this history; its reply is one more item. */
  counted(sessionId: string, history: readonly HistoryItem[], used: Usage): void {
    // Reasoning is not sent again; the rest of the answer is.
    const tokens = used.input_tokens + Math.max(0, used.output_tokens - used.reasoning_tokens);
    const at = history.length - 1;
    this.#session(sessionId).count =
      used.input_tokens === 0 ? undefined : { source: 'provider', tokens, at, item: history[at], items: at + 2 };
  }

  /**
   * Records that a history was replaced by a shorter one. The provider's earlier count stays the measure: only the
   * difference is estimated.
   */
  compacted(
    sessionId: string,
    before: ContextEstimate,
    old: readonly HistoryItem[],
    now: readonly HistoryItem[],
  ): void {
    const left = before.source === 'history' ? this.#fixed(sessionId) : before.tokens - this.tokensOf(old);
    const tokens = Math.max(0, left) + this.tokensOf(now);
    const at = now.length - 1;
    this.#session(sessionId).count = { source: 'compaction', tokens, at, item: now[at], items: now.length };
  }

  /** Returns the current context of a session. An empty conversation is 0, because nothing is sent. */
  estimate(sessionId: string, history: readonly HistoryItem[]): ContextEstimate {
    const { system, toolTokens, count } = this.#session(sessionId);
    const pinned = textTokens(system);
    const conversation = this.tokensOf(history);
    if (count === undefined || count.item === undefined || history[count.at] !== count.item) {
      const tokens = history.length === 0 ? 0 : pinned + conversation + toolTokens;
      return { tokens, source: 'history', breakdown: breakdownOf(pinned, conversation, toolTokens, 0) };
    }
    const tokens = count.tokens + this.tokensOf(history.slice(count.items));
    const overhead = tokens - pinned - conversation - toolTokens;
    return {
      tokens,
      source: count.source,
      breakdown:
        overhead >= 0
          ? breakdownOf(pinned, conversation, toolTokens, overhead)
          : breakdownOf(pinned, Math.max(0, conversation + overhead), toolTokens, 0),
    };
  }

  /** True when an estimate differs from the last emitted one. */
  isNews(sessionId: string, { tokens, source }: ContextEstimate): boolean {
    const session = this.#session(sessionId);
    const estimated = `${source} ${tokens}`;
    if (session.emitted === estimated) return false;
    session.emitted = estimated;
    return true;
  }

  /** Estimates the tokens of some items, estimated. */
  tokensOf(items: readonly HistoryItem[]): number {
    let sum = 0;
    for (const item of items) {
      let tokens = this.#items.get(item);
      if (tokens === undefined) {
        tokens = itemTokens(item);
        this.#items.set(item, tokens);
      }
      sum += tokens;
    }
    return sum;
  }

  /** Forgets a session that is closed. */
  forget(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }

  #fixed(sessionId: string): number {
    const { system, toolTokens } = this.#session(sessionId);
    return textTokens(system) + toolTokens;
  }

  #session(sessionId: string): Metered {
    const known = this.#sessions.get(sessionId);
    const session: Metered = known ?? { system: '', toolTokens: 0, count: undefined, emitted: '' };
    // The session used longest ago is estimated from its history, as after a restart.
    setNewest(this.#sessions, sessionId, session, MAX_METERED);
    return session;
  }
}

/** Returns the payload of `session.context.estimate`. */
export function estimatePayload(
  { tokens, source, breakdown }: ContextEstimate,
  provider: Provider | null,
  windowTokens: number,
): SessionEventPayloads['session.context.estimate'] {
  return { provider, source, total_tokens_estimate: tokens, breakdown, context_window_tokens: windowTokens };
}

const breakdownOf = (pinned: number, conversation: number, tools: number, overhead: number): ContextBreakdown => ({
  pinned_tokens: pinned,
  conversation_tokens: conversation,
  tool_schema_tokens: tools,
  provider_overhead_tokens: overhead,
});
