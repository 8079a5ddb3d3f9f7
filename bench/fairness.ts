/**
 * `npm run bench:fairness`: the effect of one flooding client on its neighbours.
 *
 *   npm run bench:fairness -- [--only TEXT] [--seconds N]
 *
 * The server, the flooding client and the neighbours are separate processes. Each flood ends when the server has read
 * it or has ended its connection, or after `--seconds` (default 5). The result is the longest round trip of a
 * neighbour.
 */
import { parseArgs } from 'node:util';
import { feel, floods } from '../test/support/floods.ts';
import { startServer } from '../test/support/serve-child.ts';
import { thisMachine } from './report.ts';

/** Longest acceptable wait of a neighbour. */
const GOAL_MS = 250;

const { values } = parseArgs({
  options: { only: { type: 'string', default: '' }, seconds: { type: 'string', default: '5' } },
});
const machine = thisMachine();
console.log(`${machine.cpu}, ${machine.cores} cores, ${machine.memory_gib} GiB, Node ${machine.node}`);
console.log(`longest round trip of neighbours; the goal is ${GOAL_MS} ms\n`);

let missed = 0;
const server = await startServer();
try {
  for (const flood of floods(server.token)) {
    if (!flood.name.includes(values.only)) continue;
    const felt = await feel(server, flood, Number(values.seconds) * 1000);
    if (felt.worstMs > GOAL_MS) missed++;
    console.log(
      `${flood.name.padEnd(46)} ${felt.worstMs.toFixed(0).padStart(6)} ms in ${String(felt.pings).padStart(4)} round trips; ` +
        `flood ${felt.floodMs.toFixed(0).padStart(5)} ms, ${(felt.repliedBytes / 1024).toFixed(0)} KiB of replies` +
        `${felt.ended ? ', then ended' : ''}`,
    );
  }
} finally {
  await server.stop();
}
console.log(missed === 0 ? '\nreached by every flood' : `\nmissed by ${missed} floods`);
