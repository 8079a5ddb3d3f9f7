/** Subagents of a host in this process, compiled: as functions and as programs. The agent above is connected in memory. */
import { join } from 'node:path';
import type { MultiAgentPluginOptions } from '../../src/capabilities/multi_agent/plugin.ts';
import { built } from '../contenders/built.ts';
import { bounded } from '../control.ts';
import { TEXT, type Team, WORDS } from './team.ts';
import { wordsIn } from './words.mjs';

type Kinds = NonNullable<MultiAgentPluginOptions['kinds']>;

const WAIT_MS = 60_000;
const MAX_SUBAGENTS = 256;
const MAX_PARALLEL = 64;
const metadata = { text: TEXT };

/** A host, and an agent that leads. */
export interface Site {
  team(kind: 'function' | 'program', standing: number): Promise<Team>;
  /**
   * Creates a program that blocks with its task; resolves with the function that ends it, and checks that its task has
   * one end.
   */
  stick(): Promise<() => Promise<void>>;
  /**
   * Makes four requests to a tool that does nothing: a subagent cannot be created, given a task, awaited and ended in
   * fewer.
   */
  fourRequests(): Promise<void>;
  close(): Promise<void>;
}

/** Starts the host, with its state in a folder, or without one in memory. */
export async function openSite(folder?: string): Promise<Site> {
  const { createHost, multiAgentPlugin } = await built<typeof import('../../src/host.ts')>('host');
  const { connect } = await built<typeof import('../../src/connect.ts')>('connect');
  const { tool, toolsPlugin } = await built<typeof import('../../src/tools.ts')>('tools');
  const capabilities = ['multi_agent', 'tools'] as const;

  const kinds: Kinds = [
    { name: 'function', run: ({ metadata: { text } }) => ({ words: wordsIn(String(text)) }) },
    { name: 'program', command: [process.execPath, join(import.meta.dirname, 'program.mjs')], capabilities: [] },
    {
      name: 'reports',
      run: ({ instruction }, { progress }) => {
        for (let at = 0; at < Number(instruction); at += 1) progress({ message: `step ${at}`, percent: 1 });
      },
    },
    {
      // Leads a subagent that leads one that reports: its events come from three levels below the agent at the top.
      name: 'leads',
      async run({ instruction, metadata: { levels } }, { host: own }) {
        await using lead = await connect(own, { capabilities: ['multi_agent'] });
        const more = Number(levels) - 1;
        const below = await lead.multi_agent.spawn('below', { kind: more === 0 ? 'reports' : 'leads' });
        const { status } = await below.run(instruction, { metadata: { levels: more } });
        await below.terminate();
        return { status };
      },
    },
  ];
  const nothing = tool({ name: 'nothing', description: 'Does nothing', input: { type: 'object' }, run: () => 1 });
  const host = createHost({
    plugins: [multiAgentPlugin({ kinds, maxSubagents: MAX_SUBAGENTS }), toolsPlugin({ tools: [nothing] })],
    ...(folder !== undefined && { stateFile: join(folder, 'state.db') }),
    limits: { maxParallel: MAX_PARALLEL, maxProcessesPerPrincipal: MAX_SUBAGENTS },
  });
  await host.start();
  const agent = await connect(host, { capabilities, maxParallel: MAX_PARALLEL });
  const { multi_agent: subagents } = agent;
  type Subagent = Awaited<ReturnType<typeof subagents.spawn>>;

  const run = async (subagent: Subagent): Promise<void> => {
    const { status, result, error } = await subagent.run('count', { metadata });
    if (result?.words !== WORDS) throw new Error(`a task ended as ${status}: ${error}`);
  };

  return {
    async team(kind, count) {
      const standing = await Promise.all(Array.from({ length: count }, () => subagents.spawn('stays', { kind })));
      return {
        async lifetime() {
          const subagent = await subagents.spawn('one', { kind });
          await run(subagent);
          await subagent.terminate();
        },
        task: (at) => run(standing[at] as Subagent),
        async events(events) {
          const all = Promise.withResolvers<void>();
          let seen = 0;
          const off = subagents.onEvent(({ event, content }) => {
            if (event !== 'progress') return;
            if (content.message !== `step ${seen}`) all.reject(new Error('an event is missing'));
            seen += 1;
            if (seen === events) all.resolve();
          });
          const lead = await subagents.spawn('leads', { kind: 'leads' });
          await lead.run(String(events), { metadata: { levels: 2 } });
          await bounded(all.promise, 'events did not come', WAIT_MS);
          off();
          await lead.terminate();
        },
        async close() {
          await Promise.all(standing.map((subagent) => subagent.terminate()));
        },
      };
    },
    async stick() {
      const stuck = await subagents.spawn('stuck', { kind: 'program' });
      const blocked = Promise.withResolvers<void>();
      const off = subagents.onEvent(({ subagentId, event }) => {
        if (subagentId === stuck.id && event === 'progress') blocked.resolve();
      });
      await stuck.delegate('stuck', { metadata });
      await bounded(blocked.promise, 'a child did not start', WAIT_MS);
      off();
      const ended = stuck.result();
      return async () => {
        await stuck.terminate();
        const { status, code } = await bounded(ended, 'a stuck child has no end', WAIT_MS);
        const again = await stuck.result();
        if (code !== 'multi_agent.terminated' || again.code !== code) throw new Error(`it ended as ${status} ${code}`);
      };
    },
    async fourRequests() {
      for (let at = 0; at < 4; at += 1) await agent.tools.call('nothing', {});
    },
    async close() {
      await agent.close();
      await host.close(0);
    },
  };
}
