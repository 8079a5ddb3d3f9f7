/**
 * The env capability of an agent: `agent.env`. Present only when the agent asked for `env`.
 *
 * Observations and actions have the form of JSON, in which `±Infinity` and `NaN` are texts.
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { Call, CallOptions } from '../../connection/call.ts';
import { answered } from '../../protocol/method.ts';
import { HandfastError } from '../../wire/errors.ts';
import { isObject, membersOf } from '../../wire/json.ts';
import type { GymnasiumVerdict } from './check/findings.ts';
import type { Durability } from './durable.ts';
import * as replies from './env.replies.generated.ts';
import type { EnvDescription, EnvFinding, EnvObservation } from './env.schema.ts';
import type { Autoreset } from './environment.ts';
import {
  envBatchStep,
  envCheck,
  envClose,
  envContains,
  envExpList,
  envList,
  envObserve,
  envPlan,
  envRender,
  envReset,
  envSample,
  envSpace,
  envStatePush,
  envStep,
} from './messages.ts';
import { numberFromWire } from './spaces/numbers.ts';
import type { StoredTransition, Transition } from './trajectory.ts';

const calls = {
  reset: answered(envReset, replies.EnvResetResp),
  step: answered(envStep, replies.EnvStepResp),
  observe: answered(envObserve, replies.EnvObserveResp),
  close: answered(envClose, replies.EnvCloseResp),
  space: answered(envSpace, replies.EnvSpaceResp),
  render: answered(envRender, replies.EnvRenderResp),
  plan: answered(envPlan, replies.EnvPlanResp),
  batchStep: answered(envBatchStep, replies.EnvBatchStepResp),
  expList: answered(envExpList, replies.EnvExpListResp),
  list: answered(envList, replies.EnvListResp),
  contains: answered(envContains, replies.EnvContainsResp),
  sample: answered(envSample, replies.EnvSampleResp),
  check: answered(envCheck, replies.EnvCheckResp),
};
const statePush = { ...envStatePush, check: replies.EnvStatePush };

/** A JSON object. */
export type EnvRecord = Readonly<Record<string, unknown>>;

/** Arguments for making an environment. */
export interface MakeOptions {
  /** Arguments of its construction, as Gymnasium's `make` takes them. */
  readonly make?: Readonly<Record<string, unknown>>;
}

export interface ResetOptions extends MakeOptions {
  /** 0 to 2^53 - 1. Null or absent: the generator of this environment, arguments and instance continues. */
  readonly seed?: number | null;
  /** Argument of the environment's own reset. */
  readonly options?: Readonly<Record<string, unknown>>;
  /** The name of a separate generator: give one to each of several concurrent episodes without seeds. */
  readonly instance?: string;
  /** Effect of a step of an episode that has ended. Default `disabled`: it is refused. */
  readonly autoreset?: Autoreset;
  /** The data that outlives the host: nothing, an ended episode, or every step. Default: the configuration of the host. */
  readonly durability?: Durability;
}

/** The result of a step. */
export interface StepResult<Observation = unknown> {
  readonly observation: Observation;
  readonly reward: number;
  readonly terminated: boolean;
  readonly truncated: boolean;
  /** True when the episode is terminated or truncated. */
  readonly done: boolean;
  readonly info: EnvRecord;
  /** Steps of its episode so far. */
  readonly step: number;
  /** With autoreset `same_step`: the last observation of the episode that has ended, and its info. */
  readonly final?: { readonly observation: Observation; readonly info: EnvRecord };
}

/** An action that the environment suggests. */
export interface Suggestion<Action = unknown> {
  readonly action: Action;
  readonly label: string;
}

/** A picture: a text, rows of pixels, or a PNG in base64. */
export type Rendering = string | readonly (readonly (readonly number[])[])[] | { mime: string; base64: string } | null;

/** An event of an episode that no request caused. */
export interface EpisodeEvent {
  readonly episode_id: string;
  /** Number of steps completed before it. */
  readonly step_id: number;
  readonly event_type: string;
  readonly reason?: string;
  /** The members of the state that changed. */
  readonly delta?: EnvRecord;
  readonly reward?: number | null;
  /** True when the episode has ended. */
  readonly terminal?: boolean;
}

/** An episode with its stored transitions. */
export interface StoredEpisode {
  readonly episode_id: string;
  readonly env_name: string;
  readonly status: string;
  readonly step_num: number;
  readonly total_steps: number;
  readonly transitions: readonly Transition[];
}

/** The spaces of an environment, as the wire describes them. */
export interface DescribedSpaces {
  readonly action_space: EnvRecord;
  readonly state_schema: EnvRecord;
  /** The modes in which it draws; absent at hosts that do not report them. */
  readonly render_modes?: readonly ('ansi' | 'rgb_array')[];
}

