/** Makes one result of several. Pure; the plugin calls the tool of the strategy `tool`. */
import { canonicalJson } from '../../base/canonical-json.ts';
import { failure } from './errors.ts';
import type { TaskEnd } from './task.ts';

type Result = Readonly<Record<string, unknown>>;

export type Strategy = 'concat' | 'vote' | 'first_success' | 'best_by_score';

/** The last end of a subagent; undefined: it had no task. */
export interface Ended {
  readonly id: string;
  readonly name: string;
  readonly end: TaskEnd | undefined;
  /** Order in which they ended, smaller first; 0: unknown. */
  readonly order: number;
}

export interface Merged {
  readonly result: Result | null;
  /** The subagents whose results are in it. */
  readonly from: readonly string[];
  readonly failed: readonly string[];
}

interface Done extends Ended {
  readonly result: Result;
  readonly score: number;
}

/** @param field the member of the results that votes compare; undefined: the whole result */
export function merge(ended: readonly Ended[], strategy: Strategy, field?: string): Merged {
  const done = completed(ended);
  const failed = ended.filter(({ id }) => !done.some((one) => one.id === id)).map(({ id }) => id);
  if (done.length === 0) return { result: null, from: [], failed };
  return { ...strategies[strategy](done, field), failed };
}

/** Returns the subagents with a result, in the given order. */
export function completed(ended: readonly Ended[]): readonly Done[] {
  return ended.flatMap((one) => {
    const { state, result, score = Number.NEGATIVE_INFINITY } = one.end ?? {};
    return state === 'COMPLETED' && result ? [{ ...one, result, score }] : [];
  });
}

/** Returns the vote of a result: the whole result, or one member of it; null: none. */
const choiceOf = ({ result }: Done, field = ''): unknown =>
  field === '' ? result : Object.hasOwn(result, field) ? (result[field] ?? null) : null;

const strategies: Readonly<Record<Strategy, (done: readonly Done[], field?: string) => Omit<Merged, 'failed'>>> = {
  /** Returns every result; if each has a summary, the summaries as one text, too. */
  concat(done) {
    const results = done.map(({ id, name, result }) => ({ subagent_id: id, name, result }));
    const summaries = done.flatMap(({ result: { summary } }) => (typeof summary === 'string' ? [summary] : []));
    const summary = summaries.length === done.length ? { summary: summaries.join('\n\n') } : {};
    return { result: { ...summary, results }, from: done.map(({ id }) => id) };
  },
  /**
   * Returns the commonest result; of several, the one given first. A result without the member, or with null there, has no
   * vote.
   */
  vote(done, field) {
    const counts = new Map<string, { readonly first: Done; readonly ids: string[] }>();
    const abstained: string[] = [];
    for (const one of done) {
      const choice = choiceOf(one, field);
      if (choice === null) {
        abstained.push(one.id);
        continue;
      }
      const key = canonicalJson(choice);
      const known = counts.get(key);
      if (known === undefined) counts.set(key, { first: one, ids: [one.id] });
      else known.ids.push(one.id);
    }
    const sorted = [...counts.values()].sort((a, b) => b.ids.length - a.ids.length);
    const [winner] = sorted;
    if (winner === undefined) {
      const message = `none of the ${done.length} results has a value in the member ${JSON.stringify(field)}: nothing to vote on`;
      throw failure('invalid', message, { field: 'field' });
    }
    const votes = sorted.map(({ first, ids }) => ({ votes: ids.length, result: first.result }));
    return {
      result: {
        ...winner.first.result,
        votes: winner.ids.length,
        of: done.length - abstained.length,
        counted: votes,
        ...(abstained.length > 0 && { abstained }),
      },
      from: winner.ids,
    };
  },
  first_success(done) {
    const first = done.reduce((best, one) => (one.order < best.order ? one : best));
    return { result: first.result, from: [first.id] };
  },
  /**
   * Returns the result with the highest score. A result without a score loses to any with one; of equal ones the first wins.
   */
  best_by_score(done) {
    const best = done.reduce((leading, one) => (one.score > leading.score ? one : leading));
    return { result: best.result, from: [best.id] };
  },
};
