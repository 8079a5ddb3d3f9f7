/** Questions of wait nodes that a principal other than the one that runs the chain must answer. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ChainNode } from '../../../src/capability.ts';
import type { Principal } from '../../../src/session/principal.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { agentOf, call, chainHost } from './support.ts';

const grants = { capabilities: ['tools', 'chains'] };
const principals: Principal[] = [
  { name: 'runner', ...grants },
  { name: 'reviewer', ...grants },
  { name: 'other', ...grants },
  { name: 'reader', ...grants, grants: { chains: { access: 'read' } } },
  { name: 'root', admin: true },
];

const nodes = (by: readonly string[]): ChainNode[] => [
  { node_id: 'ask', kind: 'wait', wait: { approval: 'Pay?', by: [...by] } },
  call('pay', { after: ['ask'] }),
];

/** Starts a chain, and resolves when it waits. */
async function waiting(run: AsyncIterable<{ readonly fields?: unknown }>): Promise<void> {
  const asked = Promise.withResolvers<void>();
  const read = async (): Promise<void> => {
    for await (const { fields } of run) if ((fields as { phase?: string }).phase === 'wait') asked.resolve();
  };
  read().then(() => asked.reject(new Error('the run ended before it asked')), asked.reject);
  await asked.promise;
}

async function hostOf(t: TestContext, stateFile?: string) {
  const { host, called } = await chainHost(t, { principals, ...(stateFile !== undefined && { stateFile }) });
  const chainsOf = async (name: string) => (await agentOf(t, host, `${name}-agent`, name)).chains;
  return { host, called, chainsOf };
}

test('the principal that runs the chain is refused, another one that is named answers', async (t) => {
  const { called, chainsOf } = await hostOf(t);
  const [runner, second] = [await chainsOf('runner'), await chainsOf('runner')];
  const [reviewer, other, reader] = [await chainsOf('reviewer'), await chainsOf('other'), await chainsOf('reader')];
  const run = runner.run({ nodes: nodes(['reviewer', 'reader', 'runner']) }, {}, { chainId: 'r' });
  await waiting(run);
  for (const own of [runner, second]) {
    await assert.rejects(own.approve('r', 'ask', true), { code: 'unauthorized' });
    await assert.rejects(own.approve('r', 'ask', false), { code: 'unauthorized' });
    await assert.rejects(own.approve('r', 'ask', true, { owner: 'runner' }), { code: 'unauthorized' });
  }
  await assert.rejects(reader.approve('r', 'ask', true, { owner: 'runner' }), { code: 'unauthorized' });
  // The run is unknown to all other principals, and to agents that do not name its owner.
  const unknown = { code: 'chains.unknown_run' };
  await assert.rejects(other.approve('r', 'ask', true, { owner: 'runner' }), unknown);
  await assert.rejects(other.approve('none', 'ask', true, { owner: 'runner' }), unknown);
  await assert.rejects(reviewer.approve('r', 'ask', true), unknown);
  await assert.rejects(reviewer.approve('r', 'pay', true, { owner: 'runner' }), unknown);
  await assert.rejects(reviewer.status('r'), unknown);
  assert.deepEqual(called, []);

  assert.deepEqual(await other.approvals(), []);
  assert.deepEqual(await runner.approvals(), []);
  assert.deepEqual(
    (await reviewer.approvals()).map((each) => ({ ...each })),
    [{ chain_id: 'r', owner: 'runner', name: '', node_id: 'ask', approval: 'Pay?' }],
  );
  await reviewer.approve('r', 'ask', true, { owner: 'runner', note: 'fine' });
  const { success, outputs } = await run;
  assert.deepEqual([success, called], [true, ['pay']]);
  const by = { by: 'reviewer-agent', principal: 'reviewer' };
  assert.deepEqual(outputs.ask, { approved: true, note: 'fine', ...by });
  await assert.rejects(reviewer.approve('r', 'ask', true, { owner: 'runner' }), unknown);
  assert.deepEqual(await reviewer.approvals(), []);
});