/** Transitions per request. */
const PAGE = 500;

export class EnvClient {
  readonly #agent: AgentSession;

  constructor(agent: AgentSession) {
    this.#agent = agent;
  }

  /** Returns the environments of the host that this principal may use. */
  list(options: CallOptions = {}): Call<readonly EnvDescription[]> {
    this.#agent.require('env');
    return this.#agent.calls.call(calls.list, {}, options, ({ environments }) => environments);
  }

  /** Returns the spaces of an environment. */
  spaces(name: string, { make }: MakeOptions = {}, options: CallOptions = {}): Call<DescribedSpaces> {
    this.#agent.require('env');
    const body = { env_name: name, options: make === undefined ? {} : { make } };
    return this.#agent.calls.call(calls.space, body, options, ({ action_space, state_schema, render_modes }) => {
      const spaces = { action_space, state_schema, ...(render_modes && { render_modes }) };
      return spaces as DescribedSpaces;
    });
  }

  /**
   * Starts an episode.
   *
   * Rejects with `reset_denied`, `env.invalid_options` (`detail.path`), `schema_violation`, or `runtime_error` with
   * `detail.reason` `unknown_environment`.
   * @example
   * await using episode = await agent.env.reset('CartPole-v1', { seed: 42 });
   * while (!episode.done) await episode.step(Math.random() < 0.5 ? 0 : 1);
   */
  async reset<Observation = unknown, Action = unknown>(
    name: string,
    { seed = null, options = {}, make, instance, autoreset, durability }: ResetOptions = {},
    callOptions: CallOptions = {},
  ): Promise<RemoteEpisode<Observation, Action>> {
    this.#agent.require('env');
    const body = {
      env_name: name,
      seed,
      options: {
        ...options,
        ...(make && { make }),
        ...(instance !== undefined && { instance }),
        ...(autoreset && { autoreset }),
        ...(durability && { durability }),
      },
    };
    const { obs } = await this.#agent.calls.call(calls.reset, body, callOptions);
    return new RemoteEpisode(this.#agent, obs as EnvObservation);
  }

  /** Returns an episode by its id: one of this session, or a durable one of this agent. Rejects with `runtime_error`. */
  async episode<Observation = unknown, Action = unknown>(
    id: string,
    options: CallOptions = {},
  ): Promise<RemoteEpisode<Observation, Action>> {
    this.#agent.require('env');
    const { obs } = await this.#agent.calls.call(calls.observe, { episode_id: id }, options);
    return new RemoteEpisode(this.#agent, obs as EnvObservation);
  }

  /**
   * Starts several episodes of one environment that are stepped together. Each has a separate generator; with a seed, the n-th
   * one has `seed + n`, as in Gymnasium.
   */
  async vector<Observation = unknown, Action = unknown>(
    name: string,
    count: number,
    options: ResetOptions = {},
  ): Promise<RemoteVector<Observation, Action>> {
    const { seed = null, instance = 'vector', autoreset = 'next_step' } = options;
    const episodes = await Promise.all(
      Array.from({ length: count }, (_, at) =>
        this.reset<Observation, Action>(name, {
          ...options,
          autoreset,
          seed: seed === null ? null : seed + at,
          instance: `${instance}.${at}`,
        }),
      ),
    );
    return new RemoteVector(this.#agent, episodes);
  }

  /**
   * Resolves with true when all values are elements of a space: one of an environment, or a description as `spaces()` has it.
   */
  async contains(space: EnvRecord | SpaceOfEnvironment, ...values: readonly unknown[]): Promise<boolean> {
    this.#agent.require('env');
    const { contains } = await this.#agent.calls.call(calls.contains, { ...spaceFields(space), values: [...values] });
    return contains;
  }

  /** Returns elements of a space; equal seeds give equal elements. */
  async sample(
    space: EnvRecord | SpaceOfEnvironment,
    { seed = null, n = 1 }: { readonly seed?: number | null; readonly n?: number } = {},
  ): Promise<readonly unknown[]> {
    this.#agent.require('env');
    const { samples } = await this.#agent.calls.call(calls.sample, { ...spaceFields(space), seed, n });
    return samples;
  }

  /**
   * Plays an environment at the host and checks whether it keeps its contract: its rules are in docs/environments.md.
   *
   * Rejects with `reset_denied`, `env.invalid_options`, and `runtime_error` for an environment that cannot be made.
   */
  check(name: string, { make, seed, steps }: EnvCheckOptions = {}, options: CallOptions = {}): Call<EnvCheckReport> {
    this.#agent.require('env');
    const body = {
      env_name: name,
      options: make === undefined ? {} : { make },
      ...(seed !== undefined && { seed }),
      ...(steps !== undefined && { steps }),
    };
    return this.#agent.calls.call(calls.check, body, options, ({ findings, gymnasium }) => ({
      findings,
      ...(gymnasium !== undefined && { gymnasium: gymnasium as unknown as GymnasiumVerdict }),
    }));
  }

  /**
   * Calls `listener` for events of episodes without a request of this session. Returns the function that removes the listener.
   */
  onEvent(listener: (event: EpisodeEvent) => unknown): () => void {
    return this.#agent.on(statePush, (event) => listener(event as EpisodeEvent));
  }

  /** Returns the stored transitions of all episodes of this agent, the newest `limit`. */
  async experience(limit = 100, options: CallOptions = {}): Promise<readonly StoredEpisode[]> {
    this.#agent.require('env');
    const { episodes = [] } = await this.#agent.calls.call(calls.expList, { limit }, options);
    return (episodes as unknown as readonly SentEpisode[]).map((each) => ({
      ...each,
      transitions: each.transitions.map(transitionOf),
    }));
  }
}

