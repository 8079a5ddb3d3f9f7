/**
 * Bandits in a store of pairs: one pair for the policy with its generator, one for each option. So a decision writes
 * one small pair and a reward two, and the caller's other writes in the same `atomically` become durable together with
 * them.
 *
 * Nothing is held in memory between calls.
 */
import { Bandit, type SavedArm, type SavedBandit, type SavedHead } from './bandit.ts';

/** A store that holds bandits, e.g. the store of a plugin. */
export interface Pairs {
  get<T = unknown>(key: string): T | undefined;
  /** Pairs in the order of their keys. */
  list<T = unknown>(page: {
    readonly prefix: string;
    readonly after?: string;
    readonly limit: number;
  }): readonly { readonly key: string; readonly value: T }[];
  set(key: string, value: unknown): Promise<void>;
  delete(key: string): Promise<void>;
  /** Makes all writes of `work`, which must not wait, durable together or not at all. */
  atomically<Result>(work: () => Result): Promise<Result>;
}

const PAGE = 1000;

/** Yields every pair under a prefix, after a key, read in pages. Not inside `atomically`. */
export function* pairsBelow<T>(
  pairs: Pairs,
  prefix: string,
  after = prefix,
): Generator<{ readonly key: string; readonly value: T }> {
  for (let last = after; ; ) {
    const page = pairs.list<T>({ prefix, after: last, limit: PAGE });
    yield* page;
    if (page.length < PAGE) return;
    last = page.at(-1)!.key;
  }
}

export class StoredBandits {
  readonly #pairs: Pairs;

  constructor(pairs: Pairs) {
    this.#pairs = pairs;
  }

  head(name: string): SavedHead | undefined {
    return this.#pairs.get(headKey(name));
  }

  /** Restores a bandit with the stored rewards of these options. */
  restore(name: string, head: SavedHead, options: readonly string[]): Bandit {
    const arms = options.map((option) => [option, this.#pairs.get<SavedArm>(armKey(name, option))] as const);
    return new Bandit(
      head,
      arms.filter((entry): entry is readonly [string, SavedArm] => entry[1] !== undefined),
    );
  }

  /** Returns every option with stored rewards. Not inside `atomically`. */
  options(name: string): string[] {
    const prefix = `${armKey(name).slice(0, -1)},`;
    const found = Array.from(pairsBelow(this.#pairs, prefix), ({ key }) => key.slice('arm/'.length));
    return found.map((key) => (JSON.parse(key) as [string, string])[1]);
  }

  setHead(name: string, head: SavedHead): void {
    void this.#pairs.set(headKey(name), head);
  }

  /** Stores an arm; without an arm, removes it. */
  setArm(name: string, option: string, arm: SavedArm | undefined): void {
    if (arm === undefined) void this.#pairs.delete(armKey(name, option));
    else void this.#pairs.set(armKey(name, option), arm);
  }

  /** Replaces the stored bandit, which has at most these options, by a saved one. */
  replace(name: string, { arms, ...head }: SavedBandit, options: readonly string[]): void {
    this.setHead(name, head);
    for (const option of options) if (!Object.hasOwn(arms, option)) this.setArm(name, option, undefined);
    for (const [option, arm] of Object.entries(arms)) this.setArm(name, option, arm);
  }

  /** Returns the keys of all stored pairs of a bandit with these options. */
  keys(name: string, options: readonly string[]): string[] {
    return [headKey(name), ...options.map((option) => armKey(name, option))];
  }
}

const headKey = (name: string): string => `head/${name}`;

const armKey = (...names: [bandit: string, option?: string]): string => `arm/${JSON.stringify(names)}`;
