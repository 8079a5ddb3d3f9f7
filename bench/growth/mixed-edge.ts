/** The edge `mixed`: heap and resident memory of a server under a mixed load, half an hour of it. */
import type { EdgeKind } from './edge.ts';
import { mixedLoad } from './mixed.ts';
import { served, TOKEN } from './served.ts';

const LANES = 4;
const PLUGINS = `plugins:
  - tools
  - memory
  - planning
  - learning
  - chains
  - env
  - { use: proc, options: { programs: [echo] } }
  - { use: multi_agent, options: { kinds: [{ name: session, session: { backend: rehearsal } }] } }
`;

export const mixed: EdgeKind = {
  unit: 'a round of everything: calls, memory, a plan, a chain, an episode, a program, a subagent, a session with two turns',
  units: 20_000,
  quickUnits: 200,
  async open(folder) {
    const { control, cwd, agents, close } = await served(folder, PLUGINS);
    const load = await mixedLoad({ address: agents, token: TOKEN, control, cwd }, LANES);
    let next = 0;
    return {
      async run(count) {
        const rounds = Math.ceil(count / LANES);
        const first = next;
        next += rounds;
        await Promise.all(
          Array.from({ length: LANES }, async (_, lane) => {
            for (let n = first; n < first + rounds; n += 1) await load.round(lane, n * LANES + lane);
          }),
        );
      },
      async close() {
        await load.close();
        await close();
      },
    };
  },
};
