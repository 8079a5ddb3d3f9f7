/** Dry runs: the input that each node would get, and that a chain of A2E 1.0 follows the walk of the SDK. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DryRunOptions, dryRun } from '../../../src/capabilities/chains/definition/dry-run.ts';
import { readChain } from '../../../src/capabilities/chains/definition/read.ts';
import fc from '../../support/properties.ts';

type Node = Readonly<Record<string, unknown>>;
const tool = (id: string, more: Node = {}): Node => ({ node_id: id, kind: 'tool', name: 'echo', ...more });

function run(nodes: readonly Node[], options: DryRunOptions = {}, entry = '') {
  const { graph, problems } = readChain({ nodes, entry_node: entry });
  if (graph === undefined) assert.fail(JSON.stringify(problems));
  const done = dryRun(graph, options);
  return { ...done, states: Object.fromEntries(done.nodes.map((each) => [each.node_id, each.state])) };
}

const shop: readonly Node[] = [
  tool('read', { input: { path: 'list.json' }, next_node: 'any' }),
  { node_id: 'any', kind: 'branch', condition: 'size(read.items) > 0', true_node: 'each', false_node: 'none' },
  { node_id: 'each', kind: 'map', items_path: '$.read.items', map_node: 'price', next_node: 'sum' },
  tool('price', { input_map: { name: '$.item.name', no: '$.index' } }),
  { node_id: 'sum', kind: 'reduce', reduce: { jmespath: 'sum([].eur)' } },
  tool('none', { input: { text: 'nothing to do' } }),
];

test('inputs, maps and reductions are computed from samples', () => {
  const samples = { read: { items: [{ name: 'a' }, { name: 'b' }] }, price: { eur: 4 } };
  const { nodes, states, order, final_output, success } = run(shop, { samples });
  assert.deepEqual(order, ['read', 'any', 'each', 'sum']);
  assert.deepEqual(states, { read: 'done', any: 'done', each: 'done', price: 'done', sum: 'done', none: 'skipped' });
  assert.deepEqual(nodes[0]?.input, { path: 'list.json' });
  assert.equal(nodes[1]?.condition, true);
  assert.deepEqual([nodes[2]?.items, nodes[2]?.output], [2, [{ eur: 4 }, { eur: 4 }]]);
  assert.deepEqual(nodes[3]?.input, { name: 'a', no: 0 });
  assert.deepEqual([final_output, success], [8, true]);
});

test('a branch that is not chosen does not run, and what fails ends the chain where nothing else is said', () => {
  const empty = run(shop, { samples: { read: { items: [] } } });
  assert.deepEqual([empty.states.none, empty.states.each, empty.final_output], ['done', 'skipped', null]);
  const failed = run(shop, { failing: new Set(['read']) });
  assert.deepEqual([failed.success, failed.states.read, failed.states.any], [false, 'failed', 'cancelled']);
  const broken = run(shop, { samples: { read: 3 } });
  assert.deepEqual([broken.states.any, broken.nodes[1]?.error?.includes('condition')], ['failed', true]);
});

test('a graph runs a node once, when all before it have ended and a live edge leads to it', () => {
  const nodes = [
    tool('a', { on_error: 'repair' }),
    tool('b', { condition: 'input.both' }),
    tool('c', { on_error: 'skip' }),
    tool('repair'),
    { node_id: 'all', kind: 'gather', after: ['a', 'b', 'c', 'repair'] },
    tool('end', { after: ['all'], input_map: { all: '$.all' } }),
    tool('never', { after: ['repair'] }),
  ];
  const samples = { a: 1, b: 2, c: 3, repair: 4 };
  const fine = run(nodes, { samples, input: { both: false } });
  assert.deepEqual(fine.states, {
    a: 'done',
    b: 'skipped',
    c: 'done',
    repair: 'skipped',
    all: 'done',
    end: 'done',
    never: 'skipped',
  });
  assert.deepEqual(fine.nodes[5]?.input, { all: [1, null, 3, null] });
  const repaired = run(nodes, { samples, input: { both: true }, failing: new Set(['a', 'c']) });
  assert.deepEqual(repaired.states, {
    a: 'failed',
    b: 'done',
    c: 'failed',
    repair: 'done',
    all: 'done',
    end: 'done',
    never: 'done',
  });
  assert.deepEqual(repaired.nodes[5]?.input, { all: [null, 2, null, 4] });
  assert.deepEqual([repaired.success, repaired.order.length], [false, 7]);
});

test('10,000 nodes in a row are computed', () => {
  const nodes = Array.from({ length: 10_000 }, (_, at) =>
    tool(`n${at}`, {
      input_map: { n: { jmespath: `n${Math.max(at - 1, 0)}` } },
      ...(at < 9_999 && { next_node: `n${at + 1}` }),
    }),
  );
  const { order, success } = run(nodes);
  assert.deepEqual([order.length, order.at(-1), success], [10_000, 'n9999', true]);
});

/** Walks as the SDK's plugin does, line by line, with sample outputs. */
function sdkWalk(nodes: readonly Node[], entry: string, failing: ReadonlySet<string>) {
  const byId = new Map(nodes.map((node) => [node.node_id as string, node]));
  const outputs: Record<string, unknown> = {};
  const failed = new Set<string>();
  const visited: string[] = [];
  let id = entry;
  while (id !== '') {
    const node = byId.get(id) as Node;
    visited.push(id);
    if (node.kind === 'branch') {
      id = (outputs[node.of as string] ? node.true_node : node.false_node) as string;
      continue;
    }
    if (failing.has(id)) {
      outputs[id] = null;
      failed.add(id);
      if (node.on_error === 'skip') id = node.next_node as string;
      else if (node.on_error !== 'abort' && node.on_error !== '') id = node.on_error as string;
      else return { visited, outputs, final: null, success: false };
      continue;
    }
    outputs[id] = id;
    id = node.next_node as string;
  }
  return { visited, outputs, final: outputs[visited.at(-1) as string] ?? null, success: failed.size === 0 };
}

