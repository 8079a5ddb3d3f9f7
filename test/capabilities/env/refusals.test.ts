/** The texts of refusals of actions and of described spaces: they name the wrong part, over the wire. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import {
  Box,
  Dict,
  Discrete,
  defineEnvironment,
  envPlugin,
  Graph,
  MultiBinary,
  MultiDiscrete,
  OneOf,
  Sequence,
  type Space,
  Text,
  Tuple,
} from '../../../src/env.ts';
import { createHost } from '../../../src/host.ts';
import { HandfastError } from '../../../src/wire/errors.ts';

/** A space in which each kind is nested, and an element of it. */
const space = new Dict({
  pair: new Tuple([new Discrete(2), new Dict({ speed: new Box(0, 1) })]),
  matrix: new Box(0, [
    [1, 2],
    [3, Infinity],
  ]),
  bits: new MultiBinary(3),
  counts: new MultiDiscrete([2, 5]),
  words: new Sequence(new Text(3)),
  either: new OneOf([new Discrete(2), new Text(3)]),
  graph: new Graph(new Box(0, 1, { shape: [2] }), new Discrete(2)),
  'a/b': new Discrete(2),
});
const element = {
  pair: [1, { speed: [0.5] }],
  matrix: [
    [0, 1],
    [2, 'Infinity'],
  ],
  bits: [0, 1, 1],
  counts: [1, 4],
  words: ['a', 'bcd'],
  either: [1, 'x'],
  graph: { nodes: [[0, 1]], edges: [1], edge_links: [[0, 0]] },
  'a/b': 1,
};

const kind = defineEnvironment({
  id: 'Nested',
  about: 'Takes an action of every kind',
  make: () => ({
    actionSpace: space as Space,
    observationSpace: new Discrete(1),
    reset: () => ({ observation: 0, info: {} }),
    step: () => ({ observation: 0, reward: -Infinity, terminated: false, truncated: false, info: {} }),
  }),
});

async function agentOf(t: TestContext) {
  const host = createHost({ plugins: [envPlugin({ environments: [kind] })] });
  await host.start();
  t.after(() => host.close());
  const agent = await connect(host, { capabilities: ['env'] });
  t.after(() => agent.close());
  return agent;
}

test('a refused action says which part of it is wrong', async (t) => {
  const agent = await agentOf(t);
  const episode = await agent.env.reset('Nested');
  await episode.step(element);
  const { 'a/b': _, ...incomplete } = element;
  for (const [action, path] of [
    [7, ''],
    [null, ''],
    [{ ...element, pair: [1, { speed: [1.5] }] }, '/pair/1/speed/0'],
    [{ ...element, pair: [1, { speed: 0.5 }] }, '/pair/1/speed'],
    [{ ...element, pair: [2, element.pair[1]] }, '/pair/0'],
    [{ ...element, pair: [1] }, '/pair'],
    [{ ...element, matrix: [element.matrix[0], [4, 'Infinity']] }, '/matrix/1/0'],
    [{ ...element, matrix: [element.matrix[0], [3]] }, '/matrix/1'],
    [{ ...element, matrix: [[0, 'NaN'], element.matrix[1]] }, '/matrix/0/1'],
    [{ ...element, bits: [0, 2, 1] }, '/bits/1'],
    [{ ...element, counts: [1, 5] }, '/counts/1'],
    [{ ...element, words: ['a', 'bcde'] }, '/words/1'],
    [{ ...element, either: [2, 'x'] }, '/either/0'],
    [{ ...element, either: [0, 'x'] }, '/either/1'],
    [{ ...element, graph: { ...element.graph, nodes: [[0, 2]] } }, '/graph/nodes/0/1'],
    [{ ...element, graph: { ...element.graph, edges: [2] } }, '/graph/edges/0'],
    [{ ...element, graph: { ...element.graph, edge_links: [[0, 1]] } }, '/graph'],
    [{ ...element, 'a/b': 2 }, '/a~1b'],
    [incomplete, '/a~1b'],
    [{ ...element, more: 1 }, '/more'],
  ] as const) {
    const refused = await episode.step(action).catch((error: unknown) => error);
    assert.ok(refused instanceof HandfastError);
    assert.deepEqual([refused.code, refused.detail.path], ['unknown_action', path], JSON.stringify(action));
    if (path !== '')
      assert.match(refused.message, new RegExp(`^payload.action is not an action of Nested: at ${path} `));
  }
  assert.equal((await episode.observe()).step, 1, 'none of them counted');
  const speed = await episode.step({ ...element, pair: [1, { speed: [1.5] }] }).catch((error: Error) => error.message);
  const bounds = '{"type":"Box","low":0,"high":1,"shape":[],"dtype":"float32"}';
  assert.equal(speed, `payload.action is not an action of Nested: at /pair/1/speed/0 expected an element of ${bounds}`);
  const more = await episode.step({ ...element, more: 1 }).catch((error: Error) => error.message);
  assert.equal(more, 'payload.action is not an action of Nested: at /more expected nothing of this name');
});

test('a refused description of a space says which part of it is wrong', async (t) => {
  const agent = await agentOf(t);
  const tuple = (...spaces: unknown[]) => ({ type: 'Tuple', spaces });
  for (const [description, path, message] of [
    [{ type: 'Discret', n: 2 }, '/space', /^unknown kind of space/],
    [
      tuple({ type: 'Discrete', n: 2 }, tuple({ type: 'Discrete', n: 0 })),
      '/space/spaces/1/spaces/0',
      /\(at \/space\//,
    ],
    [{ type: 'Dict', spaces: { 'a/b': { type: 'Sequence', space: 3 } } }, '/space/spaces/a~1b/space', /an object with/],
    [{ type: 'Graph', node_space: { type: 'Box', low: 1, high: 0 } }, '/space/node_space', /lower above than below/],
    [tuple({ type: 'Box', low: 0, high: 1, shape: [2_000_000] }), '/space/spaces/0', /more than 1000000 elements/],
  ] as const) {
    await assert.rejects(agent.env.sample(description), { code: 'schema_violation', message });
    await assert.rejects(
      agent.env.contains(description, 1),
      (error: HandfastError) => error.detail.path === path,
      path,
    );
  }
});

test('a stored reward that JSON has no form for is a text on the wire, and a number for agents', async (t) => {
  const agent = await agentOf(t);
  const episode = await agent.env.reset('Nested');
  await episode.step(element);
  const sent = await agent.request('env/exp/list/req', { episode_id: episode.id });
  const [{ transitions }] = sent.episodes as [{ transitions: { reward: unknown }[] }];
  assert.equal(transitions[0]?.reward, '-Infinity');
  assert.deepEqual((await Array.fromAsync(episode.transitions()))[0]?.reward, -Infinity);
  assert.deepEqual((await agent.env.experience())[0]?.transitions[0]?.reward, -Infinity);
});

test('the push of such a reward has it as a text', async (t) => {
  const host = createHost({ plugins: [envPlugin({ environments: [kind], durability: 'step' })] });
  await host.start();
  t.after(() => host.close());
  const one = await connect(host, { capabilities: ['env'], agentId: 'player' });
  const two = await connect(host, { capabilities: ['env'], agentId: 'player' });
  t.after(() => Promise.all([one.close(), two.close()]));
  const pushed = new Promise((resolve) => two.env.onEvent(resolve));
  await (await one.env.reset('Nested')).step(element);
  const { reward, reward_info } = (await pushed) as { reward: unknown; reward_info: unknown };
  assert.deepEqual({ reward, reward_info }, { reward: null, reward_info: { reward: '-Infinity' } });
});
