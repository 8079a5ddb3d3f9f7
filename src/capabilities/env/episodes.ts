/**
 * The episodes of one host by owner, and the generators that a null seed continues. It decides their number, their owners, and
 * the environment object of each.
 *
 * Every message that names an episode is looked up here. Ids of other agents get the error of unknown ones.
 */
import { suggest } from '../../base/suggest.ts';
import type { CallContext, Principal, SessionView } from '../../host/context.ts';
import { may, named } from '../../session/rights.ts';
import { isObject, type JsonObject, membersOf } from '../../wire/json.ts';
import {
  DURABILITIES,
  type Durability,
  type EpisodeRecord,
  EpisodeStore,
  type Origin,
  prepareReplay,
  type StoredStep,
} from './durable.ts';
import type { EnvObservation } from './env.schema.ts';
import type { Autoreset, Environment, EnvironmentKind, Soon } from './environment.ts';
import { Episode, type EpisodeOptions } from './episode.ts';
import { failure } from './errors.ts';
import { environmentFailed, limitReached, resetDenied, unknownEnvironment, unknownEpisode } from './refusals.ts';
import { checkResetOptions, makeEnvironment } from './registry.ts';
import { sizeOf, type TrajectoryLimits } from './trajectory.ts';

export interface EpisodeLimits extends TrajectoryLimits {
  /** Concurrent episodes of one session. */
  readonly maxEpisodes: number;
  /** Concurrent episodes of one principal, in all its sessions. */
  readonly maxPrincipalEpisodes: number;
}

/** The grants of a principal within the capability. */
export interface EnvGrant {
  /** Environments by id; `*` stands for any letters. Environments that run code must be named without a `*`. */
  readonly environments?: readonly string[];
}

/** The requester: its part of `CallContext`. */
export type EpisodeOwner = Pick<CallContext, 'session' | 'store' | 'signal'>;

/** A request for a new episode. */
export interface EpisodeRequest {
  readonly name: string;
  readonly seed: number | null;
  readonly options: JsonObject;
}

/** A new episode, parsed from its request. */
interface EpisodePlan {
  readonly kind: EnvironmentKind;
  readonly make: JsonObject;
  /** The key of its slot. */
  readonly slot: string;
  readonly seed: number | null;
  readonly autoreset: Autoreset;
  readonly resetOptions: JsonObject;
  readonly durability: Durability;
  /** The records of the agent; undefined for an episode that is not durable. */
  readonly store: EpisodeStore | undefined;
}

/** The environment with the generator that a null seed continues. */
interface Slot {
  environment: Environment;
  /** The episode that uses it; undefined once it was closed. */
  episode: Episode | undefined;
}

/** The episodes of one session. */
interface Own {
  readonly session: SessionView;
  readonly episodes: Map<string, Episode>;
  /** By environment, arguments and instance. */
  readonly slots: Map<string, Slot>;
  /** Episodes that are being made. */
  starting: number;
  /** Settles with the earlier resets, by slot: a null seed continues the generator after the reset before it. */
  readonly resets: Map<string, Promise<unknown>>;
  /** Durable episodes that this session started or restored; they leave the memory with it, and stay in the store. */
  readonly durable: Map<string, Episode>;
}

/** Maximum number of stored generators of one session; the least recently used one is dropped. */
const MAX_SLOTS = 256;
const MAX_INSTANCE = 256;
/** Maximum size of the options of a reset: they are stored with the episode. */
const MAX_OPTIONS_BYTES = 64 * 1024;

const AUTORESETS: readonly Autoreset[] = ['disabled', 'next_step', 'same_step'];

export interface EpisodesDeps {
  readonly kinds: ReadonlyMap<string, EnvironmentKind>;
  readonly limits: EpisodeLimits;
  /** Durability of episodes whose reset names none; undefined: the host stores no episodes, and none can be durable. */
  readonly durability: Durability | undefined;
  /** Durable episodes of one agent. */
  readonly maxStoredEpisodes: number;
  readonly newId: () => string;
  readonly now: () => number;
}

