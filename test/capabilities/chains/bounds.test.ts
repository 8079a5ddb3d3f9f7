/** Chains that are small as a message and endless when they run: the values they make, check and evaluate are bounded. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jsonChars } from '../../../src/base/json-size.ts';
import { OutputChars } from '../../../src/capabilities/chains/engine/output-chars.ts';
import type { ChainNode, ChainResult } from '../../../src/capability.ts';
import { agentOf, call, chainHost } from './support.ts';

/** Returns the error of the node that failed. */
const causeOf = ({ error }: ChainResult) => error?.detail?.error as { code: string; detail?: { reason?: string } };

/** Each node has the one before it twice. */
const doubling: readonly ChainNode[] = Array.from({ length: 64 }, (_, at) => ({
  node_id: `n${at}`,
  kind: 'gather',
  ...(at > 0 && { after: [`n${at - 1}`] }),
  input_map: { left: at === 0 ? 'x' : `$.n${at - 1}`, right: at === 0 ? 'x' : `$.n${at - 1}` },
}));

/** An expression that takes some milliseconds. */
const slow = { jmespath: 'length(map(&map(&map(&length(@), $.list), $.list), $.list))' };
const list = Array.from({ length: 60 }, () => 'x');

test('what nodes make of each other counts as it is written, not as it is shared', async (t) => {
  const { host, called } = await chainHost(t, { chains: { maxOutputChars: 100_000 } });
  const { chains } = await agentOf(t, host);
  assert.equal(causeOf(await chains.run({ nodes: [...doubling] })).code, 'chains.too_large');
  const nested = doubling.map(({ input_map, ...node }) => node);
  assert.equal((await chains.run({ nodes: nested })).success, true);
  const deep = Array.from(
    { length: 300 },
    (_, at): ChainNode => ({ ...nested[0]!, node_id: `n${at}`, ...(at > 0 && { after: [`n${at - 1}`] }) }),
  );
  assert.equal(causeOf(await chains.run({ nodes: deep })).code, 'chains.too_large');

  const many = Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`f${at}`, '$.list']));
  const wide = await chains.run(
    { nodes: [call('wide', { input_map: many })] },
    { list: Array.from({ length: 1_000 }, () => 0) },
  );
  assert.equal(causeOf(wide).detail?.reason, 'steps');
  assert.deepEqual(called, []);
});

test('one output is bounded apart from all of them', () => {
  const chars = new OutputChars(64 * 1024 * 1024, undefined);
  for (let at = 0; at < 7; at++) chars.count('x'.repeat(8 * 1024 * 1024 - 2));
  assert.throws(() => chars.count('x'.repeat(8 * 1024 * 1024)), /the output is longer than 8388608 characters/);
  assert.throws(() => chars.count(new Array(600_000).fill(0)), /the output has more than 524288 values/);
  chars.count(new Array(500_000).fill(0));
  assert.throws(() => chars.count('x'.repeat(8 * 1024 * 1024 - 2)), /the outputs of the run are longer/);
});

test('a dry run over the wire is bounded as a run is', async (t) => {
  const { host } = await chainHost(t);
  const agent = await agentOf(t, host);
  const doubled = agent.request('chain/check/req', { nodes: doubling, samples: {} });
  await assert.rejects(doubled, { code: 'chains.too_large' });
  const map: ChainNode = { node_id: 'm', kind: 'map', items_path: '$.list', map_node: 'x' };
  const nodes = [map, call('x', { input_map: { each: { jmespath: 'length(map(&length(@), $.list))' } } })];
  const initial_input = { list: Array.from({ length: 20_000 }, () => 'x') };
  const endless = agent.request('chain/check/req', { nodes, entry_node: 'm', initial_input, samples: {} });
  await assert.rejects(endless, { code: 'chains.too_large' });
});

test('a schema of an output that never ends fails its node', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const text = `${'a'.repeat(40)}!`;
  const properties = { name: { type: 'string', pattern: '^(a+)+$' } };
  const pattern = await chains.run({ nodes: [call('x', { input: { name: text }, output_schema: { properties } })] });
  assert.deepEqual([causeOf(pattern).code, causeOf(pattern).detail?.reason], ['schema_violation', 'time']);

  const twice = (name: string) => ({ allOf: [{ $ref: `#/$defs/${name}` }, { $ref: `#/$defs/${name}` }] });
  const $defs = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`d${at}`, twice(`d${at + 1}`)]));
  const bomb = { $ref: '#/$defs/d0', $defs: { ...$defs, d40: { type: 'object' } } };
  const references = await chains.run({ nodes: [call('x', { output_schema: bomb })] });
  assert.equal(causeOf(references).detail?.reason, 'time');

  const fits = await chains.run({
    nodes: [call('x', { output_schema: { properties: { name: { type: 'number' } } } })],
  });
  assert.match(fits.error?.message ?? '', /name must be number/);
});

test('a run whose nodes only evaluate leaves others their turns', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const other = await agentOf(t, host, 'ben');
  const nodes = Array.from(
    { length: 60 },
    (_, at): ChainNode => ({ node_id: `n${at}`, kind: 'gather', input_map: { slow } }),
  );
  const order: string[] = [];
  const run = chains.run({ nodes }, { list }, { durable: false }).then(() => order.push('run'));
  await Promise.all([run, other.ping().then(() => order.push('ping'))]);
  assert.deepEqual(order, ['ping', 'run']);
});

test('the history of a node of a long run leaves others their turns', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const other = await agentOf(t, host, 'ben');
  const nodes: ChainNode[] = [
    { node_id: 'each', kind: 'map', items_path: '$.items', map_node: 'one', parallel: 50 },
    call('one'),
    call('last', { after: ['each'] }),
  ];
  const items = Array.from({ length: 10_000 }, (_, at) => at);
  await chains.run({ nodes, entry_node: 'each' }, { items }, { chainId: 'r' });
  const order: string[] = [];
  const history = chains.history('r', { nodeId: 'last' }).then(({ entries }) => {
    order.push('history');
    return entries.map(({ phase }) => phase);
  });
  await Promise.all([history, other.ping().then(() => order.push('ping'))]);
  assert.deepEqual(
    [order, await history],
    [
      ['ping', 'history'],
      ['start', 'done'],
    ],
  );
});

test('the size of a value as JSON', () => {
  const bounds = { chars: 100, depth: 3, values: 10 };
  for (const value of [null, true, 12.5, 'abc', [], [1, [2]], { a: { b: [1] } }, '', [{}]]) {
    const found = jsonChars(value, bounds);
    assert.ok(typeof found === 'number');
    const { length } = JSON.stringify(value);
    assert.ok(found >= length && found <= length + 4, `${JSON.stringify(value)}: ${found}`);
  }
  assert.equal(jsonChars('x'.repeat(200), bounds), 'chars');
  assert.equal(jsonChars([[[[]]]], bounds), 'depth');
  assert.equal(
    jsonChars(
      Array.from({ length: 20 }, () => 1),
      bounds,
    ),
    'values',
  );
});
