/**
 * The earnings of the agent of `examples/learner.ts` from choosing among its strategies, beside each strategy alone:
 * the same lake, seeds and policy, without a host. Prints the share of episodes that crossed, mean over seeds with a 95
 * % confidence interval.
 *
 *   SEEDS=50 EPISODES=200 node -C handfast-source bench/learner-strategies.ts
 */
import { builtinEnvironments } from 'handfast/env';
import { type Ice, knownShare, learnStep, strategies } from '../examples/learner.ts';
import { Bandit } from '../src/base/bandits/bandit.ts';

const SEEDS = Number(process.env.SEEDS ?? 50);
const EPISODES = Number(process.env.EPISODES ?? 200);
const MAX_STEPS = 100;

const kind = builtinEnvironments.find(({ id }) => id === 'FrozenLake-v1')!;

/** Returns the episodes that crossed. */
async function play(options: readonly string[], seed: number): Promise<boolean[]> {
  const ice: Ice = new Map();
  const bandit = Bandit.start({ name: 'linucb' }, seed);
  const lake = await kind.make({});
  const crossed: boolean[] = [];
  for (let number = 1; number <= EPISODES; number++) {
    const features = [knownShare(ice)];
    const { option } = bandit.decide({ options, features });
    const choose = strategies[option as keyof typeof strategies](ice);
    let cell = (await lake.reset({ seed: seed * 100_000 + number })).observation as number;
    let last = { terminated: false, reward: 0 };
    // The next episode knows the findings of an episode, as in the example.
    const steps: Parameters<typeof learnStep>[1][] = [];
    while (!last.terminated && steps.length < MAX_STEPS) {
      const action = choose(cell);
      const { observation, terminated, reward } = await lake.step(action);
      last = { terminated, reward };
      steps.push({ cell, action, next: observation as number, ...last });
      cell = observation as number;
    }
    for (const step of steps) learnStep(ice, step);
    bandit.learn(option, last.reward, features);
    crossed.push(last.reward === 1);
  }
  return crossed;
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const shareOf = (crossed: readonly boolean[]) => crossed.filter(Boolean).length / crossed.length;

/** Returns mean and half of its interval, in percent. */
function shown(values: readonly number[]): string {
  const middle = mean(values);
  const variance = values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1);
  if (values.length === 1) return `${(middle * 100).toFixed(1)} %`;
  return `${(middle * 100).toFixed(1)} ± ${(196 * Math.sqrt(variance / values.length)).toFixed(1)} %`;
}

const names = Object.keys(strategies);
console.log(`${SEEDS} seeds, ${EPISODES} episodes: all, and the last third`);
for (const options of [names, ...names.map((name) => [name])]) {
  const runs: boolean[][] = [];
  for (let seed = 1; seed <= SEEDS; seed++) runs.push(await play(options, seed));
  const all = shown(runs.map(shareOf));
  const last = shown(runs.map((crossed) => shareOf(crossed.slice(-Math.ceil(EPISODES / 3)))));
  console.log(`${(options.length > 1 ? 'learned' : options[0]!).padEnd(8)} ${all.padStart(14)} ${last.padStart(14)}`);
}
