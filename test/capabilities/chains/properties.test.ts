/** Properties of every chain, with random ones: cycles and reachability against slow and simple models. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readChain } from '../../../src/capabilities/chains/definition/read.ts';
import fc from '../../support/properties.ts';

const RUNS = { numRuns: 300 };
const IDS = Array.from({ length: 7 }, (_, at) => `n${at}`);
const someId = fc.constantFrom('', '', ...IDS);

/** Nodes of every shape, whose references exist. */
const someNodes = fc
  .array(
    fc.record({
      kind: fc.constantFrom('proc', 'proc', 'branch', 'map'),
      next_node: someId,
      true_node: someId,
      false_node: someId,
      map_node: fc.constantFrom(...IDS),
      on_error: someId,
      compensate: fc.constantFrom('', '', '', ...IDS),
      after: fc.uniqueArray(fc.constantFrom(...IDS), { maxLength: 2 }),
    }),
    { minLength: IDS.length, maxLength: IDS.length },
  )
  .map((nodes) => nodes.map((node, at) => own({ node_id: IDS[at] as string, ...node })));

/** Returns the node with only the members of its kind. */
function own<N extends { readonly kind: string }>(node: N): N {
  const none = { true_node: '', false_node: '', next_node: '', map_node: '' };
  const of = { branch: ['true_node', 'false_node'], map: ['next_node', 'map_node'] }[node.kind] ?? ['next_node'];
  return { ...node, ...Object.fromEntries(Object.entries(none).filter(([name]) => !of.includes(name))) };
}

type Node = (typeof someNodes extends fc.Arbitrary<infer T> ? T : never)[number];

/** Returns all references by which a node runs another, those by name first. */
function next(nodes: readonly Node[], id: string): string[] {
  const { kind, next_node, true_node, false_node, map_node, on_error, compensate } = nodes.find(
    ({ node_id }) => node_id === id,
  ) as Node;
  const flow = kind === 'branch' ? [true_node, false_node] : [next_node];
  const waiting = nodes.filter(({ after }) => after.includes(id)).map(({ node_id }) => node_id);
  return [...flow, on_error, ...waiting, compensate, kind === 'map' ? map_node : ''].filter(Boolean);
}

/** Returns true if a node leads back to itself, by trying every path. */
function leadsBack(nodes: readonly Node[], start: string): boolean {
  const seen = new Set<string>();
  const walk = (id: string): boolean =>
    next(nodes, id).some((to) => {
      if (to === start) return true;
      if (seen.has(to)) return false;
      seen.add(to);
      return walk(to);
    });
  return walk(start);
}

test('a chain of which every node is scheduled has a cycle where a simple search finds one', () => {
  // Without maps and compensation, every reference is followed.
  const plain = someNodes.map((nodes) =>
    nodes.map((node) => own({ ...node, kind: node.kind === 'map' ? 'proc' : node.kind, compensate: '' })),
  );
  fc.assert(
    fc.property(plain, (nodes) => {
      const { graph, problems } = readChain({ nodes });
      const looping = IDS.filter((id) => leadsBack(nodes, id));
      assert.equal(
        problems.some(({ code }) => code === 'chain_cycle'),
        looping.length > 0,
      );
      // Each cycle is named at a node that is in it, and none is reported twice.
      const named = problems.filter(({ code }) => code === 'chain_cycle').map(({ node_id: id }) => id);
      assert.deepEqual(
        named.filter((id) => !looping.includes(id)),
        [],
      );
      assert.equal(new Set(named).size, named.length);
      assert.equal(graph === undefined, problems.length > 0);
    }),
    RUNS,
  );
});

/** Nodes with references to later nodes only: no cycles. A node that a map or an undo calls waits for nothing. */
const forward = someNodes.map((nodes) =>
  nodes
    .map((node, at): Node => {
      const later = (id: string) => (IDS.indexOf(id) > at ? id : '');
      const mapNode = later(node.map_node);
      return own({
        ...node,
        kind: node.kind === 'map' && mapNode === '' ? 'proc' : node.kind,
        next_node: later(node.next_node),
        true_node: later(node.true_node),
        false_node: later(node.false_node),
        map_node: mapNode,
        on_error: later(node.on_error),
        compensate: later(node.compensate),
        after: node.after.filter((id) => IDS.indexOf(id) < at),
      });
    })
    .map((node, _, all) =>
      all.some(({ kind, map_node, compensate }) => [kind === 'map' && map_node, compensate].includes(node.node_id))
        ? { ...node, after: [] }
        : node,
    ),
);

test('what is accepted is in an order in which every node comes behind those before it', () => {
  let accepted = 0;
  fc.assert(
    fc.property(forward, (nodes) => {
      const { graph, problems } = readChain({ nodes });
      assert.ok(!problems.some(({ code }) => code === 'chain_cycle'));
      if (graph === undefined) return;
      accepted += 1;
      const place = new Map(graph.order.map((index, at) => [index, at]));
      assert.equal(place.size, graph.nodes.filter(({ scheduled }) => scheduled).length);
      for (const { index, scheduled, edges, waitsFor, predecessors } of graph.nodes) {
        for (const { to } of edges) assert.ok((place.get(index) as number) < (place.get(to) as number));
        const into: number[] = graph.nodes.flatMap((from) =>
          from.edges.filter(({ to }) => to === index).map(() => from.index),
        );
        assert.equal(waitsFor, into.length);
        assert.deepEqual([...predecessors].sort(), [...new Set(into)].sort());
        assert.equal(scheduled && into.length === 0, graph.entries.includes(index));
      }
    }),
    RUNS,
  );
  assert.ok(accepted > RUNS.numRuns / 10, `${accepted}`);
});

test('any text and any value as a chain is read or refused, and nothing is thrown', () => {
  fc.assert(
    fc.property(fc.anything(), fc.anything(), (nodes, entry) => {
      const { graph, problems } = readChain({ nodes, entry_node: entry });
      assert.equal(graph === undefined, problems.length > 0);
    }),
    RUNS,
  );
  const node = fc.record(
    { node_id: fc.string(), kind: fc.constantFrom('tool', 'map', 'branch', 'reduce', 'wait'), name: fc.string() },
    { requiredKeys: ['node_id', 'kind'] },
  );
  const more = fc.dictionary(
    fc.constantFrom('condition', 'input_map', 'items_path', 'reduce', 'wait', 'retry', 'after', 'map_node', 'on_error'),
    fc.oneof(
      fc.string(),
      fc.json(),
      fc.jsonValue(),
      fc.string().map((text) => ({ jmespath: text })),
    ),
  );
  const odd = fc.array(fc.tuple(node, more).map(([one, other]) => ({ ...one, ...other })));
  fc.assert(
    fc.property(odd, (nodes) => {
      const { graph, problems } = readChain({ nodes });
      assert.equal(graph === undefined, problems.length > 0);
    }),
    RUNS,
  );
});
