/**
 * Makes room in the context of a session: sums up what is old with the model itself and puts the summary in its place.
 * What the user sees is not touched; every step is an event.
 *
 * Called by `model-backend.ts`: before a turn, by `/compress`, when the provider changes, and in the middle of a turn
 * whose rounds have filled the context.
 * @see docs/protocol/session-rpc.md#turns
 */
import { asError, fail } from '../../../wire/errors.ts';
import type { Compaction } from '../../contract/backend.ts';
import type { SessionLog } from '../../contract/session-log.ts';
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
 * Compresses the history when there is reason and something to compress; resolves with the result. Rejects as the request for
 * the summary does, after `compaction.failed`; nothing is changed then.
 */
export async function compactHistory(options: CompactionOptions): Promise<Compaction> {
  const { log, meter, reason, windowTokens, turnId, now } = options;
  const { id } = log.record;
  // The session's own list grows in place.
  const history = [...log.record.history];
  const estimated = meter.estimate(id, history);
  const before = estimated.tokens;
  const limit = contextLimit(windowTokens);
  const plan =
    reason === 'auto' && !options.always && before <= limit
      ? undefined
      : planCompaction(history, {
          turnId,
          keepTokens: Math.floor(windowTokens * KEEP_SHARE),
          // A short conversation is not made longer by quoting it.
          quoteTokens: Math.min(MAX_QUOTE_TOKENS, Math.floor(windowTokens * QUOTE_SHARE), Math.floor(before / 4)),
          tokensOf: (items) => meter.tokensOf(items),
        });
  const numbers = { model_context_window: windowTokens, target_limit: limit };
  if (plan === undefined) {
    const anchor = anchorOf(history);
    return {
      compressed: false,
      reason,
      estimated_tokens_before: before,
      estimated_tokens_after: before,
      ...numbers,
      anchor_event_index_before: anchor,
      anchor_event_index_after: anchor,
    };
  }
  const { anchorBefore, anchorAfter, summarised, previous, quoted, kept } = plan;
  const anchors = { anchor_event_index_before: anchorBefore, anchor_event_index_after: anchorAfter };
  log.emit(
    'compaction.started',
    {
      reason,
      anchor_event_index_before: anchorBefore,
      event_count: anchorBefore + history.length - (previous === undefined ? 0 : 1),
      context_window_tokens: windowTokens,
    },
    turnId,
  );
  log.emit('compaction.anchor_selected', { reason, ...anchors, delta_event_count: anchorAfter - anchorBefore }, turnId);
  let summary: string | undefined;
  try {
    summary =
      summarised.length === 0 ? previous : await sumUp({ previous, items: summarised, windowTokens, ask: options.ask });
    if (log.record.history[history.length - 1] !== history.at(-1)) {
      throw fail('runtime_error', 'the conversation was changed while it was summed up');
    }
  } catch (thrown) {
    const error = asError(thrown);
    log.emit('compaction.failed', { reason, message: error.message }, turnId);
    throw error;
  }
  const updatedAt = new Date(now()).toISOString();
  const mark = { anchor: anchorAfter, updated_at: updatedAt };
  const old = [...log.record.history];
  const items = [...kept, ...old.slice(history.length)];
  log.remember(summary === undefined ? items : [summaryItem(summary, quoted, mark), ...items], 'replace');
  if (summarised.length > 0) {
    log.emit(
      'compaction.summary_merged',
      { summary_updated_at: updatedAt, anchor_event_index_after: anchorAfter },
      turnId,
    );
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
