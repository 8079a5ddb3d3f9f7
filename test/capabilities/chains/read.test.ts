/** The checks of a chain before a node runs: every problem has its position, and the cost is linear. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ChainGraph, Problem } from '../../../src/capabilities/chains/definition/graph.ts';
import { gathered, nodeOf } from '../../../src/capabilities/chains/definition/graph.ts';
import { NODE_KINDS } from '../../../src/capabilities/chains/definition/kinds.ts';
import { type RawChain, type ReadOptions, readChain } from '../../../src/capabilities/chains/definition/read.ts';

type Node = Readonly<Record<string, unknown>>;
const tool = (id: string, more: Node = {}): Node => ({ node_id: id, kind: 'tool', name: 'echo', ...more });

function graph(nodes: readonly Node[], entry = '', options?: ReadOptions): ChainGraph {
  const { graph: found, problems } = readChain({ nodes, entry_node: entry }, options);
  return found ?? assert.fail(JSON.stringify(problems));
}

/** Returns the problems as `code node field`. */
function places(raw: RawChain, options?: ReadOptions): string[] {
  const { graph: found, problems } = readChain(raw, options);
  assert.equal(found === undefined, problems.length > 0);
  return problems.map(({ code, node_id: id, field }: Problem) => [code, id, field].join(' ').trim());
}

const ids = (found: ChainGraph, list: readonly number[]) => list.map((index) => found.nodes[index]?.node.node_id);

describe('a chain of A2E 1.0 is a walk', () => {
  const found = graph([
    tool('read', { next_node: 'check', input_map: {}, condition: '', after: null }),
    {
      node_id: 'check',
      kind: 'branch',
      condition: '$.read.ok == true',
      true_node: 'each',
      false_node: '',
    },
    { node_id: 'each', kind: 'map', items_path: '$.files', map_node: 'one', on_error: 'skip' },
    tool('one', { input_map: { text: '$.item' }, next_node: 'each' }),
  ]);

  test('its entry is the node that no other leads to; what a map runs is not scheduled', () => {
    assert.equal(found.mode, 'walk');
    assert.deepEqual(ids(found, found.entries), ['read']);
    assert.deepEqual(ids(found, found.order), ['read', 'check', 'each']);
    assert.deepEqual(ids(found, found.sinks), ['each']);
    assert.equal(found.depth, 3);
    const one = nodeOf(found, 'one');
    assert.deepEqual([one?.scheduled, one?.waitsFor, one?.edges], [false, 0, []]);
    assert.equal(nodeOf(found, 'each')?.mapNode, 3);
  });

  test('the edges of a branch say which way', () => {
    assert.deepEqual(nodeOf(found, 'check')?.edges, [{ to: 2, when: 'true' }]);
  });
});

test('a graph starts what waits for none, and knows what it gathers in the order of after', () => {
  const found = graph([
    tool('b'),
    tool('a'),
    tool('x', { on_error: 'y', after: [] }),
    tool('y'),
    { node_id: 'all', kind: 'gather', after: ['a', 'b', 'x', 'a'] },
    { node_id: 'sum', kind: 'reduce', after: ['all'], reduce: { jmespath: 'sum(@)' }, compensate: 'undo' },
    tool('undo'),
  ]);
  assert.equal(found.mode, 'graph');
  assert.deepEqual(ids(found, found.entries), ['b', 'a', 'x']);
  assert.deepEqual(ids(found, found.sinks), ['y', 'sum']);
  assert.deepEqual(
    nodeOf(found, 'x')?.edges.map(({ to, when }) => [to, when]),
    [
      [3, 'error'],
      [4, 'ended'],
    ],
  );
  assert.equal(nodeOf(found, 'all')?.waitsFor, 3);
  const outputs = new Map<string, unknown>([
    ['a', 1],
    ['b', 2],
    ['all', [1, 2]],
  ]);
  assert.deepEqual(gathered(found, nodeOf(found, 'all') as never, outputs), [1, 2, null]);
  assert.deepEqual(gathered(found, nodeOf(found, 'sum') as never, outputs), [1, 2]);
  assert.equal(nodeOf(found, 'undo')?.scheduled, false);
});

