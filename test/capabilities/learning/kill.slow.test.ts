/**
 * `kill -9` at any moment: the decisions, the propensities and the refinements are those of a host without a kill. A request
 * whose reply was lost is repeated; its id makes it the same request.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { PolicySettings } from '../../../src/base/bandits/settings.ts';
import type { Agent } from '../../../src/connect.ts';
import { connect } from '../../../src/connect.ts';
import { agentOf, startHost, temporaryFolder } from './support.ts';

type LearningAgent = Agent<'learning'>;

const children: ChildProcess[] = [];
after(() => {
  for (const child of children) child.kill('SIGKILL');
});

async function startChild(file: string): Promise<{ child: ChildProcess; address: string }> {
  const script = join(import.meta.dirname, 'mortal-host.ts');
  const child = spawn(process.execPath, ['-C', 'handfast-source', script, file], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  children.push(child);
  const [address] = (await once(child, 'message')) as [string];
  return { child, address };
}

const features = (round: number) => [Math.sin(round), Math.cos(round)];
const options = ['x', 'y', 'z'];

/** Does one step of a run: a decision and its reward, each under a separate id. */
async function step(agent: LearningAgent, policy: PolicySettings, round: number): Promise<string> {
  const more = { experienceId: `round-${round}`, features: features(round), policy, seed: 'killed' };
  const { option, propensity } = await agent.learning.decide('c', options, more);
  await agent.learning.reward(`round-${round}`, option === 'y' ? 0.9 : 0.2);
  return `${option} ${propensity}`;
}

const ROUNDS = 24;
for (const name of ['thompson_beta', 'linucb', 'sliding_window_ucb'] as const) {
  const policy = { name, explore: 0.3 };

  test(`a run of ${name} with kill -9 in every third round is the run without`, { timeout: 300_000 }, async () => {
    await using calm = await agentOf(await startHost());
    const file = join(temporaryFolder(), 'state.sqlite');
    const expected: string[] = [];
    for (let round = 0; round < ROUNDS; round++) expected.push(await step(calm, policy, round));
    let host = await startChild(file);
    const open = () => connect(host.address, { capabilities: ['learning'], agentId: 'tester', resume: false });
    let agent = await open();
    const decisions: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      if (round % 3 === 2) {
        // The round is under way when the host is killed: before, while or after its writes.
        const { child } = host;
        const exited = once(child, 'exit');
        const lost = step(agent, policy, round).catch(() => {});
        await delay(round % 7);
        child.kill('SIGKILL');
        await exited;
        await lost;
        await agent.close().catch(() => {});
        host = await startChild(file);
        agent = await open();
      }
      decisions.push(await step(agent, policy, round));
    }
    assert.deepEqual(decisions, expected);
    const [killed] = (await agent.learning.stats()).choices;
    assert.deepEqual(killed, (await calm.learning.stats()).choices[0]);
    await agent.close();
  });
}

test('a rollback after a restart is exact', { timeout: 120_000 }, async () => {
  await using calm = await agentOf(await startHost());
  const policy = { name: 'thompson_beta', explore: 0.3 } as const;
  const file = join(temporaryFolder(), 'state.sqlite');
  let host = await startChild(file);
  let agent = await connect(host.address, { capabilities: ['learning'], agentId: 'tester', resume: false });
  for (let round = 0; round < 10; round++) {
    assert.equal(await step(agent, policy, round), await step(calm, policy, round));
  }
  const applied = await agent.learning.apply({ path: 'choices.c.policy', new_value: { name: 'ucb1' } });
  for (let round = 100; round < 105; round++) await step(agent, policy, round);
  const exited = once(host.child, 'exit');
  host.child.kill('SIGKILL');
  await exited;
  await agent.close().catch(() => {});
  host = await startChild(file);
  agent = await connect(host.address, { capabilities: ['learning'], agentId: 'tester', resume: false });
  assert.equal((await agent.learning.rollback(applied.refinement_id ?? '')).rewards_since, 5);
  for (let round = 10; round < 20; round++) {
    assert.equal(await step(agent, policy, round), await step(calm, policy, round));
  }
  await agent.close();
});