test('a chain of A2E 1.0 visits the nodes that the SDK visits, and ends with its outputs', () => {
  const IDS = Array.from({ length: 9 }, (_, at) => `n${at}`);
  const one = fc.record({
    kind: fc.constantFrom('tool', 'tool', 'branch'),
    next: fc.nat(8),
    yes: fc.nat(8),
    no: fc.nat(8),
    of: fc.nat(8),
    error: fc.constantFrom('abort', '', 'skip', 'node'),
    to: fc.nat(8),
  });
  let compared = 0;
  fc.assert(
    fc.property(
      fc.array(one, { minLength: 9, maxLength: 9 }),
      fc.uniqueArray(fc.constantFrom(...IDS), { maxLength: 4 }),
      (made, bad) => {
        const later = (at: number, to: number) => (to > at ? (IDS[to] as string) : '');
        const all = made.map(
          ({ kind, next, yes, no, of, error, to }, at): Node => ({
            node_id: IDS[at],
            kind,
            name: 'echo',
            of: IDS[of],
            condition: kind === 'branch' ? `$.${IDS[of]}` : '',
            next_node: kind === 'branch' ? '' : later(at, next),
            true_node: kind === 'branch' ? later(at, yes) : '',
            false_node: kind === 'branch' ? later(at, no) : '',
            on_error: error === 'node' ? later(at, to) : error,
          }),
        );
        // Unreachable nodes are refused here, and not visited there.
        const reached = new Set(['n0']);
        for (const id of reached) {
          const { kind, next_node, true_node, false_node, on_error } = all.find(
            ({ node_id }) => node_id === id,
          ) as Node;
          const ways = kind === 'branch' ? [true_node, false_node, on_error] : [next_node, on_error];
          for (const way of ways) if (IDS.includes(way as string)) reached.add(way as string);
        }
        const nodes = all.filter(({ node_id }) => reached.has(node_id as string));
        const failing = new Set(bad);
        const sdk = sdkWalk(nodes, 'n0', failing);
        const samples = Object.fromEntries(IDS.map((id) => [id, id]));
        const ours = run(nodes, { samples, failing }, 'n0');
        assert.deepEqual(ours.order, sdk.visited);
        assert.deepEqual(ours.outputs, sdk.outputs);
        assert.deepEqual([ours.final_output, ours.success], [sdk.final, sdk.success]);
        compared += sdk.visited.length > 2 ? 1 : 0;
      },
    ),
    { numRuns: 500 },
  );
  assert.ok(compared > 50, `${compared}`);
});
