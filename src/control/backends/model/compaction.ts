/**
 * Makes room in the context of a session: sums up old items with the model itself and puts the summary in their place. The
 * conversation that the user sees is not touched; every step is an event.
 *
 * It runs before a turn, by `/compress`, when the provider changes, and in the middle of a turn whose rounds have filled the
 * context.
 * @see docs/protocol/session-rpc.md#turns
 */
import { asError, fail } from '../../../wire/errors.ts';
import type { Compaction } from '../../contract/backend.ts';
import type { HistoryItem, SessionLog } from '../../contract/session-log.ts';
import { anchorOf, planCompaction, summaryItem } from './compaction-plan.ts';
import { type ContextMeter, contextLimit } from './context.ts';
import { type SummaryOptions, sumUp } from './summary.ts';

export interface CompactionOptions {
  readonly log: SessionLog;
  readonly meter: ContextMeter;
  readonly reason: Compaction['reason'];
  readonly windowTokens: number;
  /** The turn the events belong to; undefined for `/compress` on an idle session. */
  readonly turnId: string | undefined;
  readonly ask: SummaryOptions['ask'];
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Compresses however small the context is. Default: only `auto` checks its size. */
  readonly always?: boolean;
}

/** Share of a window for the rounds that stay in the middle of a turn. */
const KEEP_SHARE = 0.3;
/** Room for the newest messages, word for word. */
const QUOTE_SHARE = 0.1;
const MAX_QUOTE_TOKENS = 4_000;

/**
 * Compresses the history when it has a reason to and something to compress; resolves with the result. Rejects as the request
 * for the summary does, after `compaction.failed`; nothing is changed then.
 */
export async function compactHistory(options: CompactionOptions): Promise<Compaction> {
  const { log, meter, reason, windowTokens, turnId, now } = options;
  const { id } = log.record;
  // The session's own list grows in place.
  const history = [...log.record.history];
  const estimated = meter.estimate(id, history);
  const before = estimated.tokens;
  const limit = contextLimit(windowTokens);
  const numbers = { model_context_window: windowTokens, target_limit: limit };
  const plan = planFor(history, before, limit, options);
  if (plan === undefined) return notCompressed(history, reason, before, numbers);
  const { anchorBefore, anchorAfter, summarised, previous, quoted, kept } = plan;
  const anchors = { anchor_event_index_before: anchorBefore, anchor_event_index_after: anchorAfter };
  const started = {
    reason,
    anchor_event_index_before: anchorBefore,
    event_count: anchorBefore + history.length - (previous === undefined ? 0 : 1),
    context_window_tokens: windowTokens,
  };
  log.emit('compaction.started', started, turnId);
  log.emit('compaction.anchor_selected', { reason, ...anchors, delta_event_count: anchorAfter - anchorBefore }, turnId);
  const summary = await summaryFor(plan, history, options);
  const updatedAt = new Date(now()).toISOString();
  const old = [...log.record.history];
  const items = [...kept, ...old.slice(history.length)];
  const mark = { anchor: anchorAfter, updated_at: updatedAt };
  log.remember(summary === undefined ? items : [summaryItem(summary, quoted, mark), ...items], 'replace');
  if (summarised.length > 0) {
    const merged = { summary_updated_at: updatedAt, anchor_event_index_after: anchorAfter };
    log.emit('compaction.summary_merged', merged, turnId);
  }
  meter.compacted(id, estimated, old, log.record.history);
  const after = meter.estimate(id, log.record.history).tokens;
  const done: Compaction = {
    compressed: true,
    reason,
    estimated_tokens_before: before,
    estimated_tokens_after: after,
    ...numbers,
    ...anchors,
  };
  log.emit('compaction.completed', { ...done, high_watermark_limit: limit }, turnId);
  log.appendMessage('system', `context compressed: about ${before} tokens before, ${after} now`, turnId);
  return done;
}

/** Plans a compaction; undefined without a reason to compress, or with nothing to compress. */
function planFor(history: readonly HistoryItem[], tokens: number, limit: number, options: CompactionOptions) {
  const { meter, reason, windowTokens, turnId, always } = options;
  if (reason === 'auto' && !always && tokens <= limit) return undefined;
  return planCompaction(history, {
    turnId,
    keepTokens: Math.floor(windowTokens * KEEP_SHARE),
    // A short conversation is not made longer by quoting it.
    quoteTokens: Math.min(MAX_QUOTE_TOKENS, Math.floor(windowTokens * QUOTE_SHARE), Math.floor(tokens / 4)),
    tokensOf: (items) => meter.tokensOf(items),
  });
}

function notCompressed(
  history: readonly HistoryItem[],
  reason: Compaction['reason'],
  tokens: number,
  numbers: Pick<Compaction, 'model_context_window' | 'target_limit'>,
): Compaction {
  const anchor = anchorOf(history);
  return {
    compressed: false,
    reason,
    estimated_tokens_before: tokens,
    estimated_tokens_after: tokens,
    ...numbers,
    anchor_event_index_before: anchor,
    anchor_event_index_after: anchor,
  };
}

/** Returns the new summary; the previous one where only the turn was shortened. Emits `compaction.failed` before it rejects. */
async function summaryFor(
  { summarised, previous }: NonNullable<ReturnType<typeof planFor>>,
  history: readonly HistoryItem[],
  { log, reason, windowTokens, turnId, ask }: CompactionOptions,
): Promise<string | undefined> {
  try {
    const summary =
      summarised.length === 0 ? previous : await sumUp({ previous, items: summarised, windowTokens, ask });
    if (log.record.history[history.length - 1] === history.at(-1)) return summary;
    throw fail('runtime_error', 'the conversation was changed while it was summarised');
  } catch (thrown) {
    const error = asError(thrown);
    log.emit('compaction.failed', { reason, message: error.message }, turnId);
    throw error;
  }
}
