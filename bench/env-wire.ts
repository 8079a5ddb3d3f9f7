/**
 * `npm run bench:env-wire`: steps of CartPole a second over the wire, with the host in a separate process: one session
 * in turn (TCP and Unix socket), one session that does not wait, 32 sessions, and batches; beside OpenEnv's own server
 * and client if a Python has them, and beside two processes of Node that only exchange the same number of bytes: no
 * step in turn can be faster.
 *
 *   npm run bench:env-wire -- [--rounds N] [--seconds N] [--python PROGRAM]
 *
 * Rounds are interleaved, and the ratio is the median of those of the rounds. Each figure counts steps with a reply;
 * the processor time is that of both ends. A session in turn mostly waits for the system to wake the other process,
 * which costs more from core to core than all other work: `taskset -c 0 npm run bench:env-wire` measures without it,
 * for every row.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { connect } from '../src/connect.ts';
import { cpuOf } from './process-cpu.ts';
import { thisMachine } from './report.ts';
import { median } from './workloads/workload.ts';

const CHILDREN = join(import.meta.dirname, 'children');
const SESSIONS = 32;
const BATCH = 64;
const PIPELINE = 16;
/** Bytes of a step of CartPole and of its reply, over the wire. */
const REQUEST_BYTES = 198;
const REPLY_BYTES = 442;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '1.5' },
    python: { type: 'string', default: '' },
  },
});
const seconds = Number(values.seconds);

/** Steps, the seconds they took, and those of the processor in this process, if they are measured otherwise than for all rows. */
interface Played {
  readonly steps: number;
  readonly took: number;
  readonly clientCpu?: number;
}

/** Starts a child and resolves with the first line it prints. Rejects when it ends before. */
async function started(argv: readonly [string, ...string[]]): Promise<{ child: ChildProcess; line: string }> {
  const [program, ...args] = argv;
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout });
  const line = await Promise.race([
    once(lines, 'line').then(([first]) => String(first)),
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`${argv.join(' ')} ended with ${code}`))),
  ]);
  return { child, line };
}

const agentAt = (address: string) => connect(address, { capabilities: ['env'], maxParallel: 64 });
type Agent = Awaited<ReturnType<typeof agentAt>>;

/**
 * Plays one episode after the other, each step after the reply to the one before it, as OpenEnv's client does it in
 * `children/`.
 */
async function play(agent: Agent, instance: string): Promise<number> {
  let episode = await agent.env.reset('CartPole-v1', { instance });
  let steps = 0;
  const begun = performance.now();
  while (performance.now() - begun < seconds * 1000) {
    if (episode.done) {
      // Both leave in one write: OpenEnv's client needs one message for the next episode, too.
      void episode.close();
      episode = await agent.env.reset('CartPole-v1', { instance });
    } else {
      await episode.step(steps % 2);
      steps++;
    }
  }
  return steps;
}

/** Plays `width` episodes at once in each of the sessions. */
async function timed(address: string, sessions: number, width: number): Promise<Played> {
  const agents = await Promise.all(Array.from({ length: sessions }, () => agentAt(address)));
  const begun = performance.now();
  const players = agents.flatMap((agent) => Array.from({ length: width }, (_, at) => play(agent, String(at))));
  const steps = (await Promise.all(players)).reduce((sum, each) => sum + each, 0);
  const took = (performance.now() - begun) / 1000;
  await Promise.all(agents.map((agent) => agent.close()));
  return { steps, took };
}

/** Exchanges the number of bytes of steps and their replies, in turn. */
async function echoed({ line: port }: { readonly line: string }): Promise<Played> {
  const socket = createConnection({ host: '127.0.0.1', port: Number(port), noDelay: true });
  await once(socket, 'connect');
  const request = `${'x'.repeat(REQUEST_BYTES - 1)}\n`;
  const { promise, resolve } = Promise.withResolvers<void>();
  const begun = performance.now();
  let steps = 0;
  let received = 0;
  socket.on('data', ({ length }) => {
    received += length;
    if (received < (steps + 1) * REPLY_BYTES) return;
    steps++;
    if (performance.now() - begun < seconds * 1000) socket.write(request, 'latin1');
    else resolve();
  });
  socket.write(request, 'latin1');
  await promise;
  socket.destroy();
  return { steps, took: (performance.now() - begun) / 1000 };
}