describe('every problem is reported with its place', () => {
  const cases: readonly (readonly [string, RawChain, readonly string[]])[] = [
    ['no nodes', { nodes: [] }, ['bad_entry  nodes']],
    ['nodes that are no list', { nodes: {} }, ['bad_node  nodes']],
    ['a node that is no object', { nodes: [tool('a'), 'b'] }, ['bad_node  nodes[1]']],
    ['a node without an id', { nodes: [{ kind: 'tool' }] }, ['bad_node  nodes[0].node_id']],
    ['the id __proto__', { nodes: [tool('__proto__')] }, ['bad_node  nodes[0].node_id']],
    ['an unknown kind', { nodes: [tool('a', { kind: 'teleport' })] }, ['bad_node a kind']],
    ['duplicate ids', { nodes: [tool('a'), tool('a')] }, ['duplicate_node a node_id']],
    ['an unknown entry', { nodes: [tool('a')], entry_node: 'b' }, ['bad_entry  entry_node']],
    ['an entry that is no text', { nodes: [tool('a')], entry_node: 7 }, ['bad_entry  entry_node']],
    ['a node that leads to itself', { nodes: [tool('a', { next_node: 'a' })], entry_node: 'a' }, ['chain_cycle a']],
    ['a node that waits for itself', { nodes: [tool('a', { after: ['a'] })] }, ['chain_cycle a']],
    ['a map of itself', { nodes: [{ node_id: 'm', kind: 'map', map_node: 'm' }], entry_node: 'm' }, ['chain_cycle m']],
    ['a node that undoes itself', { nodes: [tool('a', { compensate: 'a' })], entry_node: 'a' }, ['chain_cycle a']],
    [
      'two cycles, and what is behind them is not said to be unreachable',
      {
        nodes: [
          tool('a', { next_node: 'b' }),
          tool('b', { next_node: 'a', on_error: 'c' }),
          tool('c', { next_node: 'd' }),
          tool('d', { next_node: 'c' }),
        ],
      },
      ['chain_cycle a', 'chain_cycle c'],
    ],
    ['what nothing leads to', { nodes: [tool('a'), tool('b')], entry_node: 'a' }, ['unreachable_node b']],
    [
      'what only the item of a map leads to',
      { nodes: [{ node_id: 'm', kind: 'map', map_node: 'o' }, tool('o', { next_node: 'p' }), tool('p')] },
      ['unreachable_node p'],
    ],
    [
      'waiting for the item of a map',
      { nodes: [{ node_id: 'm', kind: 'map', map_node: 'o' }, tool('o'), tool('p', { after: ['o', 'm'] })] },
      ['bad_node p after[0]'],
    ],
    [
      'a map of a branch',
      {
        nodes: [
          { node_id: 'm', kind: 'map', map_node: 'o' },
          { node_id: 'o', kind: 'branch' },
        ],
      },
      ['bad_node m map_node'],
    ],
    [
      'members that a kind needs',
      {
        nodes: [
          { node_id: 'm', kind: 'map' },
          { node_id: 't', kind: 'tool' },
          { node_id: 'w', kind: 'wait', wait: { ms: 1, event: 'x' } },
        ],
      },
      ['bad_node m map_node', 'bad_node t name', 'bad_node w wait'],
    ],
    [
      'members of a wrong type',
      {
        nodes: [
          tool('a', {
            input: [],
            after: 'b',
            parallel: 0,
            timeout_ms: 1.5,
            retry: { max_attempts: 2, factor: 0.5, codes: 'x' },
            idempotent: 1,
          }),
        ],
      },
      [
        'bad_node a input',
        'bad_node a after',
        'bad_node a parallel',
        'bad_node a timeout_ms',
        'bad_node a idempotent',
        'bad_node a retry.factor',
        'bad_node a retry.codes',
      ],
    ],
    [
      'several at once',
      {
        nodes: [
          tool('a', {
            next_node: 'x',
            on_error: 'y',
            after: ['a', 'z'],
            compensate: 'w',
            condition: '$a',
            input_map: { t: '$t' },
          }),
          { node_id: 'b', kind: 'branch', true_node: 'p', false_node: 'q', condition: 'a.ok =' },
          { node_id: 'm', kind: 'map', map_node: 'r', items_path: { jmespath: 'a[' } },
          { node_id: 'r2', kind: 'reduce', reduce: { jmespath: 'nothing(@)' } },
        ],
        entry_node: 'nothing',
      },
      [
        'unknown_node a next_node',
        'unknown_node a compensate',
        'unknown_node a on_error',
        'unknown_node a after[1]',
        'unknown_node b true_node',
        'unknown_node b false_node',
        'unknown_node m map_node',
        'bad_entry  entry_node',
        'bad_expression a input_map.t',
        'bad_expression a condition',
        'bad_expression b condition',
        'bad_expression m items_path',
        'bad_expression r2 reduce',
      ],
    ],
  ];
  for (const [name, raw, expected] of cases) test(name, () => assert.deepEqual(places(raw), expected));

  test('the message says what is there instead', () => {
    const { problems } = readChain({ nodes: [tool('reader', { next_node: 'raeder' })] });
    assert.match(problems[0]?.message ?? '', /there is no node "raeder"; did you mean "reader"\?/);
    const loop = readChain({
      nodes: [tool('a', { next_node: 'b' }), tool('b', { next_node: 'c' }), tool('c', { next_node: 'a' })],
    });
    assert.equal(loop.problems[0]?.message, 'the chain has a cycle: a → b → c → a');
  });

  test('a run that has started is read as it was, with members that have no effect', () => {
    const nodes = [
      tool('a', { next_node: 'b', retry: { delay_ms: 5 } }),
      { node_id: 'b', kind: 'branch', condition: '$.a.ok', true_node: 'c', input: { v: 1 }, next_node: 'd' },
      tool('c'),
      { node_id: 'd', kind: 'proc', input: { command: 'true', stdin: 'text' } },
    ];
    assert.deepEqual(places({ nodes }), ['bad_node a retry', 'bad_node b input', 'bad_node b next_node']);
    assert.deepEqual(places({ nodes: nodes.slice(3) }), ['bad_type d input']);
    const { graph, problems } = readChain({ nodes }, { started: true });
    assert.deepEqual([graph?.nodes.length, problems], [4, []]);
    // A started run has all other problems, too.
    assert.equal(
      readChain({ nodes: [{ node_id: 'x', kind: 'map' }] }, { started: true }).problems[0]?.code,
      'bad_node',
    );
  });

  test('members that have no effect on a node that a map repeats, or that undoes another', () => {
    const map = (each: object, more: object[] = []) =>
      places({
        nodes: [{ node_id: 'm', kind: 'map', map_node: 't', next_node: 'z' }, each, tool('z'), ...more],
        entry_node: 'm',
      });
    const undo = (each: object) => places({ nodes: [tool('a', { compensate: 'u', next_node: 'z' }), each, tool('z')] });
    assert.deepEqual(map(tool('t', { next_node: 'z' })), ['bad_node t next_node']);
    assert.deepEqual(map(tool('t', { next_node: 'm' })), []);
    assert.deepEqual(map(tool('t', { on_error: 'z' })), ['bad_node t on_error']);
    assert.deepEqual(map(tool('t', { on_error: 'compensate' })), ['bad_node t on_error']);
    assert.deepEqual(map(tool('t', { compensate: 'u' }), [tool('u')]), ['bad_node t compensate']);
    const given = (kind: string, more: object) => places({ nodes: [{ node_id: 'n', kind, ...more }] });
    assert.deepEqual(given('gather', { input: { v: 1 } }), ['bad_node n input']);
    assert.deepEqual(given('gather', { input: {}, input_map: { v: 1 } }), []);
    assert.deepEqual(given('reduce', { reduce: { jmespath: '@' }, input: { v: 1 } }), ['bad_node n input']);
    const behind = (caller: object) => places({ nodes: [tool('y'), caller, tool('t', { after: ['y'] })] });
    assert.deepEqual(behind({ node_id: 'm', kind: 'map', map_node: 't' }), ['bad_node t after']);
    assert.deepEqual(behind(tool('a', { compensate: 't' })), ['bad_node t after'], 'it would undo what went well');
    for (const kind of ['wait', 'branch', 'gather', 'map', 'reduce']) {
      const more = { wait: { wait: { ms: 1 } }, map: { map_node: 'z' }, reduce: { reduce: { jmespath: '@' } } };
      const node = { node_id: 't', kind, ...more[kind as keyof typeof more] };
      assert.deepEqual(map(node), ['bad_node m map_node'], kind);
      assert.deepEqual(undo({ ...node, node_id: 'u' }), ['bad_node a compensate'], kind);
    }
    for (const more of [
      { condition: '$.item' },
      { retry: {} },
      { timeout_ms: 1 },
      { on_error: 'skip' },
      { idempotent: true },
    ]) {
      assert.deepEqual([map(tool('t', more)), undo(tool('u', more))], [[], []], JSON.stringify(more));
    }
    assert.deepEqual(undo(tool('u', { next_node: 'z' })), ['bad_node u next_node']);
    assert.deepEqual(undo(tool('u', { on_error: 'z' })), ['bad_node u on_error']);
    assert.deepEqual(undo(tool('u', { compensate: 'z' })), ['bad_node u compensate']);
  });

  test('members that the kind of a node does not have', () => {
    const of = (node: object) =>
      places({ nodes: [{ node_id: 'a', ...node }, tool('t'), tool('u', { compensate: 'a' })] });
    const map = { kind: 'map', map_node: 't' };
    assert.deepEqual(
      places({ nodes: [{ node_id: 'a', ...map, timeout_ms: 5, retry: { max_attempts: 2 } }, tool('t')] }),
      ['bad_node a timeout_ms', 'bad_node a retry'],
    );
    assert.deepEqual(of({ kind: 'tool', name: 'echo', parallel: 2, wait: { ms: 1 } }), [
      'bad_node a parallel',
      'bad_node a wait',
    ]);
    const branch = { kind: 'branch', condition: '$.x', compensate: 'u', output_schema: { type: 'object' } };
    assert.deepEqual(places({ nodes: [{ node_id: 'a', ...branch }, tool('u')] }), [
      'bad_node a compensate',
      'bad_node a output_schema',
    ]);
  });

  /** A value of each member that some kinds do not have, and the kinds that have it. */
  const CALLS = ['tool', 'skill', 'proc', 'mcp', 'memory', 'agent', 'task'];
  const MEMBERS: Readonly<Record<string, readonly [value: unknown, kinds: readonly string[]]>> = {
    name: ['store', NODE_KINDS],
    input: [{ task: 'x' }, CALLS],
    input_map: [{ task: 'x' }, [...CALLS, 'gather', 'reduce']],
    true_node: ['z', ['branch']],
    false_node: ['z', ['branch']],
    items_path: ['$.list', ['map']],
    map_node: ['z', ['map']],
    next_node: ['z', [...CALLS, 'map', 'gather', 'reduce', 'wait']],
    parallel: [2, ['map']],
    timeout_ms: [5, [...CALLS, 'wait']],
    retry: [{ max_attempts: 2 }, CALLS],
    compensate: ['u', [...CALLS, 'map', 'gather', 'reduce', 'wait']],
    idempotent: [true, CALLS],
    output_schema: [{ type: 'object' }, [...CALLS, 'map', 'gather', 'reduce']],
    reduce: [{ jmespath: '@' }, ['reduce']],
    wait: [{ event: 'x' }, ['wait']],
    condition: ['$.x', NODE_KINDS],
    on_error: ['skip', NODE_KINDS],
    after: [['y'], NODE_KINDS],
    description: ['for people', NODE_KINDS],
  };
  /** The members that a kind needs. */
  const BASE: Readonly<Record<string, object>> = {
    ...Object.fromEntries(CALLS.map((kind) => [kind, { name: 'store' }])),
    agent: { input: { task: 'x' } },
    task: { input: { task: 'x' } },
    proc: { name: 'true' },
    map: { map_node: 'z' },
    reduce: { reduce: { jmespath: '@' } },
    wait: { wait: { approval: 'may it?' } },
  };

  test('each kind of node has each member, or a check refuses it there and says so', () => {
    for (const kind of NODE_KINDS) {
      for (const [field, [value, kinds]] of Object.entries(MEMBERS)) {
        const given = kind === 'proc' && field.startsWith('input') ? { cmd: 'true' } : value;
        const node = { node_id: 'a', kind, ...BASE[kind], [field]: given };
        const { problems } = readChain({ nodes: [node, tool('u'), tool('y'), tool('z')] });
        const found = problems.filter(({ code }) => code === 'bad_node').map((each) => [each.field, each.message]);
        const expected = kinds.includes(kind) ? [] : [field];
        assert.deepEqual(
          found.map(([at]) => at),
          expected,
          `${kind} ${field}`,
        );
        if (expected.length > 0) assert.match(found[0]?.[1] ?? '', new RegExp(`^a ${kind} node has no ${field}`));
      }
    }
  });

  test('a time limit of a wait that ends by itself, a retry without attempts, an unknown operation', () => {
    const wait = (of: object) => places({ nodes: [{ node_id: 'w', kind: 'wait', wait: of, timeout_ms: 5 }] });
    assert.deepEqual(wait({ ms: 1 }), ['bad_node w timeout_ms']);
    assert.deepEqual(wait({ until: '2026-01-31T12:00:00Z' }), ['bad_node w timeout_ms']);
    assert.deepEqual([wait({ approval: 'x' }), wait({ event: 'x' })], [[], []]);
    assert.deepEqual(places({ nodes: [tool('a', { retry: { delay_ms: 5, codes: ['x'] } })] }), ['bad_node a retry']);
    const memory = { node_id: 'm', kind: 'memory', name: 'retreive' };
    assert.deepEqual(places({ nodes: [memory] }), ['bad_node m name']);
  });

  test('members of the input of a program that no program gets', () => {
    const proc = (more: object) => places({ nodes: [{ node_id: 'p', kind: 'proc', ...more }] });
    assert.deepEqual(proc({ input: { command: 'ls', args: ['-l'] } }), ['bad_type p input']);
    assert.deepEqual(proc({ input_map: { command: 'ls', stdin: '$.text' } }), ['bad_type p input_map.stdin']);
    assert.deepEqual(proc({ input: { cmd: ['ls'], timeout: '5' } }), ['bad_type p input.timeout']);
    assert.deepEqual(proc({ input: { cmd: ['ls'], env: { PORT: 1 } } }), ['bad_type p input.env.PORT']);
    const all = { cmd: ['ls', 1], timeout: 5, cwd: '.', env: { A: 'b' }, exit_codes: [0, 3] };
    assert.deepEqual([proc({ input: all }), proc({ input_map: all }), proc({ name: 'true' })], [[], [], []]);
  });

  test('times that are none, of nodes and of the chain', () => {
    const wait = (until: string) => places({ nodes: [{ node_id: 'w', kind: 'wait', wait: { until } }] });
    for (const text of ['2026-01-31T12:00:00', '2026-02-30T00:00:00Z', '2026-01-31', '2026-01-31T24:00:00Z', '5']) {
      assert.deepEqual(wait(text), ['bad_node w wait.until'], text);
      assert.deepEqual(places({ nodes: [tool('a')], deadline: text }), ['bad_node  deadline'], text);
    }
    for (const text of ['2026-01-31t12:00:00.5z', '2026-01-31T12:00:00+05:30', '2016-12-31T23:59:60Z']) {
      assert.deepEqual([wait(text), places({ nodes: [tool('a')], deadline: text })], [[], []], text);
    }
  });

  test('at most 100 problems are reported', () => {
    assert.equal(
      places({ nodes: Array.from({ length: 500 }, (_, at) => tool(`n${at}`, { next_node: 'x' })) }).length,
      100,
    );
  });
});

