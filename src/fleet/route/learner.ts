/**
 * Lets the outcomes of tasks choose among workers that the score holds for nearly equal (`routing.learn: true`).
 *
 * Its influence is bounded: it chooses only among verified workers, or only among unverified ones, within {@link BAND} points
 * of the best score, and never one that a requirement left out. Thompson sampling with a generator seeded by the name of the
 * orchestrator. Without it a decision costs nothing more.
 *
 * Stored as the learning capability stores its choices. A decision is an attempt of a task, an outcome its end: the learned
 * facts of an attempt are on disk before the record of its task, together with a note of it that is removed after the record
 * was stored. So after `kill -9` the same attempt gets the same worker again, and its outcome counts once.
 * @see docs/fleet.md#routing
 */
import { Bandit } from '../../base/bandits/bandit.ts';
import { seeded } from '../../base/bandits/random.ts';
import { type Pairs, pairsBelow, StoredBandits } from '../../base/bandits/stored.ts';
import type { Learned, Ranked } from './profile.ts';

/** Points below the best score, of 1000, within which workers count as equally suitable. */
const BAND = 50;
/** Workers it chooses among. */
const MOST = 8;
/** With it, decisions stay uniform now and then, so that a worker that was bad once is tried again. */
const POLICY = { name: 'thompson_beta', explore: 0.02 } as const;
/** Maximum number of workers whose outcomes are stored; for one more, the one with the fewest is removed. */
const MAX_WORKERS = 10_000;
/** The name of its bandit in the store. */
const WORKERS = 'workers';
const NOTE = 'attempt/';

/** One attempt of a task. */
export interface LearnedAttempt {
  readonly taskId: string;
  readonly attempt: number;
}

/** Learned facts of an attempt whose record may not be on disk. */
interface Note {
  readonly attempt: number;
  /** The workers it chose among, in the order of their scores, and the one it chose. */
  readonly decided?: { readonly options: readonly string[]; readonly chosen: string };
  /** Its outcome was counted. */
  readonly counted?: true;
}

/** Changes that were not written yet. */
interface Changes {
  head: boolean;
  readonly workers: Set<string>;
  readonly notes: Set<string>;
}

const nothing = (): Changes => ({ head: false, workers: new Set(), notes: new Set() });

export class RouteLearner {
  readonly #pairs: Pairs | undefined;
  readonly #bandit: Bandit;
  /** Notes by task. */
  readonly #notes = new Map<string, Note>();
  #changes = nothing();
  readonly #writing = new Set<Promise<void>>();

  /**
   * @param seed of its generator, where nothing is stored
   * @param pairs the choices it learned before are read from them; without them it ends with the process
   */
  constructor(seed: string, pairs?: Pairs) {
    this.#pairs = pairs;
    const stored = pairs && new StoredBandits(pairs);
    const head = { random: seeded(seed), steps: 0, ...stored?.head(WORKERS), policy: POLICY };
    this.#bandit = stored?.restore(WORKERS, head, stored.options(WORKERS)) ?? new Bandit(head);
    for (const { key, value } of pairs === undefined ? [] : pairsBelow<Note>(pairs, NOTE)) {
      this.#notes.set(key.slice(NOTE.length), value);
    }
  }