export interface EnvCheckOptions extends MakeOptions {
  /** Seed of the first episode. Default 0. */
  readonly seed?: number;
  /** Number of steps of each rollout, 1 to 1,000. Default 200; 20 for environments that run programs. */
  readonly steps?: number;
}

/** The rules that an environment breaks. */
export interface EnvCheckReport {
  /** The findings; none: the environment kept its contract as far as it was played. */
  readonly findings: readonly EnvFinding[];
  /** The verdict of Gymnasium's own checker about an environment of Python. */
  readonly gymnasium?: GymnasiumVerdict;
}

/** A space by its environment. */
export interface SpaceOfEnvironment extends MakeOptions {
  readonly environment: string;
  readonly of: 'action' | 'observation';
}

const spaceFields = (space: EnvRecord | SpaceOfEnvironment) => {
  const { environment, of, make } = space as Partial<SpaceOfEnvironment>;
  if (environment === undefined || of === undefined) return { space: space as EnvRecord };
  return { space: of, env_name: environment, ...(make && { options: { make } }) };
};

/** One episode at a host. */
export class RemoteEpisode<Observation = unknown, Action = unknown> implements AsyncDisposable {
  readonly id: string;
  readonly #agent: AgentSession;
  #latest: StepResult<Observation>;

  constructor(agent: AgentSession, obs: EnvObservation) {
    this.#agent = agent;
    this.id = obs.episode_id;
    this.#latest = resultOf(obs);
  }

  /** The newest observation. */
  get observation(): Observation {
    return this.#latest.observation;
  }

  /** The result of the newest step; after a reset, its observation with reward 0. */
  get latest(): StepResult<Observation> {
    return this.#latest;
  }

  get done(): boolean {
    return this.#latest.done;
  }