export class Episodes {
  readonly #deps: EpisodesDeps;
  readonly #owners = new Map<string, Own>();
  /** Number of episodes by principal. */
  readonly #counts = new Map<string, number>();
  /** Durable episodes in memory, or being loaded, by agent and id. */
  readonly #durable = new Map<string, Episode | Promise<Episode>>();

  constructor(deps: EpisodesDeps) {
    this.#deps = deps;
  }

  get #isDurable(): boolean {
    return this.#deps.durability !== undefined;
  }

  /**
   * Returns the environment of a name. Throws `runtime_error` for an unknown one, `reset_denied` for one the principal may not
   * use.
   */
  kind(name: string, principal: Principal, grant: EnvGrant | undefined): EnvironmentKind {
    const kind = this.#deps.kinds.get(name);
    if (kind !== undefined && mayUse(kind, principal, grant)) return kind;
    if (kind !== undefined) {
      const rule = kind.runsCode === true ? 'it runs code, and ' : '';
      throw resetDenied(`${principal.name} may not use ${name}: ${rule}no grant of env.environments names it`, {
        grant: 'env.environments',
      });
    }
    throw unknownEnvironment(name, suggest(name, this.#deps.kinds.keys()));
  }

  /** Returns the environments that a principal may use. */
  allowed(principal: Principal, grant: EnvGrant | undefined): EnvironmentKind[] {
    return [...this.#deps.kinds.values()].filter((kind) => mayUse(kind, principal, grant));
  }

  /**
   * Returns an episode of the session, or a durable one of its agent, which is restored from the store. Throws or rejects with
   * `runtime_error`: `detail.reason` is `unknown_episode`, `episode_interrupted` or `diverged`.
   */
  find(id: string, owner: EpisodeOwner): Soon<Episode> {
    const { session } = owner;
    const own = this.#owners.get(session.id);
    const episode = own?.episodes.get(id);
    if (episode !== undefined) return episode;
    const key = durableKey(session, id);
    const durable = this.#durable.get(key);
    if (durable instanceof Promise || durable?.failed === false) return durable;
    // Its environment failed, as after a kill of its process: it continues from the stored steps.
    if (durable !== undefined) this.#drop(id, session, durable);
    if (!this.#isDurable) throw unknownEpisode(id);
    const records = new EpisodeStore(owner.store.agent);
    const record = records.record(id);
    if (record === undefined) throw unknownEpisode(id);
    const loading = this.#load(record, records, session);
    this.#durable.set(key, loading);
    loading.catch(() => this.#durable.delete(key));
    return loading;
  }

  async #load(record: EpisodeRecord, store: EpisodeStore, session: SessionView): Promise<Episode> {
    const { id, env_name, make, reset_options: resetOptions, durability, origin, status, first, autoreset } = record;
    if (status === 'running' && durability === 'episode') {
      throw environmentFailed(
        'episode_interrupted',
        `the host ended while the episode ${id} ran, and its steps were not stored; start it again, or use durability step`,
      );
    }
    const kind = this.#deps.kinds.get(env_name);
    if (kind === undefined) throw unknownEnvironment(env_name, undefined);
    const environment = await makeEnvironment(kind, make);
    const episode = this.#episode({
      id,
      kind,
      environment,
      // With the durability `episode`, only ended episodes are stored: no step can follow.
      autoreset: durability === 'step' ? (autoreset ?? 'disabled') : 'disabled',
      resetOptions,
      durability,
      store,
      session,
    });
    try {
      if (status === 'ended') episode.restore(first, store.steps(id));
      else if (record.snapshot !== undefined) {
        environment.restore?.(record.snapshot);
        episode.restore(first, store.steps(id));
      } else await episode.replay(await prepareReplay(environment, origin), first, store.steps(id));
    } catch (thrown) {
      void closed(environment);
      throw thrown;
    }
    this.#own(session).durable.set(id, episode);
    this.#durable.set(durableKey(session, id), episode);
    return episode;
  }

  #episode({
    durability,
    store,
    session,
    ...options
  }: Omit<EpisodeOptions, 'limits' | 'now' | 'persist'> & {
    readonly durability: Durability;
    readonly store: EpisodeStore | undefined;
    readonly session: SessionView;
  }): Episode {
    const { limits, now } = this.#deps;
    const { id, autoreset } = options;
    /** Index of the newest stored transition. */
    let stored = 0;
    const persist = async (step: StoredStep): Promise<void> => {
      try {
        if (durability === 'step') {
          const ends = step.done === true && autoreset === 'disabled';
          await store?.step(id, step, { ...snapshotOf(episode), ...(ends && { status: 'ended' }) });
        } else if (step.done === true) {
          const fresh = episode.trajectory.after(stored, Number.POSITIVE_INFINITY);
          stored = episode.index;
          await store?.ended(id, fresh);
        }
      } catch (thrown) {
        // The episode in memory is ahead of its record: the next request restores it from there.
        this.#drop(id, session, episode);
        throw thrown;
      }
    };
    const episode: Episode = new Episode({
      ...options,
      limits,
      now,
      persist: durability === 'none' ? undefined : persist,
    });
    return episode;
  }

  /** Returns the records of durable episodes that are not in memory. */
  stored(owner: EpisodeOwner): EpisodeRecord[] {
    if (!this.#isDurable) return [];
    const { session } = owner;
    const records = new EpisodeStore(owner.store.agent).records(this.#deps.maxStoredEpisodes);
    return records.filter(({ id }) => !this.#durable.has(durableKey(session, id)));
  }

  /** Returns true for an episode of the session that is only in memory. */
  isPlain(id: string, session: SessionView): boolean {
    return this.#owners.get(session.id)?.episodes.has(id) === true;
  }

  /** Returns all episodes of the session, in the order of their start. */
  of(session: SessionView): Iterable<Episode> {
    const own = this.#owners.get(session.id);
    return own === undefined ? [] : [...own.episodes.values(), ...own.durable.values()];
  }

  /** Starts an episode. Rejects with `reset_denied`, `env.invalid_options`, `runtime_error`. */
  async start(kind: EnvironmentKind, { seed, options }: EpisodeRequest, owner: EpisodeOwner): Promise<EnvObservation> {
    const { session, signal } = owner;
    const {
      make: given,
      instance = '',
      autoreset = 'disabled',
      durability = this.#deps.durability ?? 'none',
      ...rest
    } = options;
    const make = given === undefined ? {} : given;
    if (!isObject(make)) throw failure('invalid_options', 'options.make must be an object', { path: '/make' });
    if (typeof instance !== 'string' || instance.length > MAX_INSTANCE) {
      throw failure('invalid_options', `options.instance must be a text of at most ${MAX_INSTANCE} characters`, {
        path: '/instance',
      });
    }
    if (sizeOf(options) > MAX_OPTIONS_BYTES) {
      throw failure('invalid_options', `options must have at most ${MAX_OPTIONS_BYTES} bytes`, {
        limit: MAX_OPTIONS_BYTES,
      });
    }
    if (!AUTORESETS.includes(autoreset as Autoreset)) {
      throw failure('invalid_options', `options.autoreset must be one of ${AUTORESETS.join(', ')}`, {
        path: '/autoreset',
      });
    }
    if (!DURABILITIES.includes(durability as Durability)) {
      throw failure('invalid_options', `options.durability must be one of ${DURABILITIES.join(', ')}`, {
        path: '/durability',
      });
    }
    if (durability !== 'none' && !this.#isDurable) {
      throw failure('invalid_options', 'this host stores no episodes; set durability in its options of env', {
        path: '/durability',
      });
    }
    checkResetOptions(kind, rest);
    const own = this.#own(session);
    this.#mustHaveRoom(own);
    own.starting += 1;
    this.#count(session, 1);
    const plan: EpisodePlan = {
      kind,
      make,
      slot: JSON.stringify([kind.id, make, instance]),
      seed,
      autoreset: autoreset as Autoreset,
      resetOptions: rest,
      durability: durability as Durability,
      store: durability === 'none' ? undefined : new EpisodeStore(owner.store.agent),
    };
    const started = (own.resets.get(plan.slot) ?? Promise.resolve()).then(() => this.#started(own, plan, signal));
    const settled = started.then(
      () => {},
      () => {},
    );
    own.resets.set(plan.slot, settled);
    try {
      return await started;
    } catch (thrown) {
      this.#count(session, -1);
      throw thrown;
    } finally {
      own.starting -= 1;
      if (own.resets.get(plan.slot) === settled) own.resets.delete(plan.slot);
    }
  }

  async #started(own: Own, plan: EpisodePlan, signal: AbortSignal): Promise<EnvObservation> {
    const { kind, slot, make, autoreset, resetOptions, durability, store } = plan;
    const { session } = own;
    const { environment, continued } = await this.#environment(own, plan);
    const id = this.#deps.newId();
    const episode = this.#episode({ id, kind, environment, autoreset, resetOptions, durability, store, session });
    own.slots.delete(slot);
    own.slots.set(slot, { environment, episode });
    try {
      // A replay needs the former state of the generator.
      const isKnown = continued && (environment.snapshot ?? environment.generator) !== undefined;
      const seed = plan.seed ?? (durability === 'none' || isKnown ? null : randomSeed());
      const origin = durability === 'none' ? undefined : await originOf(environment, seed);
      const obs = await episode.reset(seed, signal);
      // The session may have ended meanwhile and have released its episodes.
      if (this.#owners.get(session.id) !== own) throw resetDenied('the session has ended');
      if (origin === undefined) own.episodes.set(id, episode);
      else {
        const { maxStoredEpisodes, now } = this.#deps;
        await store?.start(
          {
            id,
            env_name: kind.id,
            make,
            reset_options: resetOptions,
            durability,
            autoreset,
            origin,
            status: 'running',
            ...(durability === 'step' && snapshotOf(episode)),
            first: obs,
            started_at: now(),
          },
          maxStoredEpisodes,
          (removed) => void this.#forget(removed, session),
        );
        own.durable.set(id, episode);
        this.#durable.set(durableKey(session, id), episode);
        this.#count(session, -1);
      }
      this.#trimSlots(own);
      return obs;
    } catch (thrown) {
      this.#release(own, episode);
      throw thrown;
    }
  }

  /** Ends an episode; a missing one counts as ended. */
  async close(id: string, owner: EpisodeOwner): Promise<void> {
    const { session } = owner;
    const own = this.#owners.get(session.id);
    const episode = own?.episodes.get(id);
    if (own !== undefined && episode !== undefined) return this.#remove(own, episode);
    if (!this.#isDurable) return;
    const records = new EpisodeStore(owner.store.agent);
    if (records.record(id) === undefined) return;
    await records.remove(id);
    await this.#forget(id, session);
  }

  /** Removes a durable episode from memory whose environment failed. */
  #drop(id: string, session: SessionView, episode: Episode): void {
    this.#durable.delete(durableKey(session, id));
    for (const each of this.#owners.values()) if (each.durable.delete(id)) this.#release(each, episode);
  }

  /** Removes a durable episode from memory. */
  async #forget(id: string, session: SessionView): Promise<void> {
    const key = durableKey(session, id);
    const durable = await this.#durable.get(key);
    this.#durable.delete(key);
    if (durable === undefined) return;
    for (const each of this.#owners.values()) if (each.durable.delete(id)) this.#release(each, durable);
  }

  /** Closes the episodes of a session that has ended. */
  closeAll(session: SessionView): void {
    const own = this.#owners.get(session.id);
    if (own === undefined) return;
    this.#owners.delete(session.id);
    this.#count(session, -own.episodes.size);
    const environments = new Set([...own.slots.values()].map(({ environment }) => environment));
    for (const { environment } of own.episodes.values()) environments.add(environment);
    for (const [id, { environment }] of own.durable) {
      this.#durable.delete(durableKey(session, id));
      environments.add(environment);
    }
    for (const environment of environments) void closed(environment);
  }

  #own(session: SessionView): Own {
    let own = this.#owners.get(session.id);
    if (own === undefined) {
      own = { session, episodes: new Map(), slots: new Map(), starting: 0, resets: new Map(), durable: new Map() };
      this.#owners.set(session.id, own);
    }
    return own;
  }

  #count({ principal }: SessionView, change: number): void {
    const count = (this.#counts.get(principal.name) ?? 0) + change;
    if (count <= 0) this.#counts.delete(principal.name);
    else this.#counts.set(principal.name, count);
  }

  /** Closes the oldest ended episode if the limit is reached; refuses if all are running. */
  #mustHaveRoom(own: Own): void {
    const { maxEpisodes, maxPrincipalEpisodes } = this.#deps.limits;
    const { principal } = own.session;
    const full = (): boolean =>
      own.episodes.size + own.starting >= maxEpisodes ||
      (this.#counts.get(principal.name) ?? 0) >= maxPrincipalEpisodes;
    while (full()) {
      const ended = own.episodes.values().find((episode) => episode.ended);
      if (ended === undefined) {
        throw limitReached('too many episodes are running; close some with env/close/req', {
          max_episodes: maxEpisodes,
          max_principal_episodes: maxPrincipalEpisodes,
        });
      }
      this.#remove(own, ended);
    }
  }

  /**
   * Returns the environment of a new episode: for a null seed the one whose generator it continues, or one that continues from
   * it.
   */
  async #environment(
    own: Own,
    { kind, make, slot: key, seed }: EpisodePlan,
  ): Promise<{ readonly environment: Environment; readonly continued: boolean }> {
    const slot = own.slots.get(key);
    if (slot !== undefined && slot.episode === undefined) return { environment: slot.environment, continued: true };
    const environment = await makeEnvironment(kind, make);
    if (seed === null && slot !== undefined) await continueGenerator(slot.environment, environment);
    return { environment, continued: slot !== undefined };
  }

  #remove(own: Own, episode: Episode): void {
    own.episodes.delete(episode.id);
    this.#count(own.session, -1);
    this.#release(own, episode);
  }

  /** Retains an environment that has the newest generator of its slot; closes others. */
  #release(own: Own, episode: Episode): void {
    const { environment } = episode;
    const slot = own.slots.values().find((each) => each.environment === environment);
    if (slot === undefined || episode.failed || this.#owners.get(own.session.id) !== own) {
      if (slot !== undefined) for (const [key, each] of own.slots) if (each === slot) own.slots.delete(key);
      void closed(environment);
    } else slot.episode = undefined;
  }

  #trimSlots(own: Own): void {
    for (const [key, { environment, episode }] of own.slots) {
      if (own.slots.size <= MAX_SLOTS) return;
      own.slots.delete(key);
      if (episode === undefined) void closed(environment);
    }
  }
}