  /** Chooses one of the ranked workers; undefined: nothing to choose. The first one is the best by score. */
  choose(
    ranking: readonly Ranked[],
    isAlike: (agentId: string) => boolean,
    attempt?: LearnedAttempt,
  ): Learned | undefined {
    const options = candidates(ranking, isAlike);
    if (options.length < 2) return undefined;
    const before = this.#noteOf(attempt)?.decided;
    const repeated = before !== undefined && isSame(before.options, options);
    const { option, probabilities } = repeated
      ? { option: before.chosen, probabilities: this.#bandit.probabilities({ options }) }
      : this.#bandit.decide({ options });
    if (!repeated) this.#changes.head = true;
    if (attempt !== undefined) this.#note(attempt, { decided: { options, chosen: option } });
    return this.#learned(options, probabilities, option);
  }

  /** Returns the choice it would make, without a decision. */
  preview(ranking: readonly Ranked[], isAlike: (agentId: string) => boolean): Learned | undefined {
    const options = candidates(ranking, isAlike);
    return options.length < 2 ? undefined : this.#learned(options, this.#bandit.probabilities({ options }));
  }

  /** Learns that an attempt of a worker succeeded or failed. The second outcome of one attempt is not counted. */
  learn(agentId: string, ok: boolean, attempt?: LearnedAttempt): void {
    if (this.#noteOf(attempt)?.counted) return;
    this.#makeRoom(agentId);
    this.#bandit.learn(agentId, ok ? 1 : 0);
    this.#changes.head = true;
    this.#changes.workers.add(agentId);
    if (attempt !== undefined) this.#note(attempt, { counted: true });
  }

  /**
   * Stores the learned facts of a task, and then its record with `put`. Rejects with the error of either; facts that could not
   * be stored are stored with the next record.
   */
  async before<Stored>(taskId: string, put: () => Promise<Stored>): Promise<Stored> {
    const note = this.#notes.get(taskId);
    if (note === undefined || this.#pairs === undefined) return put();
    this.#write(this.#pairs);
    await Promise.all(this.#writing);
    const stored = await put();
    // A newer note is about a newer record.
    if (this.#notes.get(taskId) === note) this.#removeNote(taskId);
    return stored;
  }

  /** Removes the attempts of tasks that ended, which an earlier process left. */
  retain(isOpen: (taskId: string) => boolean): void {
    for (const taskId of this.#notes.keys()) if (!isOpen(taskId)) this.#removeNote(taskId);
  }

  #noteOf(attempt: LearnedAttempt | undefined): Note | undefined {
    const note = attempt && this.#notes.get(attempt.taskId);
    return note?.attempt === attempt?.attempt ? note : undefined;
  }

  #note(attempt: LearnedAttempt, more: Omit<Note, 'attempt'>): void {
    if (this.#pairs === undefined) return;
    this.#notes.set(attempt.taskId, { ...this.#noteOf(attempt), attempt: attempt.attempt, ...more });
    this.#changes.notes.add(attempt.taskId);
  }

  #removeNote(taskId: string): void {
    this.#notes.delete(taskId);
    this.#changes.notes.add(taskId);
  }

  #makeRoom(agentId: string): void {
    if (this.#bandit.totals(agentId).count > 0) return;
    const { options } = this.#bandit;
    if (options.length < MAX_WORKERS) return;
    const countOf = (option: string): number => this.#bandit.totals(option).count;
    const fewest = options.reduce((least, option) => (countOf(option) < countOf(least) ? option : least));
    this.#bandit.forget(fewest);
    this.#changes.workers.add(fewest);
  }

  /** Writes all changes, together; they are changes again where that fails. */
  #write(pairs: Pairs): void {
    const { head, workers, notes } = this.#changes;
    if (!head && workers.size === 0 && notes.size === 0) return;
    this.#changes = nothing();
    const stored = new StoredBandits(pairs);
    const written = pairs.atomically(() => {
      if (head) stored.setHead(WORKERS, this.#bandit.head);
      for (const worker of workers) stored.setArm(WORKERS, worker, this.#bandit.savedArm(worker));
      for (const taskId of notes) {
        const note = this.#notes.get(taskId);
        void (note === undefined ? pairs.delete(NOTE + taskId) : pairs.set(NOTE + taskId, note));
      }
    });
    const done = (): boolean => this.#writing.delete(written);
    const failed = (): void => {
      done();
      this.#changes.head ||= head;
      for (const worker of workers) this.#changes.workers.add(worker);
      for (const taskId of notes) this.#changes.notes.add(taskId);
    };
    this.#writing.add(written);
    written.then(done, failed);
  }

  #learned(options: readonly string[], probabilities: ArrayLike<number>, chosen?: string): Learned {
    const outcomes = options.map((option) => {
      const { count, sum } = this.#bandit.totals(option);
      return [option, { attempts: count, succeeded: sum }] as const;
    });
    return {
      best_by_score: options[0]!,
      probabilities: Object.fromEntries(options.map((option, at) => [option, probabilities[at]!])),
      outcomes: Object.fromEntries(outcomes),
      ...(chosen !== undefined && { chosen }),
    };
  }
}

function candidates(ranking: readonly Ranked[], isAlike: (agentId: string) => boolean): string[] {
  const least = (ranking[0]?.score ?? 0) - BAND;
  const found = ranking.filter(({ agent_id, score }) => score >= least && isAlike(agent_id));
  return found.slice(0, MOST).map(({ agent_id }) => agent_id);
}

/** Returns whether two lists have the same names, in any order. */
const isSame = (before: readonly string[], now: readonly string[]): boolean =>
  before.length === now.length && now.every((option) => before.includes(option));
