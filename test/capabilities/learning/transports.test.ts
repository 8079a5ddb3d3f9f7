/** The learning capability behaves equally over every transport: decisions, rewards, records, refinements, refusals. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Agent, connect } from '../../../src/connect.ts';
import { doorOf } from '../../support/sites.ts';
import { startHost, temporaryFolder } from './support.ts';

const COMMAND = join(import.meta.dirname, '../../../src/cli/main.ts');

/** Connects an agent over the transport to a separate host. */
async function agentOver(t: TestContext, transport: string): Promise<Agent<'learning'>> {
  const options = { capabilities: ['learning'], token: 'p', agentId: 'one' } as const;
  if (transport === 'stdio') {
    const words = [process.execPath, '-C', 'handfast-source', COMMAND, 'stdio'].map((word) => `'${word}'`);
    const env = { ...(process.env as Record<string, string>), HANDFAST_HOME: temporaryFolder() };
    return connect(`stdio:${words.join(' ')}`, { ...options, env });
  }
  const host = await startHost();
  if (transport === 'memory') return connect(host, options);
  const door = await doorOf(transport as 'tcp', host);
  t.after(() => door.close());
  return connect(door.address ?? '', options);
}

/** Returns the replies to a fixed series of requests; ids and times left out. */
async function story({ learning }: Agent<'learning'>): Promise<unknown[]> {
  const decisions: string[] = [];
  for (let round = 0; round < 10; round++) {
    const { option, propensity, experienceId } = await learning.decide('c', ['x', 'y'], { seed: 'all' });
    decisions.push(`${option} ${propensity}`);
    assert.equal(await learning.reward(experienceId, option === 'x' ? 1 : 0), true);
  }
  const action = { component_name: 'é東 😀 \u2028 "', duration_ms: 1.5 };
  await learning.experience([
    { experience_id: 'plain', state: { deep: [null, { n: 1e-9 }] }, action, reward: -1, ts: 5 },
  ]);
  await learning.feedback([{ feedback_id: 'f', polarity: 'corrective', correction: 'C++', ts: 6 }]);
  const { choices } = await learning.stats();
  const experiences = await Array.fromAsync(learning.experiences());
  const feedbacks = await Array.fromAsync(learning.feedbacks());
  const applied = await learning.apply({ path: 'choices.c.policy', new_value: { name: 'linucb' } });
  const back = await learning.rollback(applied.refinement_id ?? '');
  const evaluated = await learning.evaluate('c', { option: 'x' });
  const refusal = (call: Promise<unknown>) =>
    call.then(
      () => 'none',
      ({ code, message, detail, retryable }) => [code, message, detail, retryable],
    );
  const refusals = [
    await refusal(learning.evaluate('none', { option: 'x' })),
    await refusal(learning.feedback([{ polarity: 'good' as 'positive' }])),
    await refusal(learning.decide('c', ['x', 'x'])),
  ];
  const { refinement_id, ...rolledBack } = back;
  return [decisions, choices, experiences, feedbacks, rolledBack, evaluated, refusals, await learning.forget('')];
}

let first: unknown[] | undefined;
for (const transport of ['memory', 'stdio', 'tcp', 'unix', 'websocket', 'http']) {
  test(`decisions, rewards, records and refusals over ${transport}`, { timeout: 120_000 }, async (t) => {
    await using agent = await agentOver(t, transport);
    // Through JSON: some transports carry values without it.
    const seen: unknown[] = JSON.parse(JSON.stringify(await story(agent)));
    first ??= seen;
    assert.deepEqual(seen, first, 'as over the transport before');
    assert.deepEqual((seen[6] as unknown[][])[0]?.slice(0, 3), [
      'learning.unknown_choice',
      'there is no choice "none"',
      { row: 'not_found', choice: 'none' },
    ]);
  });
}
