/**
 * The contract of an environment, Gymnasium's (1.4.0) in TypeScript, for the plugin, wrappers and the bridge to Python. An
 * environment knows nothing of messages, sessions or time limits.
 *
 * Every method may return its result or a promise of it. Environments that compute return results at once, because a promise
 * for each step would cost more than the step.
 */
import type { JsonSchema } from '../../base/json-schema.ts';
import type { JsonObject } from '../../wire/json.ts';
import type { CheckReport, CheckRequest } from './check/findings.ts';
import type { Image } from './rendering/image.ts';
import type { Space } from './spaces/space.ts';

/** A result, or a promise of it. */
export type Soon<Value> = Value | Promise<Value>;

/** Applies a function to a result, or to the resolved value of its promise. */
export function then<From, To>(result: Soon<From>, change: (value: From) => To): Soon<To> {
  return result instanceof Promise ? result.then(change) : change(result);
}

/** The result of `reset`. Values are fresh: the environment does not change them later. */
export interface Start<Observation = unknown> {
  readonly observation: Observation;
  readonly info: JsonObject;
}

/** The result of `step`. `terminated`: the task ended. `truncated`: a limit outside of the task ended the episode. */
export interface Step<Observation = unknown> {
  readonly observation: Observation;
  readonly reward: number;
  readonly terminated: boolean;
  readonly truncated: boolean;
  readonly info: JsonObject;
}

/** The parameters of a reset. */
export interface ResetRequest {
  /** 0 to 2^53 - 1 seeds the generator; absent or null continues it, and the first time takes a random seed. */
  readonly seed?: number | null;
  /** The `options` of Gymnasium's `reset`. */
  readonly options?: JsonObject;
  /** Ends a reset that waits; environments that compute ignore it. */
  readonly signal?: AbortSignal;
}

/**
 * Effect of a step of an episode that has ended. `disabled`: it is refused. `next_step`: its action is ignored and the next
 * episode starts. `same_step`: the step that ends an episode starts the next one.
 */
export type Autoreset = 'disabled' | 'next_step' | 'same_step';

/** The call that a step is part of. The signal is made at its first use: most environments are faster than any abort. */
export interface StepCall {
  readonly signal: AbortSignal;
}

export type RenderMode = 'ansi' | 'rgb_array';

/**
 * One environment, used by one caller at a time.
 *
 * Failures: `env.invalid_options` for options of `reset`, `unknown_action` for an action outside of `actionSpace` (neither counts
 * nor moves the generator), `runtime_error` for a step before `reset` or a failure inside.
 */
export interface Environment<Observation = unknown, Action = unknown> {
  readonly actionSpace: Space<Action>;
  readonly observationSpace: Space<Observation>;
  /** The modes that `render` knows. Absent: it draws nothing. */
  readonly renderModes?: readonly RenderMode[];
  reset(request?: ResetRequest): Soon<Start<Observation>>;
  /** Does one step. A step that throws the reason of `call.signal` did not happen. */
  step(action: Action, call?: StepCall): Soon<Step<Observation>>;
  /** Returns a picture of the current state: text for `ansi`, pixels for `rgb_array`. */
  render?(mode: RenderMode): Soon<string | Image>;
  /**
   * Returns the actions that are possible now, for `env/plan`: payloads of actions with a description each. Absent: every
   * action at any time.
   */
  affordances?(): readonly Affordance[];
  /**
   * Returns the whole state as JSON, with that of the generator. Absent: only a replay of seed and actions rebuilds the state.
   */
  snapshot?(): JsonObject;
  /** Continues exactly from a `snapshot` of an environment of the same kind and options. */
  restore?(snapshot: JsonObject): void;
  /**
   * Returns the state of the generator alone, for environments without `snapshot`: a null seed continues it in another
   * environment.
   */
  generator?(): Soon<string>;
  /** Continues the generator from a state of `generator`. */
  continueFrom?(generator: string): Soon<void>;
  close?(): Soon<void>;
}

/** One action that makes sense now. */
export interface Affordance<Action = unknown> {
  /** An element of the action space. */
  readonly action: Action;
  /** Its effect in words: `move left`. */
  readonly description: string;
}

/** A registered id: distinct ids are distinct environments, even where they share their code. */
export interface EnvironmentKind {
  /** Its `env_name` on the wire: `CartPole-v1`. */
  readonly id: string;
  /** One sentence. */
  readonly about: string;
  /** Steps after which the time limit truncates. Absent: no limit. */
  readonly maxEpisodeSteps?: number;
  /** The mean return at which the task counts as solved. */
  readonly rewardThreshold?: number;
  /** JSON Schema of `options.make`. */
  readonly makeOptions: JsonSchema;
  /** JSON Schema of the other members of `options`, which `reset` takes. */
  readonly resetOptions: JsonSchema;
  /** True when it runs programs on this machine: offered only if configured and granted. */
  readonly runsCode?: boolean;
  /** True when equal seeds and actions may lead to other results: the output of its programs contains a time. */
  readonly nondeterministic?: boolean;
  /** Checks the environment in its own process, if that is not this one. Absent: `check/check.ts` does. */
  check?(make: JsonObject, request: CheckRequest): Promise<CheckReport>;
  /** Makes one environment, without the time limit. `options` fit `makeOptions`, defaults not filled in. */
  make(options: JsonObject): Soon<Environment>;
}
