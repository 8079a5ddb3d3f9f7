/**
 * A mixed load for a server: sessions with turns and tools, calls, memory, plans, chains, subagents, processes,
 * environments, connections that are cut and resumed.
 */
import { CuttableWire } from '../../src/cli/demo/cuttable-wire.ts';
import { type Agent, connect } from '../../src/connect.ts';
import type { ControlClient } from '../../src/control.ts';
import type { CapabilityName } from '../../src/protocol/a2e.ts';

const CAPABILITIES = [
  'tools',
  'memory',
  'planning',
  'learning',
  'chains',
  'multi_agent',
  'proc',
  'env',
] as const satisfies readonly CapabilityName[];
type Mixed = Agent<(typeof CAPABILITIES)[number]>;

/** Names that rounds use in rotation: a later round replaces the entry of an earlier one, so that stores do not grow. */
const NAMES = 500;
/** One of this many rounds starts a program and a subagent. */
const PROGRAMS = 5;

interface MixedServer {
  /** `tcp://127.0.0.1:PORT`, for agents. */
  readonly address: string;
  readonly token: string;
  readonly control: ControlClient;
  /** Folder of the sessions. */
  readonly cwd: string;
}

/** Opens the load; `round` runs the n-th round of one of its lanes. */
export async function mixedLoad({ address, token, control, cwd }: MixedServer, lanes: number) {
  const through = await CuttableWire.to(new URL(address));
  const open = (lane: number): Promise<Mixed> =>
    connect(through.address, { capabilities: CAPABILITIES, agentId: `agent-${lane}`, token });
  const agents = await Promise.all(Array.from({ length: lanes }, (_, lane) => open(lane)));
  const plans = await Promise.all(agents.map((agent, lane) => agent.planning.createPlan('', { key: `plan-${lane}` })));
  const round = async (lane: number, n: number): Promise<void> => {
    const agent = agents[lane] as Mixed;
    const plan = plans[lane]?.plan_id as string;
    const name = `k${n % NAMES}`;
    await agent.tools.call('write_file', { path: `${lane}.txt`, content: `round ${n}\n` });
    await agent.tools.call('read_file', { path: `${lane}.txt` });
    await agent.tools.call('read_file', { path: `missing-${n}` }).catch(() => {});
    const memory = await agent.memory.open();
    await memory.store([{ key: name, content: `the meeting number ${n} is on floor ${n % 7}` }]);
    await memory.search(`meeting on floor ${n % 7}`, { limit: 5 });
    const task = await agent.planning.add(plan, `task ${n}`);
    const claim = await agent.planning.claim(plan, { taskId: task.task_id });
    await claim?.done();
    await agent.planning.delete(plan, task.task_id);
    const { experienceId } = await agent.learning.decide(`choice ${n % 8}`, ['a', 'b', 'c']);
    await agent.learning.reward(experienceId, n % 3 === 0 ? 1 : 0);
    await agent.chains.run({
      nodes: [
        { node_id: 'read', kind: 'tool', name: 'read_file', input: { path: `${lane}.txt` } },
        { node_id: 'text', kind: 'reduce', after: ['read'], reduce: { jmespath: 'read.content' } },
      ],
    });
    {
      await using episode = await agent.env.reset<number, number>('FrozenLake-v1', { seed: n });
      await episode.step(1);
    }
    if (n % PROGRAMS === 0) {
      const program = await agent.proc.spawn(['echo', name]);
      await program.wait();
      const subagent = await agent.multi_agent.spawn(`sub-${n}`, { kind: 'session' });
      await subagent.run(`say "${name}"`);
      await subagent.terminate();
    }
    const session = await control.create({ cwd });
    await (await session.prompt('list .')).result();
    await (await session.prompt(`say "${name}"`)).result();
    if (n % 2 === 0) await session.close();
    const visitor = await connect(address, { capabilities: ['tools'], agentId: `visitor-${lane}`, token });
    await visitor.tools.call('list_dir', { path: '.' });
    await visitor.close();
    // The next call waits for the resumed link.
    if (lane === 0) through.cut();
  };
  const close = async (): Promise<void> => {
    for (const agent of agents) await agent.close();
    await through[Symbol.asyncDispose]();
  };
  return { round, close };
}
