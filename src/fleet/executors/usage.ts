/**
 * Token accounting: the usage of a turn, from the program's own records in its output. A model's claim is never used.
 *
 * Each command-line adapter feeds a meter line by line while the program runs. `input` excludes cached tokens. Cache reads are
 * reported beside the spent tokens and count as spent only if configured, because with caching even a small job re-reads tens
 * of thousands of tokens.
 * @see docs/fleet.md#tokens
 */
import type { Usage } from '../../protocol/fleet.ts';
import { type Frame, objectOf, textOf } from './programs/frame.ts';

/** Usage without a record. It is unknown and not zero. */
export const UNKNOWN_USAGE: Usage = Object.freeze({ source: 'unknown' });

/** Counters of a codex thread since its start, as codex writes them. */
export interface CodexCounters {
  readonly input_tokens: number;
  readonly cached_input_tokens: number;
  readonly output_tokens: number;
}

/** Returns the tokens of a usage that count against a budget; null where nothing was recorded. */
export function tokensSpent(usage: Usage, countCacheReads = false): number | null {
  if (usage.source === 'unknown') return null;
  const { input = 0, output = 0, reasoning = 0, cache_read = 0, cache_write = 0 } = usage;
  return input + cache_write + output + reasoning + (countCacheReads ? cache_read : 0);
}

const count = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.floor(value) : 0;

const cost = (value: unknown): { cost_usd?: number } =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? { cost_usd: value } : {};

interface Sum {
  readonly input: number;
  readonly output: number;
  readonly reasoning: number;
  readonly cache_read: number;
  readonly cache_write: number;
}

const NOTHING: Sum = { input: 0, output: 0, reasoning: 0, cache_read: 0, cache_write: 0 };

const plus = (one: Sum, other: Sum): Sum => ({
  input: one.input + other.input,
  output: one.output + other.output,
  reasoning: one.reasoning + other.reasoning,
  cache_read: one.cache_read + other.cache_read,
  cache_write: one.cache_write + other.cache_write,
});

/** Counts of the messages API; its input excludes both caches. */
const claudeSum = (usage: Frame): Sum => ({
  ...NOTHING,
  input: count(usage.input_tokens),
  output: count(usage.output_tokens),
  cache_read: count(usage.cache_read_input_tokens),
  cache_write: count(usage.cache_creation_input_tokens),
});

/** The last `result` frame has the usage of the turn with its sub-agents; assistant frames only show progress. */
export class ClaudeMeter {
  #result: Usage | undefined;
  /** Sums by message id: a message spans several frames, and each has its total usage. */
  readonly #messages = new Map<string, Sum>();

  add(frame: Frame): void {
    if (frame.type === 'result') this.#result = resultUsage(frame) ?? this.#result;
    else if (frame.type === 'assistant') this.#message(objectOf(frame.message));
  }

  /** Returns usage by the program's own final record; unknown before it. */
  total(): Usage {
    return this.#result ?? UNKNOWN_USAGE;
  }

  /** Returns a lower bound of the usage while the turn runs. */
  soFar(): Usage {
    if (this.#result !== undefined) return this.#result;
    if (this.#messages.size === 0) return UNKNOWN_USAGE;
    return { source: 'measured', ...[...this.#messages.values()].reduce(plus, NOTHING) };
  }

  #message(message: Frame | undefined): void {
    const usage = objectOf(message?.usage);
    if (usage !== undefined) this.#messages.set(textOf(message?.id) || String(this.#messages.size), claudeSum(usage));
  }
}

function resultUsage(frame: Frame): Usage | undefined {
  const models = Object.values(objectOf(frame.modelUsage) ?? {})
    .map(objectOf)
    .filter((one) => one !== undefined);
  const usage = objectOf(frame.usage);
  if (models.length === 0 && usage === undefined) return undefined;
  const sums = models.map(
    (one): Sum => ({
      ...NOTHING,
      input: count(one.inputTokens),
      output: count(one.outputTokens),
      cache_read: count(one.cacheReadInputTokens),
      cache_write: count(one.cacheCreationInputTokens),
    }),
  );
  const sum = sums.length > 0 ? sums.reduce(plus) : claudeSum(usage as Frame);
  return { source: 'measured', ...sum, ...cost(frame.total_cost_usd) };
}

/** The counters belong to the thread; the usage of a turn is their difference from the stored baseline. */
export class CodexMeter {
  readonly #before: CodexCounters;
  #now: CodexCounters | undefined;

  constructor(previous: Partial<CodexCounters> | null) {
    this.#before = countersOf(previous ?? {});
  }

  add(frame: Frame): void {
    const usage = frame.type === 'turn.completed' ? objectOf(frame.usage) : undefined;
    if (usage !== undefined) this.#now = countersOf(usage);
  }

  /** The current counters of the thread; undefined before its first report. */
  get counters(): CodexCounters | undefined {
    return this.#now;
  }

  /** True when the counters are below the baseline: the thread was restarted, and the difference is not exact. */
  get restarted(): boolean {
    const [now, before] = [this.#now, this.#before];
    return now !== undefined && (now.input_tokens < before.input_tokens || now.output_tokens < before.output_tokens);
  }

  total(): Usage {
    if (this.#now === undefined) return UNKNOWN_USAGE;
    const since = (name: keyof CodexCounters): number =>
      Math.max(0, (this.#now as CodexCounters)[name] - this.#before[name]);
    const cached = since('cached_input_tokens');
    return {
      source: 'measured',
      ...NOTHING,
      input: Math.max(0, since('input_tokens') - cached),
      output: since('output_tokens'),
      cache_read: cached,
    };
  }
}

/** Reads written or stored counters; a missing one is 0. */
export const countersOf = (value: Partial<Record<keyof CodexCounters, unknown>>): CodexCounters => ({
  input_tokens: count(value.input_tokens),
  cached_input_tokens: count(value.cached_input_tokens),
  output_tokens: count(value.output_tokens),
});

/** Sums the counts at the end of every step; `output` does not include reasoning. */
export class OpencodeMeter {
  #sum: Sum | undefined;
  #cost: number | undefined;

  add(frame: Frame): void {
    const part = frame.type === 'step_finish' ? objectOf(frame.part) : undefined;
    const tokens = objectOf(part?.tokens);
    if (tokens === undefined) return;
    const cache = objectOf(tokens.cache);
    const step: Sum = {
      input: count(tokens.input),
      output: count(tokens.output),
      reasoning: count(tokens.reasoning),
      cache_read: count(cache?.read),
      cache_write: count(cache?.write),
    };
    this.#sum = plus(this.#sum ?? NOTHING, step);
    const { cost_usd } = cost(part?.cost);
    if (cost_usd !== undefined) this.#cost = (this.#cost ?? 0) + cost_usd;
  }

  total(): Usage {
    if (this.#sum === undefined) return UNKNOWN_USAGE;
    return { source: 'measured', ...this.#sum, ...cost(this.#cost) };
  }
}
