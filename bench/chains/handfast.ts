/**
 * A host that runs chains, and an agent of it, in one process: `handfast.ts FOLDER`. Each node calls a tool that does
 * nothing, in the usual way: rights, schemas, audit and events have their defaults, and so does the journal, which is
 * on disk before the tool is called.
 */
import { join } from 'node:path';
import { chainsPlugin } from '../../src/capabilities/chains/plugin.ts';
import type { ChainNode } from '../../src/capability.ts';
import { connect } from '../../src/connect.ts';
import { createHost } from '../../src/host.ts';
import { tool, toolsPlugin } from '../../src/tools.ts';
import { serveLines, timed } from './lines.ts';
import type { Shape } from './measure.ts';

const MIB = 1024 * 1024;
/** Rows of a mesh: 10,000 nodes are 500 deep. */
const MESH_WIDTH = 20;

/** Time of each node's call, and the processor time that the process had used then. */
const called: { readonly at: number; readonly cpu: NodeJS.CpuUsage }[] = [];
let noting = false;
let calls = 0;
const nothing = tool({
  name: 'nothing',
  description: 'Does nothing',
  input: { type: 'object' },
  run: () => {
    calls += 1;
    if (noting) called.push({ at: performance.now(), cpu: process.cpuUsage() });
    return 1;
  },
});

const startedAt = performance.now();
const host = createHost({
  plugins: [toolsPlugin({ tools: [nothing] }), chainsPlugin()],
  stateFile: join(process.argv[2] as string, 'state.db'),
});
await host.start();
const agent = await connect(host, { capabilities: ['chains'] });
const hostSeconds = (performance.now() - startedAt) / 1_000;

const before: Readonly<Record<Shape, (at: number) => readonly number[]>> = {
  row: (at) => [at - 1],
  fan: () => [],
  mesh: (at) => [at - MESH_WIDTH, at - MESH_WIDTH + 1],
};

function nodesOf(shape: Shape, count: number): ChainNode[] {
  return Array.from({ length: count }, (_, at) => ({
    node_id: `n${at}`,
    kind: 'tool',
    name: 'nothing',
    input: {},
    after: before[shape](at).flatMap((index) => (index < 0 ? [] : [`n${index}`])),
  }));
}

/** Runs a chain, or resumes it, until a node of it waits; seconds. Reads its events on, because a reader that leaves cancels it. */
function untilWaiting(run: ReturnType<typeof agent.chains.run>): Promise<number> {
  const waiting = Promise.withResolvers<void>();
  const read = async (): Promise<void> => {
    for await (const { fields } of run) if ((fields as { phase?: string }).phase === 'wait') waiting.resolve();
  };
  read().then(() => waiting.reject(new Error('the run ended before a node waited')), waiting.reject);
  return timed(() => waiting.promise);
}

interface Request {
  readonly op?: 'run' | 'tenths' | 'hold' | 'resume';
  readonly shape: Shape;
  readonly nodes: number;
  readonly parallel: number;
  readonly durable?: boolean;
}

/** Returns the cost of the last tenth of the nodes against that of the first. */
function tenths(nodes: number): { readonly time: number; readonly cpu: number } {
  const tenth = nodes / 10;
  const span = (from: number) => {
    const [first, last] = [called[from], called[from + tenth - 1]] as [
      (typeof called)[number],
      (typeof called)[number],
    ];
    const used = (cpu: NodeJS.CpuUsage): number => cpu.user + cpu.system;
    return { time: last.at - first.at, cpu: used(last.cpu) - used(first.cpu) };
  };
  const [first, last] = [span(0), span(nodes - tenth)];
  return { time: last.time / first.time, cpu: last.cpu / first.cpu };
}

async function measure({ op = 'run', shape, nodes, parallel, durable = true }: Request): Promise<object> {
  calls = 0;
  const list = nodesOf(shape, op === 'hold' ? nodes - 1 : nodes);
  if (op === 'hold') {
    const last = list.slice(-MESH_WIDTH).map(({ node_id }) => node_id);
    const wait: ChainNode = { node_id: 'held', kind: 'wait', after: last, wait: { event: 'go' } };
    const run = agent.chains.run({ nodes: [...list, wait], max_parallel: parallel }, {}, { chainId: 'held' });
    return { seconds: await untilWaiting(run), calls };
  }
  if (op === 'resume') {
    return { seconds: await untilWaiting(agent.chains.resume('held')), calls, hostSeconds };
  }
  noting = op === 'tenths';
  called.length = 0;
  const residentBefore = process.memoryUsage.rss();
  const seconds = await timed(async () => {
    const { state, error } = await agent.chains.run({ nodes: list, max_parallel: parallel }, {}, { durable });
    if (state !== 'done') throw new Error(`the run ended as ${state}: ${JSON.stringify(error)}`);
  });
  if (calls !== nodes) throw new Error(`${calls} calls of ${nodes} nodes`);
  const peakMib = process.resourceUsage().maxRSS / 1024;
  return {
    seconds,
    peakMib,
    ...(noting && { tenths: tenths(nodes), grownMib: peakMib - residentBefore / MIB }),
  };
}

await serveLines(measure, async () => {
  await agent.close();
  await host.close(0);
});
