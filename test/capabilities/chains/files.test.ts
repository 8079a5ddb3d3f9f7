/** Chain files: read with line and column of every problem, checked and dry-run by commands that need no host. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { JsonSchemas } from '../../../src/base/json-schema.ts';
import { loadChainFile, problemsOf } from '../../../src/capabilities/chains/files/chain-file.ts';
import { newChain } from '../../../src/capabilities/chains/files/new-chain.ts';
import { localCommands } from '../../../src/capabilities/chains/local-commands.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { root } from '../../rules/scan.ts';

function fileOf(t: TestContext, text: string): string {
  const file = join(temporaryFolder(t), 'chain.yaml');
  writeFileSync(file, text);
  return file;
}

/** Runs a local command; returns its printed lines. */
async function run(name: string, args: readonly unknown[], options: Readonly<Record<string, unknown>> = {}) {
  const lines: string[] = [];
  const documents: unknown[] = [];
  const terminal = {
    json: options.json === true,
    line: (text = '') => void lines.push(text),
    document: (value: unknown) => void documents.push(value),
    note: (text: string) => void lines.push(text),
    table: (headings: readonly string[], rows: readonly (readonly string[])[]) =>
      void lines.push(...[headings, ...rows].map((row) => row.join(' | '))),
  };
  const command = localCommands.find(({ usage }) => usage.split(' ')[0] === name) ?? assert.fail(name);
  const context = { args, options, signal: new AbortController().signal, terminal } as never;
  const exit = (await command.run(context, async () => undefined)) ?? 0;
  return { exit, lines, documents };
}

/** Returns `line:column path` of the problems of a file. */
async function placesOf(t: TestContext, text: string): Promise<string[]> {
  const error = await loadChainFile(fileOf(t, text)).then(
    () => assert.fail('it was accepted'),
    (found: unknown) => found,
  );
  return (problemsOf(error) ?? assert.fail(String(error))).map(({ line, column, path }) => `${line}:${column} ${path}`);
}

test('a file says what a request says, with a text where a group has a short form', async (t) => {
  const { definition, graph } = await loadChainFile(
    fileOf(
      t,
      `
description: All of it.
entry_node: a
timeout: 2.5
max_parallel: 2
deadline: 2030-01-01T00:00:00Z
budget: { nodes: 9, usd: 0.5 }
nodes:
  - node_id: a
    kind: map
    items_path: $.list
    map_node: b
    parallel: 3
    next_node: c
  - node_id: b
    kind: tool
    name: echo
    input_map: { camelCase: $.item, snake_case: { jmespath: "a[0]" }, list: [1, null] }
    retry: { max_attempts: 2, delay_ms: 5, jitter: 0 }
    timeout_ms: 100
    idempotent: true
    on_error: skip
  - { node_id: c, kind: reduce, reduce: "length(@)", after: [a], output_schema: { type: integer } }
  - { node_id: d, kind: wait, wait: { ms: 0 }, after: c }
  - { node_id: e, kind: map, items_path: { jmespath: "a[*]" }, map_node: b, after: [d] }
`,
    ),
  );
  const { nodes, ...run } = definition;
  assert.deepEqual(run, {
    name: 'chain',
    description: 'All of it.',
    entry_node: 'a',
    timeout: 2.5,
    max_parallel: 2,
    deadline: '2030-01-01T00:00:00Z',
    budget: { nodes: 9, usd: 0.5 },
  });
  assert.deepEqual(nodes, [
    { node_id: 'a', kind: 'map', items_path: '$.list', map_node: 'b', parallel: 3, next_node: 'c' },
    {
      node_id: 'b',
      kind: 'tool',
      name: 'echo',
      input_map: { camelCase: '$.item', snake_case: { jmespath: 'a[0]' }, list: [1, null] },
      retry: { max_attempts: 2, delay_ms: 5, jitter: 0 },
      timeout_ms: 100,
      idempotent: true,
      on_error: 'skip',
    },
    {
      node_id: 'c',
      kind: 'reduce',
      reduce: { jmespath: 'length(@)' },
      after: ['a'],
      output_schema: { type: 'integer' },
    },
    { node_id: 'd', kind: 'wait', wait: { ms: 0 }, after: ['c'] },
    { node_id: 'e', kind: 'map', items_path: { jmespath: 'a[*]' }, map_node: 'b', after: ['d'] },
  ]);
  assert.equal(graph.depth, 4);
});

test('every problem of the file has its line and column', async (t) => {
  assert.deepEqual(await placesOf(t, 'nodes:\n  - node_id: a\n    kind: tol\n    nxt: b\n'), [
    '3:11 nodes[0].kind',
    '4:5 nodes[0].nxt',
  ]);
  assert.deepEqual(await placesOf(t, 'nodes: []\n'), ['1:8 nodes']);
  assert.deepEqual(await placesOf(t, 'nodes:\n  - { node_id: a, kind: [ }\n').then((found) => found.length > 0), true);
});

