/**
 * One episode of one environment: actions in, observations out, in order, with the newest transitions stored. It decides which
 * calls count as a step, and the effect of a step after the end of an episode.
 */
import { isObject, type JsonObject } from '../../wire/json.ts';
import { mustEqual, type StoredStep } from './durable.ts';
import type { EnvObservation } from './env.schema.ts';
import {
  type Autoreset,
  type Environment,
  type EnvironmentKind,
  type Soon,
  type Start,
  type Step,
  type StepCall,
  then,
} from './environment.ts';
import { brokenEnvironment, finishedEpisode, guarded, unknownAction } from './refusals.ts';
import { mismatch } from './spaces/mismatch.ts';
import { numberToWire } from './spaces/numbers.ts';
import type { Space } from './spaces/space.ts';
import { type StoredTransition, Trajectory, type TrajectoryLimits } from './trajectory.ts';

export interface EpisodeOptions {
  readonly id: string;
  readonly kind: EnvironmentKind;
  readonly environment: Environment;
  readonly autoreset: Autoreset;
  readonly limits: TrajectoryLimits;
  /** The options that `reset` gets again at an autoreset. */
  readonly resetOptions: JsonObject;
  /** Stores a step before its reply. When it rejects, the step did not happen and the episode is dropped from memory. */
  readonly persist?: ((step: StoredStep) => Promise<void>) | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export class Episode {
  readonly id: string;
  readonly kind: EnvironmentKind;
  readonly environment: Environment;
  readonly autoreset: Autoreset;
  readonly trajectory: Trajectory;
  readonly #resetOptions: JsonObject;
  readonly #now: () => number;
  #persist: EpisodeOptions['persist'];
  /** The newest observation; undefined until the first reset. */
  #obs: EnvObservation | undefined;
  /** Number of steps of this id, through autoresets. */
  #index = 0;
  #step = 0;
  #ended = false;
  /** The error that prevents further steps, if the environment failed. */
  #failure: unknown;
  /** Settles with the work before; undefined if nothing waits. */
  #tail: Promise<unknown> | undefined;

  constructor(options: EpisodeOptions) {
    const { id, kind, environment, autoreset, limits, resetOptions, now } = options;
    this.id = id;
    this.kind = kind;
    this.environment = environment;
    this.autoreset = autoreset;
    this.trajectory = new Trajectory(limits);
    this.#resetOptions = resetOptions;
    this.#now = now;
    this.#persist = options.persist;
  }

  /** True when only a reset continues: the episode has ended, or its environment failed. */
  get ended(): boolean {
    return this.#ended || this.#failure !== undefined;
  }

  /** True when its steps are stored. */
  get durable(): boolean {
    return this.#persist !== undefined;
  }

  get failed(): boolean {
    return this.#failure !== undefined;
  }

  get index(): number {
    return this.#index;
  }

  get steps(): number {
    return this.#step;
  }

  /** Starts the episode. */
  reset(seed: number | null, signal: AbortSignal): Soon<EnvObservation> {
    return guarded(this.kind.id, () =>
      then(this.environment.reset({ seed, options: this.#resetOptions, signal }), (start) => this.#started(start)),
    );
  }

  /** Restores an episode from its stored steps, without a replay. */
  restore(first: EnvObservation, steps: Iterable<StoredStep>): void {
    this.#obs = first;
    for (const stored of steps) {
      const { started } = stored;
      if (isTransition(stored)) {
        const { index, step, next_state, done, reward, terminated, truncated, info } = stored;
        this.trajectory.add(stored);
        this.#index = index;
        this.#step = step;
        this.#ended = done;
        const number = typeof reward === 'number' ? reward : null;
        const metadata = { terminated, truncated, info, ...(number === null && { reward }) };
        this.#obs = { ...first, step_num: step, state: next_state, done, truncated, reward: number, metadata };
      }
      if (started === undefined) continue;
      this.#step = 0;
      this.#ended = false;
      this.#obs = { ...first, state: started.state };
    }
  }

  /**
   * Repeats the stored actions, and compares the results with the stored ones. Rejects with `runtime_error`, reason `diverged`.
   */
  async replay(seed: number | null, first: EnvObservation, steps: Iterable<StoredStep>): Promise<void> {
    const start = await this.environment.reset({ seed, options: this.#resetOptions });
    mustEqual(0, 'the observation', first.state, this.#started(start).state);
    this.#obs = first;
    const persist = this.#persist;
    for (const stored of steps) {
      this.#persist = async (again) => mustBeAsStored(stored, again, this.#index);
      // Before a pending reset, the action was ignored.
      await this.#act({ payload: { action: stored.action } });
    }
    this.#persist = persist;
  }

  /** Returns the newest observation. */
  observe(): EnvObservation {
    return this.#obs as EnvObservation;
  }

  /**
   * Does an action. Rejects or throws `unknown_action`, `runtime_error`, or the reason of an abort that the environment obeyed;
   * none of them counts as a step.
   */
  step(action: JsonObject, call?: StepCall): Soon<EnvObservation> {
    if (this.#tail !== undefined) {
      return this.inOrder(() => {
        call?.signal.throwIfAborted();
        return this.#act(action, call);
      });
    }
    const obs = this.#act(action, call);
    if (obs instanceof Promise) this.#queueBehind(obs);
    return obs;
  }

  /** Runs work after all earlier work has ended. */
  inOrder<Result>(work: () => Soon<Result>): Promise<Result> {
    const done = (this.#tail ?? Promise.resolve()).then(work);
    this.#queueBehind(done);
    return done;
  }

  #queueBehind(work: Promise<unknown>): void {
    const settled = work.then(
      () => {},
      () => {},
    );
    this.#tail = settled;
    void settled.then(() => {
      if (this.#tail === settled) this.#tail = undefined;
    });
  }

  #act(action: JsonObject, call?: StepCall): Soon<EnvObservation> {
    const before = this.#obs as EnvObservation;
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#ended) {
      if (this.autoreset !== 'next_step') throw finishedEpisode(this.id);
      return this.#again((start) => {
        const obs = this.#started(start);
        return this.#stored({ started: { state: obs.state as JsonObject } }, obs);
      });
    }
    const value = readAction(action, this.environment.actionSpace, this.kind.id);
    let step: Soon<Step>;
    try {
      step = this.environment.step(value, call);
      if (!(step instanceof Promise)) return this.#stepped(before, value, step);
    } catch (thrown) {
      throw this.#broken(thrown, call);
    }
    return step
      .then((result) => this.#stepped(before, value, result))
      .catch((thrown) => {
        throw this.#broken(thrown, call);
      });
  }

  #started({ observation, info }: Start): EnvObservation {
    this.#step = 0;
    this.#ended = false;
    this.#obs = this.#observation(observation, 0, false, false, info);
    return this.#obs;
  }

  #stepped(before: EnvObservation, value: unknown, result: Step): Soon<EnvObservation> {
    const { observation, reward, terminated, truncated, info } = result;
    this.#step += 1;
    this.#index += 1;
    const done = terminated || truncated;
    const obs = this.#observation(observation, reward, terminated, truncated, info);
    const transition: StoredTransition = {
      index: this.#index,
      step: this.#step,
      state: before.state as JsonObject,
      action: this.environment.actionSpace.toWire(value),
      reward: numberToWire(reward),
      next_state: obs.state as JsonObject,
      done,
      terminated,
      truncated,
      info,
    };
    this.#obs = obs;
    this.#ended = done;
    this.trajectory.add(transition);
    if (!done || this.autoreset !== 'same_step')
      return this.#persist === undefined ? obs : this.#stored(transition, obs);
    return this.#again((start) => {
      const first = this.#started(start);
      const metadata = {
        ...obs.metadata,
        info: start.info,
        final_observation: (obs.state as JsonObject).observation,
        final_info: info,
        final_step_num: obs.step_num,
      };
      this.#obs = { ...first, reward: obs.reward, done, truncated, metadata };
      return this.#stored({ ...transition, started: { state: first.state as JsonObject } }, this.#obs);
    });
  }

  /** Stores a step, then replies to it. */
  #stored(step: StoredStep, obs: EnvObservation): Soon<EnvObservation> {
    if (this.#persist === undefined) return obs;
    return this.#persist(step).then(
      () => obs,
      (thrown) => {
        this.#failure = thrown;
        throw thrown;
      },
    );
  }

