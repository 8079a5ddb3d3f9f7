/**
 * Tasks that do nothing, from an orchestrator to a worker and back, over every part of the fleet that HTTP carries,
 * against `message/send` of `@a2a-js/sdk`. Each contender is one process with both ends in it,
 * `fleet-a2a-contender.ts`.
 *
 * Only one works at a time. Rounds take turns, every other one in the opposite order, so that a slow phase of the
 * machine slows all; medians are compared. Not part of the check.
 *
 *   node -C handfast-source bench/fleet-a2a.ts [--tasks N] [--rounds N] [--at-once 1,16,64] [--only NAME,NAME]
 *
 * About twenty-five seconds.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Asked, ContenderName, Measured } from './fleet-a2a-contender.ts';

const CONTENDERS: Readonly<Record<ContenderName, { readonly title: string; readonly share: number }>> = {
  sdk: { title: '@a2a-js/sdk message/send', share: 1 },
  'websocket-link': { title: 'fleet link, WebSocket', share: 1 },
  'http-link': { title: 'fleet link, HTTP and events', share: 1 },
  'http-dialect': { title: 'fleet over HTTP requests', share: 1 },
  // A tenth of the tasks: it is slow, and its figures are as steady with fewer.
  a2a: { title: 'fleet over A2A, tasks on disk', share: 0.1 },
};

const { values: flags } = parseArgs({
  options: {
    tasks: { type: 'string', default: '1000' },
    rounds: { type: 'string', default: '5' },
    'at-once': { type: 'string', default: '1,16,64' },
    only: { type: 'string', default: Object.keys(CONTENDERS).join() },
  },
});
const TASKS = Number(flags.tasks);
const ROUNDS = Number(flags.rounds);
const TARGET = 3;

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

class Contender {
  readonly name: ContenderName;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(name: ContenderName) {
    this.name = name;
    this.#child = fork(fileURLToPath(new URL('fleet-a2a-contender.ts', import.meta.url)), [name]);
    this.#ended = once(this.#child, 'exit');
  }

  async ready(): Promise<void> {
    await this.#answer();
  }

  async measured(atOnce: number): Promise<Measured> {
    const asked: Asked = { tasks: Math.ceil(TASKS * CONTENDERS[this.name].share), atOnce };
    this.#child.send(asked);
    return (await this.#answer()) as Measured;
  }

  async #answer(): Promise<unknown> {
    const answer = Promise.withResolvers<unknown>();
    this.#child.once('message', answer.resolve);
    const lost = this.#ended.then(() => Promise.reject(new Error(`${this.name} has ended`)));
    return Promise.race([answer.promise, lost]);
  }

  async stop(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    await this.#ended;
  }
}

/** Compares all contenders with this number of tasks at a time; true: the fleet links reach the target. */
async function compare(contenders: readonly Contender[], atOnce: number): Promise<boolean> {
  const rounds = new Map<Contender, Measured[]>(contenders.map((one) => [one, []]));
  for (const one of contenders) await one.measured(atOnce);
  for (let round = 0; round < ROUNDS; round += 1) {
    const order = round % 2 === 0 ? contenders : contenders.toReversed();
    for (const one of order) rounds.get(one)?.push(await one.measured(atOnce));
  }
  console.log(`\n${atOnce} at a time, median of ${ROUNDS} rounds of ${TASKS}:`);
  console.log(`  ${''.padEnd(32)} tasks/s            CPU µs a task`);
  let base: { readonly rate: number; readonly cpu: number } | undefined;
  let reached = true;
  for (const [{ name }, values] of rounds) {
    const rate = median(values.map(({ tasksPerSecond }) => tasksPerSecond));
    const cpu = median(values.map(({ cpuMicrosPerTask }) => cpuMicrosPerTask));
    base ??= { rate, cpu };
    const times = (ratio: number): string => `${ratio.toFixed(2).padStart(6)} x`;
    const rates = `${rate.toFixed(0).padStart(7)} ${times(rate / base.rate)}`;
    const { title } = CONTENDERS[name];
    console.log(`  ${title.padEnd(32)} ${rates}   ${cpu.toFixed(0).padStart(7)} ${times(base.cpu / cpu)} less`);
    if (name.endsWith('-link')) reached &&= rate / base.rate >= TARGET;
  }
  return reached;
}

const contenders = flags.only.split(',').map((name) => new Contender(name as ContenderName));
try {
  for (const one of contenders) await one.ready();
  let reached = true;
  for (const atOnce of flags['at-once'].split(',')) reached = (await compare(contenders, Number(atOnce))) && reached;
  if (contenders[0]?.name === 'sdk') {
    console.log(`\nTarget: fleet links at ${TARGET} x the SDK or better: ${reached ? 'reached' : 'missed'}.`);
  }
} finally {
  for (const one of contenders) await one.stop();
}
