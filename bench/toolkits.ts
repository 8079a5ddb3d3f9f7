/**
 * The cost of a toolkit of 500 deferred tools for a session, in this process: lists, searches, enabling, a call, and
 * the size of the definitions that a model would get. Beside it a plain list of a host without it, and one with all 500
 * listed.
 *
 * Run it with `npm run bench:toolkits`.
 */
import assert from 'node:assert/strict';
import { toolkitsPlugins } from '../src/capabilities/toolkits/plugin.ts';
import { defineToolkit } from '../src/capabilities/toolkits/toolkit.ts';
import { toolsPlugin } from '../src/capabilities/tools/plugin.ts';
import { tool } from '../src/capabilities/tools/tool.ts';
import { connect } from '../src/connect.ts';
import { createHost } from '../src/host/host.ts';

const TOOLS = 500;
const ROUNDS = 300;

const big = (name: string, deferred: boolean) =>
  defineToolkit({
    name,
    description: 'Many tools',
    deferred,
    tools: Array.from({ length: TOOLS }, (_, at) =>
      tool({
        name: `${name}_${at}`,
        description: `Reads the record number ${at} of the archive and returns its fields`,
        input: {
          type: 'object',
          additionalProperties: false,
          required: ['id'],
          properties: { id: { type: 'string', description: 'The record.' }, limit: { type: 'integer', default: 10 } },
        },
        run: () => ({ at }),
      }),
    ),
  });

const own = tool({ name: 'own', description: 'of the host', run: () => ({}) });
const kits = toolkitsPlugins({ toolkits: [big('deferred', true), big('listed', false)] });
const host = createHost({ plugins: [toolsPlugin({ tools: [own] }), ...kits] });
await host.start();
const agent = await connect(host, { capabilities: ['toolkits', 'tools'] });

/** Returns the median of many runs, milliseconds. */
async function median(run: (round: number) => PromiseLike<unknown>): Promise<number> {
  for (let round = 0; round < 20; round++) await run(round);
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const startedAt = performance.now();
    await run(round);
    times.push(performance.now() - startedAt);
  }
  return times.sort((a, b) => a - b)[ROUNDS / 2] as number;
}

const row = (name: string, ms: number): void => console.log(`${name.padEnd(52)} ${ms.toFixed(3)} ms`);

row('tool/list, nothing enabled', await median(() => agent.tools.list()));
row('tool/call, nothing enabled', await median(() => agent.tools.call('own')));
row(
  'toolkit/disable and toolkit/enable, each on disk',
  await median((round) => (round % 2 ? agent.toolkits.disable('deferred') : agent.toolkits.enable('deferred'))),
);
await agent.toolkits.enable('deferred');
assert.equal((await agent.tools.list()).length, 1);
row(`tool/list, ${TOOLS} deferred`, await median(() => agent.tools.list()));
row(
  `toolkit/search among ${TOOLS}, nothing loaded`,
  await median((round) => agent.toolkits.search(`record number ${round}`, { load: false })),
);
row(
  'toolkit/search that loads one, on disk',
  await median((round) => agent.toolkits.search(`deferred_${round}`, { limit: 1 })),
);
row('tool/call of a deferred tool', await median(() => agent.tools.call('deferred_499', { id: 'a' })));
row('tool/call of a tool of the host', await median(() => agent.tools.call('own')));
const [deferred] = await agent.toolkits.list();
await agent.toolkits.disable('deferred');
await agent.toolkits.enable('listed');
assert.equal((await agent.tools.list()).length, TOOLS + 1);
row(`tool/list, ${TOOLS} listed`, await median(() => agent.tools.list()));
console.log(
  `definitions of all: about ${deferred?.tokens} tokens; of one that was found: ${Math.round((deferred?.tokens ?? 0) / TOOLS)}`,
);
await agent.close();
await host.close();
