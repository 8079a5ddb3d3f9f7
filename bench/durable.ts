/**
 * `npm run bench:durable`: the price of `journal.durable: replies`. Hosts that differ in their journal alone serve the
 * same tool over TCP, in turn, round by round; the result is the ratio of the medians.
 *
 *   npm run bench:durable -- [--rounds N] [--seconds N]
 *
 * Client and host share one process, and the tool does nothing: the share of the journal is as large as it can be.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { connect } from '../src/connect.ts';
import { createHost } from '../src/host.ts';
import { type Journal, memoryJournal, sqliteJournal } from '../src/journal.ts';
import { listen } from '../src/listen.ts';
import { tool, toolsPlugin } from '../src/tools.ts';
import { thisMachine } from './report.ts';
import { median } from './workloads/workload.ts';

const PARALLEL = [1, 64];
const MAX_PARALLEL = 64;

const KINDS = ['memory', 'sqlite', 'sqlite, replies durable'] as const;
type Kind = (typeof KINDS)[number];

/** Calls a second with this many at once. */
async function callsPerSecond(kind: Kind, parallel: number, seconds: number): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
  const journal: Journal =
    kind === 'memory' ? memoryJournal() : await sqliteJournal({ file: join(folder, 'journal.db') });
  const nothing = tool({ name: 'nothing', description: 'does nothing', run: () => 1 });
  const host = createHost({
    plugins: [toolsPlugin({ tools: [nothing] })],
    journal,
    durableReplies: kind === 'sqlite, replies durable',
    limits: { maxParallel: MAX_PARALLEL },
  });
  await host.start();
  const listener = await listen(host, 'tcp://127.0.0.1:0');
  const agent = await connect(listener.address, { capabilities: ['tools'], maxParallel: MAX_PARALLEL });
  try {
    const begin = performance.now();
    const end = begin + seconds * 1000;
    let calls = 0;
    const caller = async (): Promise<void> => {
      while (performance.now() < end) {
        await agent.tools.call('nothing', {});
        calls += 1;
      }
    };
    await Promise.all(Array.from({ length: parallel }, caller));
    return calls / ((performance.now() - begin) / 1000);
  } finally {
    await agent.close();
    await listener.close();
    await host.close(0);
    await journal.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, seconds: { type: 'string', default: '1' } },
});
const machine = thisMachine();
console.log(`${machine.cpu}, ${machine.cores} cores, ${machine.memory_gib} GiB, Node ${machine.node}`);
console.log('calls a second, and the ratio to sqlite alone\n');
for (const parallel of PARALLEL) {
  const samples = new Map<Kind, number[]>(KINDS.map((kind) => [kind, []]));
  // The first round warms up.
  for (let round = 0; round <= Number(values.rounds); round += 1) {
    for (const kind of KINDS) {
      const rate = await callsPerSecond(kind, parallel, Number(values.seconds));
      if (round > 0) samples.get(kind)?.push(rate);
    }
  }
  const base = median(samples.get('sqlite') ?? []);
  for (const [kind, rates] of samples) {
    const rate = median(rates);
    console.log(
      `${String(parallel).padStart(3)} at once  ${kind.padEnd(24)} ${rate.toFixed(0).padStart(8)}  ${(rate / base).toFixed(2)}`,
    );
  }
}
