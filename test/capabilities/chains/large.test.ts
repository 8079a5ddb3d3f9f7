/** Runs whose outputs and nodes no message may hold, over a socket with the default limits of messages. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import type { ChainNode } from '../../../src/capability.ts';
import { connect } from '../../../src/connect.ts';
import { listenUnix } from '../../../src/transport/socket.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { call, chainHost } from './support.ts';

const big = tool({
  name: 'big',
  description: 'Returns a long text',
  input: { type: 'object', properties: { length: { type: 'integer' } } },
  run: ({ length }: { length: number }) => ({ text: 'x'.repeat(length) }),
});

/** Connects an agent on a socket of a host with the tool `big`. */
async function farAgent(t: TestContext) {
  const path = join(temporaryFolder(t), 'socket');
  const { host } = await chainHost(t, { tools: [big] });
  const listener = await listenUnix({ path }, (link) => host.accept(link));
  t.after(() => listener.close());
  const agent = await connect(`unix://${path}`, { capabilities: ['chains'], agentId: 'far' });
  t.after(() => agent.close());
  return agent;
}

const length = (node_id: string) => ({ length: { jmespath: `length(${node_id}.text)` } });

test('an output that no message may hold is left out of its event, and the events behind it come', async (t) => {
  const { chains } = await farAgent(t);
  const run = chains.run({
    nodes: [
      call('big', { name: 'big', input: { length: 2_000_000 } }),
      call('short', { after: ['big'], input_map: length('big') }),
    ],
  });
  const done: unknown[] = [];
  for await (const { fields, data } of run) {
    const { node_id, phase, output } = fields as Record<string, unknown>;
    if (phase === 'done') done.push([node_id, output, data.left_out]);
  }
  assert.deepEqual(done, [
    ['big', null, true],
    ['short', { length: 2_000_000 }, undefined],
  ]);
  const { chain_id: id, success, outputs, final_output, left_out, nodes_run } = await run;
  assert.deepEqual([success, outputs, final_output, left_out], [true, {}, { length: 2_000_000 }, ['outputs']]);
  assert.equal(nodes_run, 2);
  const { entries } = await chains.history(id, { nodeId: 'big' });
  assert.deepEqual(
    entries.map(({ phase, data }) => [phase, data]),
    [
      ['start', undefined],
      ['done', { left_out: true }],
    ],
  );
  const status = await chains.status(id, { outputs: true });
  assert.deepEqual([status.outputs, status.left_out], [{ short: { length: 2_000_000 } }, ['big']]);
});

test('outputs that only together exceed a message are read in pages, and a run says that it left them out', async (t) => {
  const { chains } = await farAgent(t);
  const ids = Array.from({ length: 4 }, (_, at) => `n${at}`);
  const nodes = ids.map((id) => call(id, { name: 'big', input: { length: 400_000 } }));
  const { chain_id: id, success, left_out, final_output } = await chains.run({ nodes });
  assert.deepEqual([success, left_out, final_output], [true, ['outputs', 'final_output'], null]);
  const {
    outputs = {},
    definition,
    nodes: states,
    left_out: none,
  } = await chains.status(id, {
    outputs: true,
    definition: true,
  });
  assert.deepEqual(
    ids.map((each) => (outputs[each] as { text: string }).text.length),
    ids.map(() => 400_000),
  );
  assert.deepEqual([definition, states.map(({ node_id }) => node_id), none], [nodes, ids, undefined]);
});

test('a run of ten thousand nodes ends with its final output, and its nodes are read in pages', async (t) => {
  const { chains } = await farAgent(t);
  const ids = Array.from({ length: 10_000 }, (_, at) => `n${at}`);
  const nodes = ids.map(
    (id, at): ChainNode => ({
      node_id: id,
      kind: 'gather',
      input_map: { note: at === 9_999 ? 'the end' : '$.note' },
      after: at === 9_999 ? ids.slice(0, -1) : at % 500 === 0 ? [] : [ids[at - 1] as string],
    }),
  );
  const { chain_id: id, success, final_output, left_out } = await chains.run({ nodes }, { note: 'x'.repeat(200) });
  assert.deepEqual([success, final_output, left_out], [true, { note: 'the end' }, ['outputs']]);
  const status = await chains.status(id, { definition: true });
  assert.deepEqual(status.definition, nodes);
  assert.equal(status.nodes.length, 10_000);
  assert.ok(status.nodes.every(({ state }) => state === 'done'));
});
