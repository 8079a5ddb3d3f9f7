/**
 * The rate of the NATS bus: tasks that do nothing, from an orchestrator to a worker in a separate process and back,
 * each with its lease, its claim and its acknowledgements, on a separate server. The journals of both ends are not
 * measured.
 *
 * Run with `node -C handfast-source bench/fleet-nats.ts [tasks]`; about ten seconds. Needs a server: see
 * `scripts/install-nats.ts`.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { joinNats } from '../src/fleet/bus/nats/join.ts';
import { natsBus } from '../src/fleet/bus/nats/orchestrator-bus.ts';
import type { FleetPeer } from '../src/fleet/bus/peer.ts';
import { dispatchMessage } from '../src/fleet/messages/encode.ts';
import { NatsServer, newest } from '../test/fleet/nats/server.ts';
import { WorkerStandIn } from '../test/fleet/nats/worker-stand-in.ts';

const ROUNDS = 3;
const LANES = 256;
const ALONE = 500;

async function worker(url: string): Promise<void> {
  await joinNats(new WorkerStandIn({ agentId: 'bench', maxConcurrent: 512 }), { servers: url }).accepted;
  process.send?.('ready');
  await once(process, 'disconnect');
  process.exit(0);
}

async function measure(tasks: number): Promise<void> {
  const installed = newest();
  if (installed === undefined) throw new Error('no nats-server: node scripts/install-nats.ts');
  const server = new NatsServer(installed);
  await server.up();
  const child = fork(import.meta.filename, ['worker', server.url], { execArgv: ['-C', 'handfast-source'] });
  await once(child, 'message');
  const bus = natsBus({ servers: server.url, name: 'bench' });
  const joined = Promise.withResolvers<FleetPeer>();
  const waiting = new Map<string, () => void>();
  await bus.start({
    joined: joined.resolve,
    received(_peer, message) {
      if (message.type === 'TASK_RESULT') waiting.get(message.task_id)?.();
    },
    malformed: (_peer, codes) => console.error('unreadable', codes),
    left: (peer, reason) => console.error(`${peer.peerId} left: ${reason}`),
  });
  const peer = await joined.promise;
  const run = async (taskId: string): Promise<number> => {
    const began = performance.now();
    const ended = new Promise<void>((resolve) => waiting.set(taskId, resolve));
    const dispatch = dispatchMessage({ task: { task_id: taskId }, brief: 'nothing' }, { attempt: 1 });
    await peer.send(dispatch, { mode: 'structured' });
    await ended;
    waiting.delete(taskId);
    return performance.now() - began;
  };
  console.log(`nats-server ${installed.version}, ${tasks} tasks a round, ${LANES} at a time`);
  for (let round = 1; round <= ROUNDS; round++) {
    let next = 0;
    const began = performance.now();
    const lane = async (): Promise<void> => {
      while (next < tasks) await run(`${round}-${next++}`);
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    console.log(`  ${Math.round((tasks / (performance.now() - began)) * 1000)} tasks/s`);
  }
  const alone: number[] = [];
  for (let index = 0; index < ALONE; index++) alone.push(await run(`alone-${index}`));
  alone.sort((one, other) => one - other);
  const at = (share: number): string => (alone[Math.floor(alone.length * share)] ?? 0).toFixed(2);
  console.log(`  one at a time, dispatch to result: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`);
  child.disconnect();
  await bus.close();
  await server.remove();
}

const [what = '10000', url = ''] = process.argv.slice(2);
if (what === 'worker') await worker(url);
else await measure(Number(what));
