/** Wrappers, by their functions and by the names of `options.make.wrappers`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Environment, Step } from '../../../../src/capabilities/env/environment.ts';
import { environmentKinds, makeEnvironment } from '../../../../src/capabilities/env/registry.ts';
import { Box } from '../../../../src/capabilities/env/spaces/box.ts';
import { clipAction } from '../../../../src/capabilities/env/wrappers/clip.ts';
import { episodeStatistics } from '../../../../src/capabilities/env/wrappers/episode-statistics.ts';
import { record } from '../../../../src/capabilities/env/wrappers/record.ts';
import type { JsonObject } from '../../../../src/wire/json.ts';

const make = (id: string, options: JsonObject = {}): Promise<Environment> =>
  makeEnvironment(environmentKinds.find((kind) => kind.id === id)!, options);

/** Steps with the action until the episode ends. */
async function play(environment: Environment, action: unknown, most = 1000): Promise<Step[]> {
  const steps: Step[] = [];
  while (steps.length < most) {
    const step = await environment.step(action);
    steps.push(step);
    if (step.terminated || step.truncated) break;
  }
  return steps;
}

test('the time limit of the id truncates, and max_episode_steps replaces it', async () => {
  const standard = await make('MountainCar-v0');
  await standard.reset({ seed: 1 });
  const steps = await play(standard, 1);
  assert.deepEqual([steps.length, steps.at(-1)!.truncated, steps.at(-1)!.terminated], [200, true, false]);
  await standard.reset();
  assert.equal((await play(standard, 1)).length, 200, 'a reset starts the count again');
  const short = await make('MountainCar-v0', { max_episode_steps: 7 });
  await short.reset({ seed: 1 });
  assert.equal((await play(short, 1)).length, 7);
});

test('an episode that ends at its time limit is terminated and truncated', async () => {
  const environment = await make('CliffWalking-v1', { max_episode_steps: 13 });
  await environment.reset({ seed: 0 });
  const way = [0, ...new Array<number>(11).fill(1), 2];
  const steps: Step[] = [];
  for (const action of way) steps.push(await environment.step(action));
  assert.deepEqual([steps.at(-1)!.terminated, steps.at(-1)!.truncated], [true, true]);
});

test('statistics are in the info of the last step alone, and survive a snapshot', async () => {
  let clock = 0;
  const statistics = async () => episodeStatistics(await make('CartPole-v1'), { now: () => clock });
  const environment = await statistics();
  await environment.reset({ seed: 3 });
  clock += 500;
  await environment.step(1);
  const copy = await statistics();
  clock += 1000;
  copy.restore!(JSON.parse(JSON.stringify({ ...environment.snapshot!() })) as JsonObject);
  for (const each of [environment, copy]) {
    const steps = await play(each, 1);
    const length = steps.length + 1;
    assert.deepEqual(steps.at(-1)!.info, { episode: { r: length, l: length, t: 1.5 } });
    assert.ok(steps.slice(0, -1).every(({ info }) => info.episode === undefined));
  }
});

test('rewards are clipped, observations are stacked, in the order of the names', async () => {
  const environment = await make('Taxi-v4', {
    wrappers: [
      { name: 'clip_reward', min_reward: -1, max_reward: 1 },
      'record_episode_statistics',
      { name: 'frame_stack', stack_size: 3, padding_type: 'zero' },
    ],
    max_episode_steps: 4,
  });
  const { observation } = await environment.reset({ seed: 5 });
  const first = (observation as number[])[2]!;
  assert.deepEqual(observation, [0, 0, first]);
  assert.deepEqual(environment.observationSpace.describe().type, 'MultiDiscrete');
  const steps = await play(environment, 5);
  assert.deepEqual(
    steps.map(({ reward }) => reward),
    [-1, -1, -1, -1],
    'an illegal drop-off costs 10',
  );
  assert.equal((steps.at(-1)!.info.episode as JsonObject).r, -4);
  assert.deepEqual(steps[0]!.observation, [0, first, first]);
  for (const step of steps) assert.ok(environment.observationSpace.contains(step.observation));
  const again = await environment.reset();
  assert.deepEqual((again.observation as number[]).slice(0, 2), [0, 0], 'no frame of the last episode is left');
});

test('a stack of frames starts with the first observation again, and its snapshot continues it', async () => {
  const wrappers = [{ name: 'frame_stack', stack_size: 2 }];
  const environment = await make('CartPole-v1', { wrappers });
  const { observation } = await environment.reset({ seed: 9 });
  const [before, now] = observation as number[][];
  assert.deepEqual(before, now);
  await environment.step(0);
  const copy = await make('CartPole-v1', { wrappers });
  copy.restore!(JSON.parse(JSON.stringify(environment.snapshot!())) as JsonObject);
  assert.deepEqual(await copy.step(1), await environment.step(1));
});

test('actions outside of a Box are brought to its bounds before the environment sees them', async () => {
  const seen: unknown[] = [];
  const inner = {
    ...(await make('CartPole-v1')),
    actionSpace: new Box([-1, 0], [1, 2]),
    step: (action: unknown): Step => {
      seen.push(action);
      return { observation: 0, reward: 0, terminated: false, truncated: false, info: {} };
    },
  };
  const environment = clipAction(inner);
  await environment.step([5, -3]);
  await environment.step([-Infinity, 1]);
  assert.deepEqual(seen, [
    [1, 0],
    [-1, 1],
  ]);
  assert.ok(environment.actionSpace.contains([1e9, -1e9]));
});

test('a recorder receives every start and step', async () => {
  const seen: unknown[] = [];
  const environment = record(await make('FrozenLake-v1', { is_slippery: false }), {
    started: ({ observation }, { seed }) => seen.push(['start', observation, seed]),
    stepped: (action, { observation, terminated }) => seen.push([action, observation, terminated]),
  });
  await environment.reset({ seed: 4 });
  for (const action of [1, 2]) await environment.step(action);
  assert.deepEqual(seen, [
    ['start', 0, 4],
    [1, 4, false],
    [2, 5, true],
  ]);
});

test('options and wrappers that do not fit are refused, with their path', async () => {
  const refused: readonly [string, JsonObject, RegExp][] = [
    ['CartPole-v1', { sutton_barto: true }, /sutton_barto/],
    ['CartPole-v1', { max_episode_steps: 0 }, /max_episode_steps/],
    ['CartPole-v1', { wrappers: ['frame_stack'] }, /wrappers/],
    ['CartPole-v1', { wrappers: [{ name: 'frame_stack', stack_size: 1e9 }] }, /wrappers/],
    ['CartPole-v1', { wrappers: ['constructor'] }, /wrappers/],
    ['CartPole-v1', { wrappers: ['clip_action'] }, /clip_action needs a Box/],
    ['Blackjack-v1', { wrappers: [{ name: 'frame_stack', stack_size: 2 }] }, /frame_stack needs/],
    ['CartPole-v1', { wrappers: [{ name: 'clip_reward', min_reward: 2, max_reward: 1 }] }, /min not above max/],
    ['FrozenLake-v1', { desc: ['SF', 'G'] }, /rows of one length/],
    ['FrozenLake-v1', { desc: ['FF', 'FG'] }, /an S/],
    ['FrozenLake-v1', { desc: ['SX'] }, /desc/],
    ['FrozenLake-v1', { random_map: { size: 30, p: 0.001, seed: 1 } }, /no map of 30x30/],
    ['FrozenLake-v1', { map_name: '5x5' }, /map_name/],
  ];
  for (const [id, options, message] of refused)
    await assert.rejects(make(id, options), { code: 'env.invalid_options', message }, JSON.stringify(options));
});
