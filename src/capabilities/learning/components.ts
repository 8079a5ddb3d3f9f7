/**
 * The records of components (tools, skills, models or prompts), by name: calls, durations, scores, and the weight that a
 * refinement gave them.
 *
 * Writes are collected by the caller's `atomically`.
 */
import type { Store } from '../../host/store/store.ts';
import { failure } from './errors.ts';
import type { ComponentPerformanceRecord } from './messages.ts';

/** A stored record. */
interface StoredComponent {
  readonly calls: number;
  readonly successes: number;
  /** Weighted scores and the sum of their weights. */
  readonly scores: number;
  readonly scoreWeights: number;
  readonly durations: number;
  readonly timed: number;
  /** The newest durations, milliseconds. */
  readonly recent: readonly number[];
  readonly lastCalled: number;
  readonly weight?: number;
}

/** One call of a component. */
export interface ComponentCall {
  readonly success: boolean;
  readonly reward: number;
  readonly durationMs?: number | undefined;
  /** Epoch seconds. */
  readonly at: number;
}

const NEW: StoredComponent = {
  calls: 0,
  successes: 0,
  scores: 0,
  scoreWeights: 0,
  durations: 0,
  timed: 0,
  recent: [],
  lastCalled: 0,
};
const MAX_RECENT = 128;
const COUNT_KEY = 'components';

export class Components {
  readonly #store: Store;
  readonly #most: number;

  constructor(store: Store, most: number) {
    this.#store = store;
    this.#most = most;
  }

  recordCall(name: string, { success, reward, durationMs, at }: ComponentCall): void {
    this.#change(name, (before) => ({
      ...before,
      calls: before.calls + 1,
      successes: before.successes + (success ? 1 : 0),
      scores: before.scores + Math.max(-1, Math.min(1, reward)),
      scoreWeights: before.scoreWeights + 1,
      lastCalled: Math.max(before.lastCalled, at),
      ...(durationMs !== undefined && {
        durations: before.durations + durationMs,
        timed: before.timed + 1,
        recent: [...before.recent, durationMs].slice(-MAX_RECENT),
      }),
    }));
  }

  recordScore(name: string, score: number, confidence: number): void {
    this.#change(name, (before) => ({
      ...before,
      scores: before.scores + score * confidence,
      scoreWeights: before.scoreWeights + confidence,
    }));
  }

  weightOf(name: string): number | undefined {
    return this.#read(name)?.weight;
  }

  /** Sets the weight of a component, or removes it. */
  setWeight(name: string, weight: number | undefined): void {
    this.#change(name, ({ weight: _, ...before }) => (weight === undefined ? before : { ...before, weight }));
  }

  get(name: string): ComponentPerformanceRecord | undefined {
    const stored = this.#read(name);
    return stored && recordOf(name, stored);
  }

  /** Returns all records by name. Not inside `atomically`. */
  list(): ComponentPerformanceRecord[] {
    const found = this.#store.list<StoredComponent>({ prefix: 'component/', limit: this.#most });
    return found.map(({ key, value }) => recordOf(key.slice('component/'.length), value));
  }

  #read(name: string): StoredComponent | undefined {
    return this.#store.get<StoredComponent>(`component/${name}`);
  }

  #change(name: string, change: (before: StoredComponent) => StoredComponent): void {
    const before = this.#read(name);
    if (before === undefined) {
      const count = this.#store.get<number>(COUNT_KEY) ?? 0;
      if (count >= this.#most) {
        throw failure('full', `there are records of ${count} components already`, { limit: 'max_components' });
      }
      void this.#store.set(COUNT_KEY, count + 1);
    }
    void this.#store.set(`component/${name}`, change(before ?? NEW));
  }
}

function recordOf(name: string, stored: StoredComponent): ComponentPerformanceRecord {
  const sorted = stored.recent.toSorted((left, right) => left - right);
  return {
    component_name: name,
    calls_total: stored.calls,
    calls_success: stored.successes,
    calls_failed: stored.calls - stored.successes,
    avg_duration_ms: stored.timed === 0 ? 0 : stored.durations / stored.timed,
    avg_score: stored.scoreWeights === 0 ? 0 : stored.scores / stored.scoreWeights,
    last_called: stored.lastCalled,
    p95_duration_ms: sorted[Math.ceil(sorted.length * 0.95) - 1] ?? 0,
    weight: stored.weight ?? null,
  };
}
