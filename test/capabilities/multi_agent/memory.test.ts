/** The memory that ended subagents take: an agent has up to `max_ended` of them for their results. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { multiAgentPlugin } from '../../../src/capabilities/multi_agent/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { createHost } from '../../../src/host/host.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const heap = (): number => {
  for (let round = 0; round < 4; round++) collect();
  return process.memoryUsage().heapUsed;
};

test('an ended subagent holds at most 3 kB, and its result', async (t) => {
  // Without a journal, whose entries would be counted, too.
  const plugin = multiAgentPlugin({ kinds: [{ name: 'k', run: () => ({ ok: true }) }], maxEnded: 10_000 });
  const host = createHost({ plugins: [plugin] });
  await host.start();
  t.after(() => host.close(0));
  const agent = await connect(host, { capabilities: ['multi_agent'] });
  const spawn = async (count: number): Promise<string[]> => {
    const ids: string[] = [];
    for (let at = 0; at < count; at++) {
      const subagent = await agent.multi_agent.spawn(`s${at}`);
      await subagent.run('do it');
      await subagent.terminate();
      ids.push(subagent.id);
    }
    return ids;
  };
  await spawn(100);
  const before = heap();
  const ids = await spawn(400);
  const each = (heap() - before) / ids.length;
  assert.ok(each <= 3_000, `${Math.round(each)} bytes`);
  const all = await agent.multi_agent.list();
  assert.equal(all.filter(({ status }) => status === 'TERMINATED').length, 500);
});