  /** Rejects with `unknown_action` (the step did not count), or `runtime_error` for an episode that has ended. */
  async step(action: Action, options: CallOptions = {}): Promise<StepResult<Observation>> {
    const { obs } = await this.#agent.calls.call(
      calls.step,
      { episode_id: this.id, action: asAction(action) },
      options,
    );
    this.#latest = resultOf(obs as EnvObservation);
    return this.#latest;
  }

  /** Steps until the episode ends: `for await (const step of episode.play(policy))`. Leaving the loop stops. */
  async *play(
    policy: (observation: Observation, latest: StepResult<Observation>) => Action | Promise<Action>,
    options: CallOptions = {},
  ): AsyncGenerator<StepResult<Observation>, void> {
    while (!this.done) yield await this.step(await policy(this.observation, this.#latest), options);
  }

  /** Requests the newest observation from the host: another session of this agent may have stepped the episode. */
  async observe(options: CallOptions = {}): Promise<StepResult<Observation>> {
    const { obs } = await this.#agent.calls.call(calls.observe, { episode_id: this.id }, options);
    this.#latest = resultOf(obs as EnvObservation);
    return this.#latest;
  }

  /**
   * Returns a picture. Rejects with `schema_violation` for a mode that the environment does not have; `detail.modes` lists its
   * modes.
   */
  async render(
    mode: 'text' | 'ansi' | 'rgb_array' | 'screenshot' | 'png' = 'screenshot',
    options: CallOptions = {},
  ): Promise<Rendering> {
    const { render } = await this.#agent.calls.call(calls.render, { episode_id: this.id, mode }, options);
    return render as Rendering;
  }

  /** Returns the actions that are possible now. */
  async suggestions(options: CallOptions = {}): Promise<readonly Suggestion<Action>[]> {
    const { suggested_actions: found = [] } = await this.#agent.calls.call(
      calls.plan,
      { episode_id: this.id },
      options,
    );
    return found.map(({ payload, metadata }) => ({
      action: membersOf(payload).action as Action,
      label: String(membersOf(metadata).label ?? ''),
    }));
  }

  /** Yields its stored transitions, the oldest first, a page at a time. */
  async *transitions(options: CallOptions = {}): AsyncGenerator<Transition, void> {
    let after = 0;
    for (;;) {
      const body = { episode_id: this.id, after, limit: PAGE };
      const { episodes = [] } = await this.#agent.calls.call(calls.expList, body, options);
      const page = ((episodes[0]?.transitions ?? []) as readonly StoredTransition[]).map(transitionOf);
      yield* page;
      if (page.length < PAGE) return;
      after = page.at(-1)?.index ?? after;
    }
  }

  /** Ends the episode. Closing it twice is fine. */
  async close(options: CallOptions = {}): Promise<void> {
    await this.#agent.calls.call(calls.close, { episode_id: this.id }, options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Several episodes that one message steps. */
export class RemoteVector<Observation = unknown, Action = unknown> implements AsyncDisposable {
  readonly episodes: readonly RemoteEpisode<Observation, Action>[];
  readonly #agent: AgentSession;
  readonly #ids: string[];
  #observations: readonly Observation[];

  constructor(agent: AgentSession, episodes: readonly RemoteEpisode<Observation, Action>[]) {
    this.#agent = agent;
    this.episodes = episodes;
    this.#ids = episodes.map(({ id }) => id);
    this.#observations = episodes.map(({ observation }) => observation);
  }

  get count(): number {
    return this.#ids.length;
  }

  /** The newest observations. */
  get observations(): readonly Observation[] {
    return this.#observations;
  }

  /** Steps each episode once. Rejects when a step was refused: `detail.at` is its number. */
  async step(actions: readonly Action[], options: CallOptions = {}): Promise<readonly StepResult<Observation>[]> {
    const outcomes = await this.stepEach(actions, options);
    const at = outcomes.findIndex((outcome) => outcome instanceof HandfastError);
    if (at >= 0) {
      const { code, message, detail } = outcomes[at] as HandfastError;
      throw new HandfastError(code, message, { detail: { ...detail, at } });
    }
    return outcomes as readonly StepResult<Observation>[];
  }

  /** Steps each episode once; an error stands in place of a refused step. */
  async stepEach(
    actions: readonly Action[],
    options: CallOptions = {},
  ): Promise<readonly (StepResult<Observation> | HandfastError)[]> {
    const body = { episode_ids: this.#ids, actions: actions.map(asAction) };
    const { results } = await this.#agent.calls.call(calls.batchStep, body, options);
    const outcomes = results.map(({ obs, error }) =>
      isObject(error) ? errorOf(error) : resultOf<Observation>(obs as EnvObservation),
    );
    this.#observations = outcomes.map((outcome, at) =>
      outcome instanceof HandfastError ? (this.#observations[at] as Observation) : outcome.observation,
    );
    return outcomes;
  }

  /** Ends all episodes. */
  async close(options: CallOptions = {}): Promise<void> {
    // A host without extensions may reply without the id of the request: then only one request may wait for its reply.
    if (this.#agent.extensions.size === 0) for (const episode of this.episodes) await episode.close(options);
    else await Promise.all(this.episodes.map((episode) => episode.close(options)));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const asAction = (action: unknown): EnvRecord => ({ action_type: 'step', payload: { action } });

const errorOf = ({ code, message, detail }: EnvRecord): HandfastError =>
  new HandfastError(String(code), String(message ?? code), { detail: membersOf(detail), capability: 'env' });

/** An episode, as hosts send it. */
type SentEpisode = Omit<StoredEpisode, 'transitions'> & { readonly transitions: readonly StoredTransition[] };

const transitionOf = (sent: StoredTransition): Transition => ({
  ...sent,
  reward: numberFromWire(sent.reward) ?? Number.NaN,
});

function resultOf<Observation>(obs: EnvObservation): StepResult<Observation> {
  const { state, reward, done = false, truncated = false, step_num: step } = obs;
  const metadata = membersOf(obs.metadata);
  const { terminated = done && !truncated } = metadata as { terminated?: boolean };
  return {
    observation: (state as EnvRecord).observation as Observation,
    reward: reward ?? Number(metadata.reward ?? 0),
    terminated,
    truncated,
    done,
    info: membersOf(metadata.info),
    step,
    ...(metadata.final_observation !== undefined && {
      final: { observation: metadata.final_observation as Observation, info: membersOf(metadata.final_info) },
    }),
  };
}