  /** Starts the next episode of this id, with the present generator. */
  #again(finish: (start: Start) => Soon<EnvObservation>): Soon<EnvObservation> {
    let start: Soon<Start>;
    try {
      start = this.environment.reset({ seed: null, options: this.#resetOptions });
    } catch (thrown) {
      throw this.#broken(thrown);
    }
    return start instanceof Promise
      ? start.then(finish, (thrown) => {
          throw this.#broken(thrown);
        })
      : finish(start);
  }

  #observation(
    observation: unknown,
    reward: number,
    terminated: boolean,
    truncated: boolean,
    info: JsonObject,
  ): EnvObservation {
    return {
      episode_id: this.id,
      step_num: this.#step,
      state: { observation: this.environment.observationSpace.toWire(observation) },
      done: terminated || truncated,
      truncated,
      reward: Number.isFinite(reward) ? reward : null,
      created_at: this.#now() / 1000,
      // The field has no form for other numbers.
      metadata: Number.isFinite(reward)
        ? { terminated, truncated, info }
        : { terminated, truncated, info, reward: String(reward) },
    };
  }

  /**
   * Records a failure. A step that failed inside left an unknown state, so the episode ends. Refusals of the action and aborts
   * do not end it.
   */
  #broken(thrown: unknown, call?: StepCall): unknown {
    const { code } = thrown as { readonly code?: unknown };
    if (code === 'unknown_action' || (call?.signal.aborted && thrown === call.signal.reason)) return thrown;
    this.#failure = this.#failure ?? (code === 'runtime_error' ? thrown : brokenEnvironment(this.kind.id, thrown));
    return this.#failure;
  }
}