describe('types are checked where schemas are known', () => {
  const schemas = {
    type: 'object',
    properties: { text: { type: 'string' }, times: { type: 'integer', minimum: 1 } },
    required: ['text'],
    additionalProperties: false,
  };
  const output = {
    type: 'object',
    properties: {
      text: { type: 'string' },
      lines: { type: 'array', items: { type: 'object', properties: { no: { type: 'integer' }, body: {} } } },
      free: { type: 'object' },
    },
  };
  const known = {
    input: (node: { kind?: string; name?: string }) =>
      node.kind !== 'tool' ? undefined : node.name === 'echo' ? schemas : node.name === 'gone' ? null : undefined,
    output: (node: { name?: string }) => (node.name === 'echo' ? output : undefined),
  };
  const checked = (...nodes: Node[]) => places({ nodes }, { known });
  const first = tool('first', { input: { text: 'a' }, next_node: 'then' });

  test('a literal input that does not fit', () => {
    assert.deepEqual(checked(tool('a', { input: { text: 1 } })), ['bad_type a input.text']);
    assert.deepEqual(checked(tool('a', { input: { text: 'a', more: 1 } })), ['bad_type a input']);
    assert.deepEqual(checked(tool('a', { input: { text: 'a', times: 0 } })), ['bad_type a input.times']);
    assert.deepEqual(checked(tool('a', { input: { text: 'a', times: 2 } })), []);
  });

  test('an input map with a field that is missing, unknown, or of another type', () => {
    assert.deepEqual(checked(tool('a', { input_map: { times: 2 } })), ['bad_type a input_map']);
    assert.deepEqual(checked(tool('a', { input_map: { text: '$.x', tiems: 2 } })), ['bad_type a input_map.tiems']);
    assert.deepEqual(checked(tool('a', { input_map: { text: 'x', times: 'y' } })), ['bad_type a input_map.times']);
    const clash = (text: unknown) => checked(first, tool('then', { input_map: { text } }));
    assert.deepEqual(clash('$.first.lines'), ['bad_type then input_map.text']);
    assert.deepEqual(clash({ jmespath: 'first.lines[*].no' }), ['bad_type then input_map.text']);
    assert.deepEqual(clash({ jmespath: 'first.lines[0].no' }), ['bad_type then input_map.text']);
    assert.deepEqual(clash('$.first.text'), []);
  });

  test('a path that the output of a node does not have', () => {
    const at = (expression: unknown) =>
      checked(first, { node_id: 'then', kind: 'gather', input_map: { x: expression } });
    for (const missing of [
      '$.first.txet',
      '$.first.text.more',
      { jmespath: 'first.txet' },
      { jmespath: '$.first.lines[0].nr' },
      { jmespath: 'first.lines[*].nr | [0]' },
      { jmespath: "{a: first.nothing, b: 'x'}" },
      { jmespath: 'length(first.nothing)' },
      { jmespath: 'unknown || first.nothing' },
    ]) {
      assert.deepEqual(at(missing), ['bad_type then input_map.x'], JSON.stringify(missing));
    }
    for (const fine of [
      '$.first.free.x.y',
      '$.unknown.x',
      { jmespath: 'first.lines[*].{n: no, b: body.x}' },
      { jmespath: 'first.lines[?no > `1`].anything' },
      { jmespath: 'map(&nothing, first.lines)' },
      { jmespath: 'first | nothing' },
    ]) {
      assert.deepEqual(at(fine), [], JSON.stringify(fine));
    }
  });

  test('the output_schema of a node, and lists of maps', () => {
    const nodes = [
      { node_id: 'm', kind: 'map', map_node: 'one', next_node: 'end' },
      tool('one', { output_schema: { type: 'object', properties: { n: { type: 'number' } } }, name: 'other' }),
      { node_id: 'end', kind: 'gather', input_map: { a: { jmespath: 'm[*].n' }, b: { jmespath: 'm[*].z' } } },
    ];
    assert.deepEqual(checked(...nodes), ['bad_type end input_map.b']);
  });

  test('a tool that is known not to be there', () => {
    assert.deepEqual(checked(tool('a', { name: 'gone' })), ['bad_node a name']);
    assert.deepEqual(checked(tool('a', { name: 'other' })), []);
  });
});

