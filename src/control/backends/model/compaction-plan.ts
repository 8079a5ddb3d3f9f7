/**
 * Chooses the items of a history that are summed up and those that stay: pure, so that it can be tested without a model.
 *
 * Between turns everything is summed up, and the newest messages are quoted behind the summary. During a turn the turn
 * must be able to continue: its prompt and its newest rounds stay, calls with their results.
 */
import { boundedValue } from '../../../wire/bounded-value.ts';
import type { HistoryItem } from '../../contract/session-log.ts';

export const SUMMARY_HEADING = '## Conversation Summary';
const QUOTE_HEADING = '### Newest messages';

/** Stored with the summary in the history. */
interface SummaryMark {
  /** Items of the conversation that are only in the summary. */
  readonly anchor: number;
  /** ISO 8601. */
  readonly updated_at: string;
}

export interface CompactionPlan {
  /** Text of the summary that is already there. */
  readonly previous: string | undefined;
  /** The items that are summed up, oldest first. May be empty: then only the items that stay are shortened. */
  readonly summarised: readonly HistoryItem[];
  /** The items behind the summary. */
  readonly kept: readonly HistoryItem[];
  /** The newest messages, word for word; may be empty. */
  readonly quoted: string;
  readonly anchorBefore: number;
  readonly anchorAfter: number;
}

export interface PlanOptions {
  /** The running turn, whose items stay as far as they fit; undefined between turns. */
  readonly turnId?: string;
  /** Room for the items of the running turn that stay. */
  readonly keepTokens: number;
  /** Room for the quoted messages. */
  readonly quoteTokens: number;
  readonly tokensOf: (items: readonly HistoryItem[]) => number;
}

/** Smallest size a tool's result is cut to, in bytes of JSON. */
const MIN_RESULT_BYTES = 2_048;
/** Bytes of JSON of a token, approximately. */
const BYTES_PER_TOKEN = 4;

/** Returns the plan for a history; undefined when nothing could be made shorter. */
export function planCompaction(history: readonly HistoryItem[], options: PlanOptions): CompactionPlan | undefined {
  const first = history[0];
  const mark = first === undefined ? undefined : markOf(first);
  const previous = mark !== undefined && first?.role === 'assistant' ? first.text : undefined;
  const items = previous === undefined ? history : history.slice(1);
  const running = options.turnId === undefined ? -1 : items.findIndex(({ turn }) => turn === options.turnId);
  const anchorBefore = mark?.anchor ?? 0;
  if (running < 0) {
    if (items.length === 0) return undefined;
    const quoted = quote(items, options.quoteTokens, options.tokensOf);
    return { previous, summarised: items, kept: [], quoted, anchorBefore, anchorAfter: anchorBefore + items.length };
  }
  const { dropped, kept, shortened } = keepTurn(items.slice(running), options);
  const summarised = [...items.slice(0, running), ...dropped];
  if (summarised.length === 0 && !shortened) return undefined;
  return { previous, summarised, kept, quoted: '', anchorBefore, anchorAfter: anchorBefore + summarised.length };
}

/** Returns the number of items of the conversation that are only in the summary, which is its first item then. */
export function anchorOf(history: readonly HistoryItem[]): number {
  return history[0] === undefined ? 0 : (markOf(history[0])?.anchor ?? 0);
}

/** Returns the item that stands for everything up to the anchor. It belongs to no turn. */
export function summaryItem(summary: string, quoted: string, mark: SummaryMark): HistoryItem {
  const body = summary.trim().startsWith(SUMMARY_HEADING) ? summary.trim() : `${SUMMARY_HEADING}\n\n${summary.trim()}`;
  const text = quoted === '' ? body : `${body}\n\n${QUOTE_HEADING}\n\n${quoted}`;
  return { role: 'assistant', turn: '', text, providerData: { summary: mark } };
}

/** Summaries of saved chats have lost their mark, so the heading counts too. */
function markOf(item: HistoryItem): SummaryMark | undefined {
  if (item.role !== 'assistant' || !item.text.startsWith(SUMMARY_HEADING)) return undefined;
  const mark = item.providerData?.summary as Partial<SummaryMark> | undefined;
  return { anchor: typeof mark?.anchor === 'number' ? mark.anchor : 0, updated_at: mark?.updated_at ?? '' };
}

interface KeptTurn {
  readonly dropped: readonly HistoryItem[];
  readonly kept: readonly HistoryItem[];
  /** True when something that stays was cut. */
  readonly shortened: boolean;
}

/**
 * Returns the prompt and the newest rounds of a turn that fit; the last round stays in any case, with shorter results if need
 * be.
 */
function keepTurn(items: readonly HistoryItem[], { keepTokens, tokensOf }: PlanOptions): KeptTurn {
  const firstRound = items.findIndex(({ role }) => role === 'assistant');
  const prompt = firstRound < 0 ? items : items.slice(0, firstRound);
  const rounds = firstRound < 0 ? [] : roundsOf(items.slice(firstRound));
  let left = keepTokens - tokensOf(prompt);
  let from = rounds.length;
  while (from > 0) {
    const tokens = tokensOf(rounds[from - 1] as HistoryItem[]);
    if (tokens > left && from < rounds.length) break;
    left -= tokens;
    from -= 1;
  }
  const newest = rounds.slice(from).flat();
  const kept = left >= 0 ? newest : newest.map(shortenedResult(newest, keepTokens));
  const shortened = kept.some((item, at) => item !== newest[at]);
  return { dropped: rounds.slice(0, from).flat(), kept: [...prompt, ...kept], shortened };
}

/** Splits items into rounds: an assistant item, and everything until the next one. */
function roundsOf(items: readonly HistoryItem[]): HistoryItem[][] {
  const rounds: HistoryItem[][] = [];
  for (const item of items) {
    if (item.role === 'assistant') rounds.push([item]);
    else rounds.at(-1)?.push(item);
  }
  return rounds;
}

/** Cuts a tool's result to its share of the room. */
function shortenedResult(items: readonly HistoryItem[], keepTokens: number): (item: HistoryItem) => HistoryItem {
  const results = items.filter(({ role }) => role === 'tool').length;
  const maxBytes = Math.max(MIN_RESULT_BYTES, Math.floor((keepTokens * BYTES_PER_TOKEN) / Math.max(1, results)));
  return (item) => {
    if (item.role !== 'tool') return item;
    const { value, cut } = boundedValue(item.result, maxBytes);
    return cut ? { ...item, result: value } : item;
  };
}

/** Returns the newest messages, word for word, up to the limit. Tool calls are left to the summary. */
function quote(items: readonly HistoryItem[], room: number, tokensOf: PlanOptions['tokensOf']): string {
  const lines: string[] = [];
  let left = room;
  for (const item of items.toReversed()) {
    if (item.role === 'tool' || item.text === '') continue;
    left -= tokensOf([item]);
    if (left < 0) break;
    lines.unshift(`${item.role === 'user' ? 'User' : 'Assistant'}: ${item.text}`);
  }
  return lines.join('\n\n');
}
