/**
 * The episodes of one host by owner, and the generators that a null seed continues. It decides how many there may be, whose
 * they are, and which environment object an episode gets.
 *
 * The plugin asks it for every message that names an episode. Ids of other agents answer like unknown ones.
 */
import { suggest } from '../../base/suggest.ts';
import type { Principal, SessionView } from '../../host/context.ts';
import { may, named } from '../../session/rights.ts';
import { isObject, type JsonObject, membersOf } from '../../wire/json.ts';
import type { EnvObservation } from './env.schema.ts';
import type { Environment, EnvironmentKind } from './environment.ts';
import { type Autoreset, Episode } from './episode.ts';
import { failure } from './errors.ts';
import { limitReached, resetDenied, unknownEnvironment, unknownEpisode } from './refusals.ts';
import { makeEnvironment } from './registry.ts';
import type { TrajectoryLimits } from './trajectory.ts';

export interface EpisodeLimits extends TrajectoryLimits {
  /** Episodes of one session at once. */
  readonly maxEpisodes: number;
  /** Episodes of one principal at once, in all its sessions. */
  readonly maxPrincipalEpisodes: number;
}

/** What a principal is granted within the capability. */
export interface EnvGrant {
  /** Environments by id; `*` stands for any letters. Those that run code must be named without one. */
  readonly environments?: readonly string[];
}

/** A request for a new episode. */
export interface EpisodeRequest {
  readonly name: string;
  readonly seed: number | null;
  readonly options: JsonObject;
}

/** A new episode, as read from its request. */
interface EpisodePlan {
  readonly kind: EnvironmentKind;
  readonly make: JsonObject;
  /** The key of its slot. */
  readonly slot: string;
  readonly seed: number | null;
  readonly autoreset: Autoreset;
  readonly resetOptions: JsonObject;
}

/** The environment that has the generator which a null seed continues. */
interface Slot {
  environment: Environment;
  /** The episode that uses it; undefined once it was closed. */
  episode: Episode | undefined;
}

/** What one session has. */
interface Own {
  readonly session: SessionView;
  readonly episodes: Map<string, Episode>;
  /** By environment, arguments and instance. */
  readonly slots: Map<string, Slot>;
  /** Episodes that are being made. */
  starting: number;
  /** Settles when the resets before have, by slot: a null seed continues what the one before it left. */
  readonly resets: Map<string, Promise<unknown>>;
}

/** Generators of one session that are stored; the one used least recently is dropped. */
const MAX_SLOTS = 256;

const AUTORESETS: readonly Autoreset[] = ['disabled', 'next_step', 'same_step'];

export interface EpisodesDeps {
  readonly kinds: ReadonlyMap<string, EnvironmentKind>;
  readonly limits: EpisodeLimits;
  readonly newId: () => string;
  readonly now: () => number;
}

export class Episodes {
  readonly #deps: EpisodesDeps;
  readonly #owners = new Map<string, Own>();
  /** Episodes by principal. */
  readonly #counts = new Map<string, number>();

  constructor(deps: EpisodesDeps) {
    this.#deps = deps;
  }

