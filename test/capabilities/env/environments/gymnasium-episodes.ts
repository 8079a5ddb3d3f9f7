/**
 * Plays recorded episodes of Gymnasium again and compares: the few that are checked in, and in the interop test a thousand of
 * each environment.
 */
import assert from 'node:assert/strict';
import type { Environment } from '../../../../src/capabilities/env/environment.ts';
import { randomMap } from '../../../../src/capabilities/env/environments/frozen-lake.ts';
import { environmentKinds, makeEnvironment } from '../../../../src/capabilities/env/registry.ts';
import type { JsonObject } from '../../../../src/wire/json.ts';

/** One line of `gymnasium-recorder.py episodes`. */
interface Episode {
  readonly variant: number;
  readonly id: string;
  readonly make: JsonObject;
  readonly options: JsonObject;
  readonly seed: number | null;
  readonly start: { readonly observation: unknown; readonly info: JsonObject };
  readonly actions: readonly number[];
  readonly observations: readonly unknown[];
  readonly rewards: readonly number[];
  readonly terminated: boolean;
  readonly truncated: boolean;
  readonly infos?: readonly JsonObject[];
  readonly renders?: readonly string[];
  readonly states?: readonly (readonly number[])[];
  readonly action_seed?: number;
}

interface RandomMap {
  readonly map: JsonObject;
  readonly rows: readonly string[];
}

/**
 * Largest difference of a free-running episode; and of a step from the same state, for chaotic episodes: of Acrobot, and of a
 * pole held up for 500 steps, in which the last digit of a sine grows by e each quarter of a second.
 */
const FREE_RUNNING = 1e-9;
const SAME_STATE = 1e-12;
/**
 * Observations of Acrobot are float32: two cosines that differ in their last digit as float64 may round to neighbours. NumPy
 * computes its first observation in float32, which may differ by one digit more.
 */
const FLOAT32 = 2.5e-7;

/** Plays one environment after the other; each continues its generator from episode to episode. */
export class GymnasiumComparison {
  readonly counts = new Map<string, { episodes: number; steps: number; worst: number }>();
  #environment: Environment | undefined;
  #variant = -1;

  async play(line: string): Promise<void> {
    const episode = JSON.parse(line) as Episode | RandomMap;
    if ('map' in episode) {
      assert.deepEqual(randomMap(episode.map), episode.rows);
      return;
    }
    if (episode.variant !== this.#variant) {
      this.#environment = await makeEnvironment(environmentKinds.find(({ id }) => id === episode.id)!, episode.make);
      this.#variant = episode.variant;
    }
    await this.#compare(this.#environment!, episode);
  }

  async #compare(environment: Environment, episode: Episode): Promise<void> {
    const { id, seed, options, actions, states } = episode;
    const name = `${id} ${JSON.stringify(episode.make)} seed ${seed}`;
    const count = this.counts.get(id) ?? { episodes: 0, steps: 0, worst: 0 };
    this.counts.set(id, count);
    const same = (actual: unknown, expected: unknown, what: string, limit: number): void => {
      const difference = distance(actual, expected);
      if (limit <= FREE_RUNNING) count.worst = Math.max(count.worst, difference);
      if (difference > limit)
        assert.fail(`${name}, ${what}: ${JSON.stringify(actual)} is not ${JSON.stringify(expected)}`);
    };
    const observed = states === undefined ? FREE_RUNNING : FLOAT32;
    const start = await environment.reset({ seed, options });
    same(start.observation, episode.start.observation, 'start', observed);
    same(start.info, episode.start.info, 'start info', FREE_RUNNING);
    const sample = episode.action_seed === undefined ? undefined : environment.actionSpace.sampler(episode.action_seed);
    for (const [at, action] of actions.entries()) {
      if (states !== undefined) this.#setState(environment, states[at]!);
      if (at < (episode.renders?.length ?? 0))
        assert.equal(await environment.render!('ansi'), episode.renders![at], name);
      if (sample !== undefined) assert.equal(sample(), action, `${name}: sample ${at}`);
      const step = await environment.step(action);
      same(step.observation, episode.observations[at], `observation ${at}`, observed);
      same(step.reward, episode.rewards[at], `reward ${at}`, FREE_RUNNING);
      if (episode.infos !== undefined) same(step.info, episode.infos[at], `info ${at}`, FREE_RUNNING);
      if (states !== undefined) same(this.#state(environment), states[at + 1], `state ${at + 1}`, SAME_STATE);
      const ended = at === actions.length - 1;
      assert.equal(step.terminated, ended && episode.terminated, `${name}: terminated at ${at}`);
      assert.equal(step.truncated, ended && episode.truncated, `${name}: truncated at ${at}`);
      assert.ok(environment.observationSpace.contains(step.observation), `${name}: observation ${at} is outside`);
    }
    count.episodes += 1;
    count.steps += actions.length;
  }

  /** Returns the state of the physics, below the time limit. */
  #state(environment: Environment): unknown {
    const { inner } = environment.snapshot!() as { inner: { state: { state: unknown } } };
    return inner.state.state;
  }

  #setState(environment: Environment, state: readonly number[]): void {
    const snapshot = environment.snapshot!() as { inner: { state: JsonObject } };
    snapshot.inner.state.state = [...state];
    environment.restore!(snapshot);
  }
}

/** Returns the largest difference of two numbers in the same places; infinite if the forms differ. */
function distance(actual: unknown, expected: unknown): number {
  if (typeof actual === 'number' && typeof expected === 'number') return Math.abs(actual - expected);
  if (typeof actual !== 'object' || typeof expected !== 'object' || actual === null || expected === null)
    return Object.is(actual, expected) ? 0 : Infinity;
  const [ours, theirs] = [Object.entries(actual), Object.entries(expected)];
  if (ours.length !== theirs.length) return Infinity;
  const wanted = new Map(theirs);
  return Math.max(0, ...ours.map(([key, value]) => distance(value, wanted.get(key))));
}
