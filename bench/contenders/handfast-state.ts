/**
 * The capabilities with state, as their users have them: a host that stores on disk, and the client of one of them. Its `echo` makes
 * one request that is acknowledged when it is on disk: an entry of memory, a decision of learning, a change of a task; of `env`, whose
 * episodes are not durable by default, a step.
 */
import { join } from 'node:path';
import { connect } from 'handfast';
import type { AgentSession } from 'handfast/capability';
import { built } from './built.ts';
import { type Contender, MAX_MESSAGE_BYTES, unsupported } from './contender.ts';
import { addressOf, type Extras, serve, startHost } from './handfast.ts';

/** Entries that the calls replace in turn. */
const KEYS = 256;

type Echo = (text: string, n: number) => Promise<unknown>;

/** The action of one call, by capability. */
const echoes: Readonly<Record<string, (agent: AgentSession) => Promise<Echo>>> = {
  async memory(agent) {
    const { MemoryClient } = await import('handfast/capability');
    const memory = await new MemoryClient(agent).open();
    return (text, n) => memory.store({ key: String(n % KEYS), content: text });
  },
  async learning(agent) {
    const { LearningClient } = await import('handfast/capability');
    const learning = new LearningClient(agent);
    return () => learning.decide('bench', ['first', 'second', 'third']);
  },
  async planning(agent) {
    const { PlanningClient } = await import('handfast/capability');
    const planning = new PlanningClient(agent);
    const { plan_id } = await planning.createPlan('bench');
    const tasks = await Promise.all(Array.from({ length: KEYS }, (_, at) => planning.add(plan_id, `task ${at}`)));
    return (text, n) => planning.update(plan_id, tasks[n % KEYS]?.task_id ?? '', { title: `${text} ${n}` });
  },
  async env(agent) {
    const { EnvClient } = await import('handfast/capability');
    const episode = await new EnvClient(agent).reset('CliffWalking-v1', { seed: 1 });
    // Up, against the edge: it never ends.
    return () => episode.step(0);
  },
};

/** Returns the contender of a capability. */
export function contenderOf(capability: string): Contender {
  const extras: Extras = async (folder) => {
    const { builtinCapability } = await built<typeof import('../../src/capabilities/index.ts')>('capabilities/index');
    const plugin = await builtinCapability(capability)?.plugin?.({});
    return {
      plugins: plugin === undefined ? [] : [plugin].flat(),
      stateFile: join(folder, 'state.db'),
      dataDir: join(folder, 'data'),
    };
  };
  const name = `handfast+${capability}`;
  return {
    name,
    transports: ['memory', 'tcp'],
    serve: (transport) => serve(transport, extras),
    async connect(target) {
      const asked = { agentId: 'bench', capabilities: [capability as 'memory'], maxMessageBytes: MAX_MESSAGE_BYTES };
      const host = target.transport === 'memory' ? await startHost(extras) : undefined;
      const agent = await connect(host ?? addressOf(target as never), asked);
      const echo = await (echoes[capability] as (typeof echoes)[string])(agent);
      return {
        async echo(text, n) {
          await echo(text, n);
          return text;
        },
        flood: () => unsupported(name, target.transport),
        async close() {
          await agent.close();
          await host?.close();
        },
      };
    },
  };
}