describe('limits', () => {
  const chain = (length: number) =>
    Array.from({ length }, (_, at) => tool(`n${at}`, at + 1 < length ? { next_node: `n${at + 1}` } : {}));

  test('10,000 nodes one behind the other, and side by side, are read without recursion', () => {
    const deep = graph(chain(10_000));
    assert.deepEqual([deep.depth, deep.order.length, deep.mode], [10_000, 10_000, 'walk']);
    const wide = graph([
      tool('start'),
      ...Array.from({ length: 9_998 }, (_, at) => tool(`w${at}`, { after: ['start'] })),
      { node_id: 'end', kind: 'gather', after: Array.from({ length: 9_998 }, (_, at) => `w${at}`) },
    ]);
    assert.deepEqual([wide.depth, wide.entries.length, wide.nodes.at(-1)?.waitsFor], [3, 1, 9_998]);
  });

  test('a cycle of 10,000 nodes is found, and named shortly', () => {
    const nodes = [...chain(9_999), tool('n9999', { next_node: 'n0' })];
    nodes[9_998] = tool('n9998', { next_node: 'n9999' });
    const { problems } = readChain({ nodes });
    assert.deepEqual(
      problems.map(({ code }) => code),
      ['chain_cycle'],
    );
    assert.match(problems[0]?.message ?? '', /10000 nodes/);
  });

  test('nodes, edges and depth beyond the limits are refused', () => {
    assert.deepEqual(places({ nodes: chain(10_001) }), ['too_large  nodes']);
    assert.deepEqual(places({ nodes: chain(501) }, { limits: { maxDepth: 500 } }), ['too_large']);
    const all = Array.from({ length: 20 }, (_, at) =>
      tool(`e${at}`, { after: Array.from({ length: at }, (__, to) => `e${to}`) }),
    );
    assert.deepEqual(places({ nodes: all }, { limits: { maxEdges: 100 } }), ['too_large']);
  });
});