test('every problem of the chain has its line and column', async (t) => {
  const text = `
nodes:
  - node_id: a
    kind: tool
    name: x
    next_node: bb
    input_map:
      text: $.q..r
      n: { jmespath: "lenght(a)" }
  - node_id: b
    kind: branch
    condition: a.ok =
    true_node: a
  - { node_id: b, kind: tool, name: y, after: [a, zz] }
entry_node: c
`;
  assert.deepEqual(await placesOf(t, text), [
    '6:16 nodes[0].next_node',
    '8:13 nodes[0].input_map.text',
    '9:10 nodes[0].input_map.n',
    '12:16 nodes[1].condition',
    '14:16 nodes[2].node_id',
    '14:51 nodes[2].after[1]',
    '15:13 entry_node',
  ]);
  const loop = 'nodes:\n  - { node_id: a, kind: proc, next_node: b }\n  - { node_id: b, kind: proc, next_node: a }\n';
  assert.deepEqual(await placesOf(t, loop), ['2:5 nodes[0]']);
  const schema = 'nodes:\n  - node_id: a\n    kind: proc\n    output_schema: { type: texts }\n';
  assert.deepEqual(await placesOf(t, schema), ['4:20 nodes[0].output_schema']);
});

test('a chain of 10,000 nodes is read from its file', async (t) => {
  const nodes = Array.from(
    { length: 10_000 },
    (_, at) =>
      `  - { node_id: n${at}, kind: tool, name: echo, input: { text: hi }${at < 9_999 ? `, next_node: n${at + 1}` : ''} }`,
  );
  const { graph } = await loadChainFile(fileOf(t, `nodes:\n${nodes.join('\n')}\n`));
  assert.equal(graph.depth, 10_000);
});

test('a new chain is valid for the reader and for the schema of editors, and is not written over a file', async (t) => {
  const file = join(temporaryFolder(t), 'nightly.yaml');
  assert.deepEqual((await run('new', [file])).lines, [file]);
  assert.equal(readFileSync(file, 'utf8'), newChain('nightly'));
  const { definition } = await loadChainFile(file);
  assert.equal(definition.name, 'nightly');
  const schema = JSON.parse(readFileSync(join(root, 'schema/chain-file.json'), 'utf8'));
  const check = new JsonSchemas().compileNow(schema, 'the chain');
  check(definition);
  assert.throws(() => check({ nodes: [{ node_id: 'a', kind: 'teleport' }] }), { code: 'schema_violation' });
  await assert.rejects(run('new', [file]), { code: 'usage' });
});

test('check prints the problems of all files and says so with its exit code', async (t) => {
  const good = fileOf(t, newChain('good'));
  const bad = fileOf(t, 'nodes:\n  - { node_id: a, kind: tool, name: x, next_node: b }\n');
  const printed = await run('check', [[good, bad]]);
  assert.equal(printed.exit, 1);
  assert.match(printed.lines[0] ?? '', /: 5 nodes, walk, 4 deep$/);
  assert.match(printed.lines[1] ?? '', /:2:51: at nodes\[0\]\.next_node: there is no node "b"/);
  const { exit, documents } = await run('check', [[good]], { json: true });
  assert.equal(exit, 0);
  assert.deepEqual(
    (documents[0] as { files: { ok: boolean; depth: number }[] }).files.map(({ ok, depth }) => [ok, depth]),
    [[true, 4]],
  );
  await assert.rejects(run('dry-run', [bad]), { code: 'config_invalid' });
});

test('dry-run prints what each node gets, and what happens when one fails', async (t) => {
  const file = fileOf(t, newChain('new'));
  const outputs = join(temporaryFolder(t), 'outputs.json');
  writeFileSync(outputs, '{"read": {"content": "x"}}');
  const sample = ['find={"paths": ["a.md", "b.md"]}', `@${outputs}`];
  const { exit, lines } = await run('dry-run', [file], { sample, input: '{"a": 1}' });
  assert.equal(exit, 0);
  assert.deepEqual(lines, [
    'node | kind | state | what it gets',
    'find | tool | done | {"patterns":["*.md"]}',
    'any | branch | done | condition: true',
    'each | map | done | 2 items',
    'read | tool | done | {"path":"a.md"}',
    'all | reduce | done | makes "x\\nx"',
    '',
    'final output: "x\\nx"',
  ]);
  const failed = await run('dry-run', [file], { failing: ['find'], json: true });
  assert.deepEqual([failed.exit, (failed.documents[0] as { success: boolean }).success], [1, false]);
  await assert.rejects(run('dry-run', [file], { sample: ['nowhere=1'] }), { code: 'usage' });
  await assert.rejects(run('dry-run', [file], { input: '[1]' }), { code: 'usage' });
});
