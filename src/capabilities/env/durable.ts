/**
 * Episodes that outlive their session and their host: their records, and how they continue. In the mode `step` every step is on
 * disk before its reply, and an episode continues by replaying its seed and actions; in the mode `episode` only ended episodes
 * are stored, and episodes that ran when the host ended are reported as interrupted.
 *
 * Records belong to principal and agent; they lie in the store of the plugin.
 */
import type { Store } from '../../host/store/store.ts';
import type { JsonObject } from '../../wire/json.ts';
import type { EnvObservation } from './env.schema.ts';
import type { Autoreset, Environment } from './environment.ts';
import { environmentFailed, limitReached } from './refusals.ts';
import type { StoredTransition } from './trajectory.ts';

/** The data that outlives the host. `none`: nothing. `episode`: episodes that have ended. `step`: every step. */
export type Durability = 'none' | 'episode' | 'step';

export const DURABILITIES: readonly Durability[] = ['none', 'episode', 'step'];

/** The state of an episode's generator before its reset. */
export type Origin = { readonly seed: number } | { readonly snapshot: JsonObject } | { readonly generator: string };

/** One stored step, with the start that it led to by an autoreset; only that start if the action was ignored. */
export interface StoredStep extends Partial<StoredTransition> {
  readonly started?: { readonly state: JsonObject };
}

/** The stored data of an episode beside its steps. */
export interface EpisodeRecord {
  readonly id: string;
  readonly env_name: string;
  readonly make: JsonObject;
  readonly reset_options: JsonObject;
  readonly durability: Durability;
  /** Absent: `disabled`. */
  readonly autoreset?: Autoreset;
  readonly origin: Origin;
  readonly status: 'running' | 'ended';
  /** The state of a nondeterministic environment: it continues from there, without a replay. */
  readonly snapshot?: JsonObject;
  /** The first observation. */
  readonly first: EnvObservation;
  /** Epoch milliseconds. */
  readonly started_at: number;
}

const keyOf = (id: string): string => `episode/${id}`;
const tableOf = (id: string): string => `steps-${id}`;
/** Steps read at a time. */
const PAGE = 500;

/** The records of one agent. */
export class EpisodeStore {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  record(id: string): EpisodeRecord | undefined {
    return id.length <= 64 && /^[\w-]+$/.test(id) ? this.#store.get<EpisodeRecord>(keyOf(id)) : undefined;
  }

  /** Returns the newest records, in the order of their start. */
  records(limit: number): EpisodeRecord[] {
    const found = this.#store.list<EpisodeRecord>({ prefix: keyOf(''), limit: 10_000 }).map(({ value }) => value);
    return found.sort((a, b) => a.started_at - b.started_at).slice(-limit);
  }

  /** Writes the start of an episode. If `limit` episodes are stored, removes the oldest that has ended, or refuses. */
  async start(record: EpisodeRecord, limit: number, onRemoved: (id: string) => void): Promise<void> {
    const all = this.records(10_000);
    const ends = all.filter(({ status }) => status === 'ended').values();
    for (let tooMany = all.length - limit + 1; tooMany > 0; tooMany--) {
      const { value: ended } = ends.next();
      if (ended === undefined) {
        throw limitReached(`${limit} durable episodes are running; close some with env/close/req`, { limit });
      }
      await this.remove(ended.id);
      onRemoved(ended.id);
    }
    await this.#store.set(keyOf(record.id), record);
  }

  /** Writes one step, with the other changes of the record: the end of the episode, or the state of the environment. */
  async step(
    id: string,
    step: StoredStep,
    changes: Pick<EpisodeRecord, 'snapshot'> & { status?: 'ended' },
  ): Promise<void> {
    await this.#store.atomically(() => {
      void this.#store.rows<StoredStep>(tableOf(id)).insert(step);
      if (Object.keys(changes).length > 0) this.#change(id, changes);
    });
  }

  /** Writes an episode that has ended. */
  async ended(id: string, transitions: readonly StoredTransition[]): Promise<void> {
    await this.#store.atomically(() => {
      for (const transition of transitions) void this.#store.rows<StoredTransition>(tableOf(id)).insert(transition);
      this.#change(id, { status: 'ended' });
    });
  }

  #change(id: string, changes: Partial<EpisodeRecord>): void {
    const record = this.record(id);
    if (record !== undefined) void this.#store.set(keyOf(id), { ...record, ...changes });
  }

  *steps(id: string): Generator<StoredStep, void> {
    const rows = this.#store.rows<StoredStep>(tableOf(id));
    for (let after = 0; ; ) {
      const page = rows.list({ after, limit: PAGE });
      for (const { row } of page) yield row;
      if (page.length < PAGE) return;
      after = page.at(-1)?.id ?? after;
    }
  }

  async remove(id: string): Promise<void> {
    const rows = this.#store.rows<StoredTransition>(tableOf(id));
    await this.#store.delete(keyOf(id));
    for (let page = rows.list({ limit: PAGE }); page.length > 0; page = rows.list({ limit: PAGE })) {
      await Promise.all(page.map((row) => rows.delete(row.id)));
    }
  }
}

/** Restores the state of an environment's generator before an episode, and returns the seed of the reset. */
export async function prepareReplay(environment: Environment, origin: Origin): Promise<number | null> {
  if ('seed' in origin) return origin.seed;
  if ('snapshot' in origin) await environment.restore?.(origin.snapshot);
  else await environment.continueFrom?.(origin.generator);
  return null;
}

/** Compares the result of a replay with the stored one. Throws `runtime_error` with `detail.reason` `diverged` and the step. */
export function mustEqual(step: number, name: string, expected: unknown, got: unknown): void {
  const [stored, replayed] = [JSON.stringify(expected), JSON.stringify(got)];
  if (stored === replayed) return;
  throw environmentFailed(
    'diverged',
    `the replay of the episode diverges at step ${step}: ${name} was ${short(stored)}, now ${short(replayed)}`,
    { step, member: name },
  );
}

const short = (text = 'undefined'): string => (text.length > 120 ? `${text.slice(0, 120)}…` : text);
