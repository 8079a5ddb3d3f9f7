/**
 * An agent that plays: it balances a pole over the wire, plays eight episodes by one message a step, acts in words in a house,
 * and checks an environment.
 *
 * Run it with `node -C handfast-source examples/env.ts`.
 */
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { connect } from 'handfast';

process.chdir(dirname(import.meta.dirname));
const command = [process.execPath, ...process.execArgv, 'src/cli/main.ts', 'stdio'];
// A separate host, as a child.
const address = `stdio:${command.map((word) => JSON.stringify(word)).join(' ')}`;

type Pole = [position: number, velocity: number, angle: number, spin: number];

// #region quick-start
await using agent = await connect(address, { capabilities: ['env'] });
await using episode = await agent.env.reset<Pole, number>('CartPole-v1', { seed: 42 });

/** Pushes to the side to which the pole falls. */
const push = ([, , angle, spin]: Pole) => (angle + spin > 0 ? 1 : 0);
let earned = 0;
for await (const { reward } of episode.play(push)) earned += reward;
console.log(`kept the pole up for ${earned} steps`); // 500 is the limit
// #endregion
assert.ok(earned >= 100);

// #region vector
await using poles = await agent.env.vector<Pole, number>('CartPole-v1', 8, { seed: 7, autoreset: 'same_step' });
let fallen = 0;
for (let step = 0; step < 200; step += 1) {
  const results = await poles.step(poles.observations.map(([, , angle]) => (angle > 0 ? 1 : 0)));
  // `final` is the last observation of an episode whose successor has started.
  fallen += results.filter(({ final }) => final !== undefined).length;
}
console.log(`${poles.count} poles, ${fallen} fell`);
// #endregion
assert.ok(fallen > 0);

// #region words
await using house = await agent.env.reset<string, string>('handfast/TextWorld-v0', { seed: 3 });
const [first = { action: 'look' }] = await house.suggestions();
const { observation } = await house.step(first.action);
console.log(`> ${first.action}\n${observation}`);
// #endregion

const { findings } = await agent.env.check('FrozenLake-v1');
console.log(`FrozenLake-v1 breaks ${findings.length} rules`);
assert.deepEqual(findings, []);