  /** The environment of a name. Throws `runtime_error` for an unknown one, `reset_denied` for one the principal may not use. */
  kind(name: string, principal: Principal, grant: EnvGrant | undefined): EnvironmentKind {
    const kind = this.#deps.kinds.get(name);
    if (kind !== undefined && mayUse(kind, principal, grant)) return kind;
    if (kind !== undefined) {
      const rule = kind.runsCode === true ? 'it runs code, and' : '';
      throw resetDenied(`${principal.name} may not use ${name}: ${rule} no grant of env.environments names it`, {
        grant: 'env.environments',
      });
    }
    throw unknownEnvironment(name, suggest(name, this.#deps.kinds.keys()));
  }

  /** The environments that a principal may use. */
  allowed(principal: Principal, grant: EnvGrant | undefined): EnvironmentKind[] {
    return [...this.#deps.kinds.values()].filter((kind) => mayUse(kind, principal, grant));
  }

  /** An episode of the session. Throws `runtime_error` with `detail.reason` `unknown_episode`. */
  find(id: string, session: SessionView): Episode {
    const episode = this.#owners.get(session.id)?.episodes.get(id);
    if (episode === undefined) throw unknownEpisode(id);
    return episode;
  }

  /** All episodes of the session, in the order in which they started. */
  of(session: SessionView): Iterable<Episode> {
    return this.#owners.get(session.id)?.episodes.values() ?? [];
  }

  /** Starts an episode. Rejects with `reset_denied`, `env.invalid_options`, `runtime_error`. */
  async start(
    kind: EnvironmentKind,
    { seed, options }: EpisodeRequest,
    session: SessionView,
    signal: AbortSignal,
  ): Promise<EnvObservation> {
    const { make: given, instance = '', autoreset = 'disabled', ...resetOptions } = options;
    const make = given === undefined ? {} : given;
    if (!isObject(make)) throw failure('invalid_options', 'options.make must be an object');
    if (typeof instance !== 'string') throw failure('invalid_options', 'options.instance must be a text');
    if (!AUTORESETS.includes(autoreset as Autoreset)) {
      throw failure('invalid_options', `options.autoreset must be one of ${AUTORESETS.join(', ')}`);
    }
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
      resetOptions,
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
    const { kind, slot, seed, autoreset, resetOptions } = plan;
    const environment = await this.#environment(own, plan);
    const episode = new Episode({
      id: this.#deps.newId(),
      kind,
      environment,
      autoreset,
      limits: this.#deps.limits,
      resetOptions,
      now: this.#deps.now,
    });
    own.slots.delete(slot);
    own.slots.set(slot, { environment, episode });
    try {
      const obs = await episode.reset(seed, signal);
      // Its session may have ended meanwhile, and has released what it had.
      if (this.#owners.get(own.session.id) !== own) throw resetDenied('the session has ended');
      own.episodes.set(episode.id, episode);
      this.#trimSlots(own);
      return obs;
    } catch (thrown) {
      this.#release(own, episode);
      throw thrown;
    }
  }

  /** Ends an episode; one that does not exist is ended already. */
  close(id: string, session: SessionView): void {
    const own = this.#owners.get(session.id);
    const episode = own?.episodes.get(id);
    if (own === undefined || episode === undefined) return;
    this.#remove(own, episode);
  }

  /** The session has ended, and with it its episodes. */
  closeAll(session: SessionView): void {
    const own = this.#owners.get(session.id);
    if (own === undefined) return;
    this.#owners.delete(session.id);
    this.#count(session, -own.episodes.size);
    const environments = new Set([...own.slots.values()].map(({ environment }) => environment));
    for (const { environment } of own.episodes.values()) environments.add(environment);
    for (const environment of environments) void closed(environment);
  }

  #own(session: SessionView): Own {
    let own = this.#owners.get(session.id);
    if (own === undefined) {
      own = { session, episodes: new Map(), slots: new Map(), starting: 0, resets: new Map() };
      this.#owners.set(session.id, own);
    }
    return own;
  }

  #count({ principal }: SessionView, change: number): void {
    const count = (this.#counts.get(principal.name) ?? 0) + change;
    if (count <= 0) this.#counts.delete(principal.name);
    else this.#counts.set(principal.name, count);
  }

  /** Closes the oldest episode that has ended where there is no room; refuses where all are running. */
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

  /** The environment of a new episode: for a null seed the one whose generator it continues, or one that continues from it. */
  async #environment(own: Own, { kind, make, slot: key, seed }: EpisodePlan): Promise<Environment> {
    const slot = own.slots.get(key);
    if (slot !== undefined && slot.episode === undefined) return slot.environment;
    const environment = await makeEnvironment(kind, make);
    if (seed === null && slot !== undefined) await continueGenerator(slot.environment, environment);
    return environment;
  }

  #remove(own: Own, episode: Episode): void {
    own.episodes.delete(episode.id);
    this.#count(own.session, -1);
    this.#release(own, episode);
  }

  /** An environment that has the newest generator of its slot stays; others are closed. */
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

/** Closes an environment. What it throws is its own: its episode has ended. */
async function closed(environment: Environment): Promise<void> {
  try {
    await environment.close?.();
  } catch {
    // No one waits for it.
  }
}

/** True when the principal may use the environment. What runs code must be named by its id, except for administrators. */
export function mayUse(kind: EnvironmentKind, principal: Principal, grant: EnvGrant | undefined): boolean {
  const names = membersOf(grant).environments as readonly string[] | undefined;
  if (kind.runsCode === true) return names === undefined ? may(principal, 'administer') : names.includes(kind.id);
  return names === undefined || named(names, kind.id);
}

/** Makes `to` continue where the generator of `from` is. An environment that can do neither starts with a random seed. */
async function continueGenerator(from: Environment, to: Environment): Promise<void> {
  if (from.snapshot !== undefined) to.restore?.(from.snapshot());
  else if (from.generator !== undefined) await to.continueFrom?.(await from.generator());
}
