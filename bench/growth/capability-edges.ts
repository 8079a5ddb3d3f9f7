/**
 * Requests of capabilities with stored state, repeated over a few hundred entries, choices or tasks: whether the
 * process that serves them grows. The state is on disk, the journal in memory.
 */
import { join } from 'node:path';
import { learningPlugin } from '../../src/capabilities/learning/plugin.ts';
import { memoryPlugin } from '../../src/capabilities/memory/plugin.ts';
import { planningPlugin } from '../../src/capabilities/planning/plugin.ts';
import type { Agent } from '../../src/connect.ts';
import type { Plugin } from '../../src/host/plugin.ts';
import type { CapabilityName } from '../../src/protocol/a2e.ts';
import { testHost } from '../../src/testing.ts';
import { type Edge, type EdgeKind, inParallel } from './edge.ts';

const WIDTH = 8;
/** Number of entries or tasks. */
const STORED = 500;

/** Returns an edge. `prepare` creates the objects of the units; a unit is the n-th request, or two. */
const edgeOf = <C extends CapabilityName>(
  capability: C,
  unit: string,
  plugin: () => Plugin,
  prepare: (agent: Agent<C>) => Promise<(n: number) => Promise<unknown>>,
): EdgeKind => ({
  unit,
  units: 300_000,
  quickUnits: 2_000,
  async open(folder): Promise<Edge> {
    const host = await testHost({
      plugins: [plugin()],
      stateFile: join(folder, 'state.db'),
      dataDir: join(folder, 'data'),
    });
    const agent = await host.connect<C>({ capabilities: [capability] });
    const run = await prepare(agent);
    let next = 0;
    return {
      run: (count) => inParallel(count, WIDTH, () => run(next++)),
      async close() {
        await agent.close();
        await host[Symbol.asyncDispose]();
      },
    };
  },
});

export const memory = edgeOf('memory', 'an entry replaced or searched', memoryPlugin, async (agent) => {
  const opened = await agent.memory.open();
  return (n) =>
    n % 2 === 0
      ? opened.store([{ key: `k${(n / 2) % STORED}`, content: `the meeting number ${n} is on floor ${n % 7}` }])
      : opened.search(`meeting on floor ${n % 7}`, { limit: 5 });
});

export const learning = edgeOf('learning', 'a decision and its reward', learningPlugin, async (agent) => async (n) => {
  const { experienceId } = await agent.learning.decide(`choice ${n % 8}`, ['a', 'b', 'c']);
  await agent.learning.reward(experienceId, n % 3 === 0 ? 1 : 0);
});

export const planning = edgeOf('planning', 'a task changed or read', planningPlugin, async (agent) => {
  const { plan_id: id } = await agent.planning.createPlan();
  const tasks = await Promise.all(Array.from({ length: STORED }, (_, n) => agent.planning.add(id, `task ${n}`)));
  return (n) => {
    const task = tasks[n % STORED]?.task_id as string;
    return n % 2 === 0 ? agent.planning.update(id, task, { title: `task ${n}` }) : agent.planning.task(id, task);
  };
});