test('a no of the other principal fails the node', async (t) => {
  const { called, chainsOf } = await hostOf(t);
  const run = (await chainsOf('runner')).run({ nodes: nodes(['reviewer']) }, {}, { chainId: 'r' });
  await waiting(run);
  await (await chainsOf('reviewer')).approve('r', 'ask', false, { owner: 'runner' });
  const { success, error } = await run;
  const { code } = (error?.detail?.error ?? {}) as { code?: string };
  assert.deepEqual([success, code, called], [false, 'chains.denied', []]);
});

test('an administrator answers only where it is named, and never for its own run', async (t) => {
  const { chainsOf } = await hostOf(t);
  const [runner, root, reviewer] = [await chainsOf('runner'), await chainsOf('root'), await chainsOf('reviewer')];
  const theirs = runner.run({ nodes: nodes(['reviewer']) }, {}, { chainId: 'theirs' });
  const named = runner.run({ nodes: nodes(['root']) }, {}, { chainId: 'named' });
  const own = root.run({ nodes: nodes(['reviewer', 'root']) }, {}, { chainId: 'own' });
  await Promise.all([theirs, named, own].map(waiting));
  await assert.rejects(root.approve('theirs', 'ask', true, { owner: 'runner' }), { code: 'chains.unknown_run' });
  await assert.rejects(root.approve('own', 'ask', true), { code: 'unauthorized' });
  await root.approve('named', 'ask', true, { owner: 'runner' });
  await reviewer.approve('own', 'ask', true, { owner: 'root' });
  await reviewer.approve('theirs', 'ask', true, { owner: 'runner' });
  assert.deepEqual(
    (await Promise.all([theirs, named, own])).map(({ success }) => success),
    [true, true, true],
  );
});

test('the right to answer holds after a restart, and nothing goes around it', async (t) => {
  const stateFile = join(temporaryFolder(t), 'state.db');
  const first = await hostOf(t, stateFile);
  const run = (await first.chainsOf('runner')).run({ nodes: nodes(['reviewer']) }, {}, { chainId: 'r' });
  run.catch(() => {});
  await waiting(run);
  await first.host.close(0);

  const second = await hostOf(t, stateFile);
  const [runner, reviewer] = [await second.chainsOf('runner'), await second.chainsOf('reviewer')];
  await assert.rejects(reviewer.approve('r', 'ask', true, { owner: 'runner' }), { code: 'chains.unknown_run' });
  await runner.deliver('r', 'ask', { approved: true });
  const resumed = runner.resume('r', { skip: ['ask'], rerun: ['ask'] });
  await waiting(resumed);
  await assert.rejects(runner.approve('r', 'ask', true), { code: 'unauthorized' });
  await runner.pause('r');
  await resumed;
  const retried = runner.retry('r', 'pay');
  await waiting(retried);
  await assert.rejects(runner.approve('r', 'ask', true), { code: 'unauthorized' });
  assert.deepEqual(second.called, []);
  await reviewer.approve('r', 'ask', true, { owner: 'runner' });
  assert.deepEqual([(await retried).success, second.called], [true, ['pay']]);
});

test('a check reports a question that no principal can answer', async (t) => {
  const { chainsOf } = await hostOf(t);
  const chains = await chainsOf('runner');
  const problemsOf = async (wait: object) => {
    const { problems } = await chains.check({ nodes: [{ node_id: 'ask', kind: 'wait', wait }] as ChainNode[] });
    return problems.map(({ code, field, message }) => `${code} ${field}: ${message}`);
  };
  assert.deepEqual(await problemsOf({ approval: 'Pay?', by: ['reviewer'] }), []);
  assert.match(
    String(await problemsOf({ approval: 'Pay?', by: ['runner'] })),
    /bad_node wait\.by: only "runner" may answer/,
  );
  assert.match(String(await problemsOf({ approval: 'Pay?', by: [] })), /bad_node wait\.by: expected 1 to 100 names/);
  assert.match(
    String(await problemsOf({ event: 'go', by: ['reviewer'] })),
    /bad_node wait\.by: expected it beside approval/,
  );
});