/** Plays batches of steps in one session. */
async function batches(address: string): Promise<Played> {
  await using agent = await agentAt(address);
  const vector = await agent.env.vector('CartPole-v1', BATCH, { autoreset: 'same_step' });
  const actions = Array.from({ length: BATCH }, (_, at) => at % 2);
  const begun = performance.now();
  let steps = 0;
  while (performance.now() - begun < seconds * 1000) {
    await vector.step(actions);
    steps += BATCH;
  }
  return { steps, took: (performance.now() - begun) / 1000 };
}

const folder = mkdtempSync(join(tmpdir(), 'env-wire-'));
const sockets = process.platform === 'win32' ? [] : [`unix://${join(folder, 'socket')}`];
const host = await started([process.execPath, '-C', 'handfast-source', join(CHILDREN, 'env-host.ts'), ...sockets]);
const [tcp, unix] = JSON.parse(host.line) as [string, string?];
const echo = await started([process.execPath, join(CHILDREN, 'echo.mjs'), String(REPLY_BYTES)]);
const script = join(CHILDREN, 'openenv_cartpole.py');
const openEnv = values.python === '' ? undefined : await started([values.python, script, 'serve']);

async function openEnvClient({ line: port }: { readonly line: string }): Promise<Played> {
  const { child, line } = await started([values.python, script, 'client', port, values.seconds]);
  child.kill();
  const [steps, took, clientCpu] = JSON.parse(line) as [number, number, number];
  return { steps, took, clientCpu };
}

interface Workload {
  readonly server: ChildProcess;
  run(): Promise<Played>;
}
const ours = (run: () => Promise<Played>): Workload => ({ server: host.child, run });
const workloads: Record<string, Workload> = {
  ...(openEnv && {
    'OpenEnv (WebSocket), one session, in turn': { server: openEnv.child, run: () => openEnvClient(openEnv) },
  }),
  'as many bytes over TCP between two processes of Node, in turn': { server: echo.child, run: () => echoed(echo) },
  'TCP, one session, in turn': ours(() => timed(tcp, 1, 1)),
  ...(unix !== undefined && { 'Unix socket, one session, in turn': ours(() => timed(unix, 1, 1)) }),
  [`TCP, one session, ${PIPELINE} episodes at once`]: ours(() => timed(tcp, 1, PIPELINE)),
  [`TCP, ${SESSIONS} sessions, each in turn`]: ours(() => timed(tcp, SESSIONS, 1)),
  [`TCP, one session, \`batch_step\` of ${BATCH}`]: ours(() => batches(tcp)),
};

/** Steps a second and microseconds of the processor for each step, by round. */
const rounds: Record<string, { readonly rates: number[]; readonly micros: number[] }> = {};
try {
  // The first round warms up and does not count.
  for (let round = 0; round <= Number(values.rounds); round++) {
    const order = Object.entries(workloads);
    // The next one begins each round, so that none is always measured behind the same other.
    for (const [name, { server, run }] of [
      ...order.slice(round % order.length),
      ...order.slice(0, round % order.length),
    ]) {
      const [used, before] = [cpuOf(server), process.cpuUsage()];
      const { steps, took, clientCpu } = await run();
      const { user, system } = process.cpuUsage(before);
      const cpu = cpuOf(server) - used + (clientCpu ?? (user + system) / 1e6);
      if (round === 0) continue;
      rounds[name] ??= { rates: [], micros: [] };
      rounds[name].rates.push(steps / took);
      rounds[name].micros.push((cpu / steps) * 1e6);
    }
  }
} finally {
  host.child.kill();
  echo.child.kill();
  openEnv?.child.kill();
  rmSync(folder, { recursive: true, force: true });
}
const [first = ''] = Object.keys(workloads);
const base = rounds[first] as { rates: number[]; micros: number[] };
const { cpu, node } = thisMachine();
console.log(`${cpu}, ${availableParallelism()} cores to run on, Node ${node}; ratios are those to the first row`);
console.log('\n| CartPole-v1 | steps/s | ratio | CPU/step (µs) | ratio |\n| --- | ---: | ---: | ---: | ---: |');
for (const name of Object.keys(workloads)) {
  const { rates, micros } = rounds[name] as { rates: number[]; micros: number[] };
  const faster = median(rates.map((rate, round) => rate / (base.rates[round] as number)));
  const lighter = median(micros.map((micro, round) => (base.micros[round] as number) / micro));
  console.log(
    `| ${name} | ${Math.round(median(rates)).toLocaleString('en')} | ${faster.toFixed(1)} | ${median(micros).toFixed(1)} | ${lighter.toFixed(1)} |`,
  );
}
