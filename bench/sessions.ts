/**
 * `npm run bench:sessions`: the control edge (session RPC) beside a bare JSON loop and beside vscode-jsonrpc.
 *
 *   npm run bench:sessions -- [--quick] [--json FILE] [--rounds N] [--workload NAME]…
 *
 * Builds first: Handfast is measured as compiled JavaScript, as every other package is.
 *
 * Compare the ratios, not the absolute figures: they depend on the machine and on its other work.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { build } from './build.ts';
import { load, thisMachine } from './report.ts';
import { firstChunks, serveUp } from './sessions/first-chunk.ts';
import { handshakes } from './sessions/handshake.ts';
import { opens } from './sessions/open.ts';
import { pingsOnPipes, pingsOnWebSocket } from './sessions/ping.ts';
import { Scratch } from './sessions/processes.ts';
import { rowsOf, rowsText, targetsText } from './sessions/report.ts';
import { runRounds } from './sessions/rounds.ts';
import { type StreamWorkloads, streams } from './sessions/stream.ts';
import { judgeTargets } from './sessions/targets.ts';
import type { Settings, Workload } from './sessions/workload.ts';

const MAX_ROUNDS = 99;
const SUBSCRIBERS = [1, 20];
const WORKLOADS = ['rpc-ping', 'rpc-handshake', 'stream', 'first-chunk', 'open'];

interface Options {
  readonly rounds: number;
  readonly settings: Settings;
  readonly jsonFile: string | undefined;
  /** Returns true when a workload of this name is wanted. */
  readonly wants: (name: string) => boolean;
}

function options(): Options {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      json: { type: 'string' },
      rounds: { type: 'string' },
      workload: { type: 'string', multiple: true, default: [] },
    },
  });
  const { quick, workload: wanted } = values;
  const rounds = values.rounds === undefined ? (quick ? 3 : 9) : Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1 || rounds > MAX_ROUNDS) {
    throw new Error(`--rounds must be 1 to ${MAX_ROUNDS}`);
  }
  for (const name of wanted) {
    if (!WORKLOADS.includes(name)) throw new Error(`no workload "${name}"; there are: ${WORKLOADS.join(', ')}`);
  }
  return {
    rounds,
    settings: {
      durationMs: quick ? 150 : 500,
      starts: quick ? 1 : 3,
      chunks: 10_000,
      firstChunks: quick ? 10 : 30,
      stored: { turns: 1000, eventsPerTurn: 100 },
    },
    jsonFile: values.json,
    wants: (name) => wanted.length === 0 || wanted.includes(name),
  };
}

const progress = (line: string): void => void process.stderr.write(`${line}\n`);

async function bench({ rounds, settings, jsonFile, wants }: Options): Promise<void> {
  const machine = thisMachine();
  const started = performance.now();
  console.log(
    `${machine.cpu}, ${machine.cores} cores, ${machine.memory_gib} GiB, ${machine.system}, Node ${machine.node}; ` +
      `${rounds} rounds; ${load()}\n`,
  );
  using scratch = new Scratch();
  await using ends = new AsyncDisposableStack();
  const workloads: Workload[] = [];
  const add = (workload: Workload): void => {
    workloads.push(workload);
    ends.defer(() => workload.close());
  };
  progress('starting everybody');
  const up = wants('rpc-ping') || wants('first-chunk') ? ends.use(await serveUp(scratch)) : undefined;
  if (wants('rpc-ping')) {
    add(await pingsOnPipes(scratch, 1));
    add(await pingsOnPipes(scratch, 64));
    if (up !== undefined) add(await pingsOnWebSocket(scratch, 64, up.rpcUrl));
  }
  if (wants('rpc-handshake')) add(await handshakes(scratch));
  let streamed: StreamWorkloads | undefined;
  if (wants('stream')) {
    streamed = await streams(scratch, SUBSCRIBERS);
    for (const workload of streamed.workloads) add(workload);
  }
  if (up !== undefined && wants('first-chunk')) add(await firstChunks(up));
  if (wants('open')) add(await opens(scratch, settings));

  const results = await runRounds(workloads, rounds, settings, progress);
  const serialised = (await streamed?.count(SUBSCRIBERS, settings.chunks)) ?? new Map<number, number>();
  const targets = judgeTargets(results, serialised, settings.chunks);
  console.log(`${rowsText(results)}\n\n${targetsText(targets)}`);
  console.log(`took ${Math.round((performance.now() - started) / 1000)} s; ${load()}`);
  if (jsonFile === undefined) return;
  const document = { machine, settings: { rounds, ...settings }, rows: rowsOf(results), targets };
  await writeFile(jsonFile, `${JSON.stringify(document, null, 2)}\n`);
}

let asked: Options | undefined;
try {
  asked = options();
  build();
} catch (thrown) {
  console.error(thrown instanceof Error ? thrown.message : thrown);
  process.exitCode = 2;
  asked = undefined;
}
if (asked !== undefined) await bench(asked);
