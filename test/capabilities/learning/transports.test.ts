/** The learning capability says the same over every transport; over stdio `examples/learning.ts` and the commands show it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import { doorOf } from '../../support/sites.ts';
import { startHost } from './support.ts';

const seen: string[] = [];

for (const transport of ['tcp', 'unix', 'websocket', 'http'] as const) {
  test(`decisions, rewards, records and refusals over ${transport}`, { timeout: 120_000 }, async () => {
    const door = await doorOf(transport, await startHost());
    try {
      await using agent = await connect(door.address ?? '', { capabilities: ['learning'], token: 'p', agentId: 'one' });
      const decisions: string[] = [];
      for (let round = 0; round < 10; round++) {
        const { option, propensity, experienceId } = await agent.learning.decide('c', ['x', 'y'], { seed: 'all' });
        decisions.push(`${option} ${propensity}`);
        assert.equal(await agent.learning.reward(experienceId, option === 'x' ? 1 : 0), true);
      }
      const [choice] = (await agent.learning.stats()).choices;
      seen.push(JSON.stringify([decisions, choice]));
      await assert.rejects(agent.learning.evaluate('none', { option: 'x' }), {
        code: 'learning.unknown_choice',
        detail: { row: 'not_found', choice: 'none' },
      });
      await assert.rejects(agent.learning.feedback([{ polarity: 'good' as 'positive' }]), { code: 'schema_violation' });
      assert.equal(new Set(seen).size, 1, 'as over the transport before');
    } finally {
      await door.close();
    }
  });
}