const isTransition = (step: StoredStep): step is StoredTransition => step.index !== undefined;

/** Compares a step of a replay with the stored one. */
function mustBeAsStored(stored: StoredStep, again: StoredStep, index: number): void {
  if (isTransition(stored)) {
    const { next_state, reward, terminated, truncated } = stored;
    mustEqual(index, 'the observation', next_state, again.next_state);
    mustEqual(index, 'the reward', reward, again.reward);
    mustEqual(index, 'the end', [terminated, truncated], [again.terminated, again.truncated]);
  }
  mustEqual(index, 'the observation after the reset', stored.started?.state, again.started?.state);
}

/** Longest description of a space in an error. */
const MAX_DESCRIPTION = 200;

const elementOf = (space: Space): string =>
  `an element of ${JSON.stringify(space.describe()).slice(0, MAX_DESCRIPTION)}`;

/** Reads the action of `{"action_type": "step", "payload": {"action": A}}`, or with `value` in place of `action`. */
export function readAction({ payload }: JsonObject, space: Space, environment: string): unknown {
  const raw = isObject(payload) ? (payload.action ?? payload.value) : undefined;
  const value = space.fromWire(raw);
  if (value !== undefined) return value;
  if (raw === undefined) {
    throw unknownAction(`the action has no payload.action; ${environment} takes ${elementOf(space)}`, { path: '' });
  }
  const { path, space: wanted } = mismatch(space, raw) ?? { path: '', space };
  const expected = wanted === undefined ? 'nothing of this name' : elementOf(wanted);
  const at = path === '' ? '' : `at ${path} `;
  throw unknownAction(`payload.action is not an action of ${environment}: ${at}expected ${expected}`, { path });
}
