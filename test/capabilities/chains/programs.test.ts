/** Nodes of the kind proc whose programs end with other exit codes than 0. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callNode } from '../../../src/capabilities/chains/calls.ts';
import type { NodeCall } from '../../../src/capabilities/chains/engine/contract.ts';
import { procPlugin } from '../../../src/capabilities/proc/plugin.ts';
import type { ChainNode } from '../../../src/capability.ts';
import { agentOf, call, chainHost } from './support.ts';

const exits = (node_id: string, code: number, more: object = {}): ChainNode => ({
  node_id,
  kind: 'proc',
  input: { cmd: ['sh', '-c', `echo out; echo err >&2; exit ${code}`], ...more },
});

test('a program that ends with another exit code than its node names fails the node', async (t) => {
  const { host } = await chainHost(t, { plugins: [procPlugin({ programs: ['sh'] })] });
  const { chains } = await agentOf(t, host);
  // A2E 1.0: the node is done with any code.
  const plain = await chains.run({ nodes: [exits('a', 3)] });
  assert.deepEqual([plain.success, (plain.final_output as { exit_code: number }).exit_code], [true, 3]);
  const build: ChainNode = { ...exits('build', 3, { exit_codes: [0] }), on_error: 'report' };
  const nodes = [build, call('merge', { after: ['build'] }), call('report')];
  const { success, outputs, chain_id: id } = await chains.run({ nodes });
  assert.deepEqual([success, outputs], [false, { build: null, report: { name: 'report' } }]);
  const [failed] = (await chains.status(id)).nodes;
  assert.deepEqual(
    [failed?.error?.code, failed?.error?.detail],
    ['tool_error', { exit_code: 3, status: 'failed', stdout: 'out\n', stderr: 'err\n' }],
  );
  assert.equal((await chains.run({ nodes: [exits('a', 3, { exit_codes: [0, 3] })] })).success, true);
  const wrong = await chains.run({ nodes: [exits('a', 0, { exit_codes: 'all' })] });
  assert.match(wrong.error?.message ?? '', /exit_codes: must be array/);
});

test('members that are not known are passed over in a run that continues, and refused in a new one', async () => {
  const asked: object[] = [];
  const context = {
    call: async (_: unknown, body: object) => {
      asked.push(body);
      return { ok: false, error: 'not started here' };
    },
  };
  const node: ChainNode = { node_id: 'p', kind: 'proc' };
  const run = (input: Record<string, unknown>, resumed: boolean) =>
    callNode(context as never, node, input, { signal: new AbortController().signal, resumed } as NodeCall);
  const input = { cmd: ['sh'], shell: true, stdin: 'x' };
  await assert.rejects(run(input, false), { code: 'schema_violation' });
  assert.deepEqual(asked, []);
  await assert.rejects(run(input, true), { message: 'not started here' });
  assert.deepEqual(asked, [{ cmd: ['sh'], stream: false, stdin_mode: 'null' }]);
  await assert.rejects(run({ cmd: 7, shell: true }, true), { code: 'schema_violation' });
});