/** Closes an environment. Its exceptions are ignored: its episode has ended. */
async function closed(environment: Environment): Promise<void> {
  try {
    await environment.close?.();
  } catch {
    // Nothing waits for it.
  }
}

/**
 * Returns true when the principal may use the environment. One that runs code must be named by its id, except for
 * administrators.
 */
export function mayUse(kind: EnvironmentKind, principal: Principal, grant: EnvGrant | undefined): boolean {
  const names = membersOf(grant).environments as readonly string[] | undefined;
  if (kind.runsCode === true) return names === undefined ? may(principal, 'administer') : names.includes(kind.id);
  return names === undefined || named(names, kind.id);
}

/** Makes `to` continue the generator of `from`. An environment that supports neither way starts with a random seed. */
async function continueGenerator(from: Environment, to: Environment): Promise<void> {
  if (from.snapshot !== undefined) to.restore?.(from.snapshot());
  else if (from.generator !== undefined) await to.continueFrom?.(await from.generator());
}

/** Returns the state of an environment's generator, before its reset with this seed. */
async function originOf(environment: Environment, seed: number | null): Promise<Origin> {
  if (seed !== null) return { seed };
  if (environment.snapshot !== undefined) return { snapshot: environment.snapshot() };
  return { generator: (await environment.generator?.()) ?? '' };
}

/** Returns the state of an environment that cannot be replayed, as a member of its record. */
const snapshotOf = ({ kind, environment }: Episode): Pick<EpisodeRecord, 'snapshot'> =>
  kind.nondeterministic === true && environment.snapshot !== undefined ? { snapshot: environment.snapshot() } : {};

/** Returns the key of a durable episode, which belongs to principal and agent. */
const durableKey = ({ principal, agentId }: SessionView, id: string): string =>
  JSON.stringify([principal.name, agentId, id]);

const randomSeed = (): number => Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
