/**
 * A custom environment: a number is to be guessed. It is checked, added to a host, and played by halving.
 *
 * Run it with `node -C handfast-source examples/environment.ts`, or load it into your host: name this file under
 * `plugins` in `handfast.yaml`.
 */
import assert from 'node:assert/strict';
import { connect, createHost } from 'handfast';
// #region environment
import {
  checkEnvironment,
  Discrete,
  defineEnvironment,
  type Environment,
  envPlugin,
  Generator,
  type ResetRequest,
  randomSeed,
} from 'handfast/env';

/** Guess a number from 0 to 99. Observations: 0 no guess yet, 1 it is higher, 2 it is lower, 3 found. */
class Guess implements Environment<number, number> {
  readonly actionSpace = new Discrete(100);
  readonly observationSpace = new Discrete(4);
  #random = new Generator(randomSeed());
  #secret = 0;

  reset({ seed }: ResetRequest = {}) {
    if (typeof seed === 'number') this.#random = new Generator(seed);
    this.#secret = Math.floor(this.#random.uniform(0, 100));
    return { observation: 0, info: {} };
  }

  step(guess: number) {
    const observation = guess === this.#secret ? 3 : guess < this.#secret ? 1 : 2;
    return { observation, reward: -1, terminated: observation === 3, truncated: false, info: {} };
  }
}

export const guess = defineEnvironment({
  id: 'example/Guess-v0',
  about: 'Guess a number from 0 to 99',
  maxEpisodeSteps: 20,
  make: () => new Guess(),
});

export const plugin = envPlugin({ environments: [guess] });
// #endregion

if (import.meta.main) {
  // #region play
  const { findings } = await checkEnvironment(guess);
  console.log(`breaks ${findings.length} rules`); // in a test of yours: assert.deepEqual(findings, [])

  await using host = createHost({ plugins: [plugin] });
  await host.start();
  await using agent = await connect(host, { capabilities: ['env'] });
  await using episode = await agent.env.reset<number, number>('example/Guess-v0', { seed: 7 });
  let [low, high] = [0, 99];
  while (!episode.done) {
    const middle = Math.floor((low + high) / 2);
    const { observation } = await episode.step(middle);
    if (observation === 1) low = middle + 1;
    else high = middle - 1;
  }
  console.log(`found in ${episode.latest.step} guesses`);
  // #endregion
  assert.deepEqual(findings, []);
  assert.ok(episode.latest.terminated && episode.latest.step <= 7);
}
