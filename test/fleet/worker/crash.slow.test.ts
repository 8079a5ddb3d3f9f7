/**
 * A worker that is killed again and again in the middle of its work: no task is lost, none runs twice in one attempt, none
 * is accepted twice, and no program of it is left.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { dispatchMessage, fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { identityOf } from '../../../src/fleet/worker/process-identity.ts';
import type { FleetMessage, TaskResult } from '../../../src/protocol/fleet.ts';
import { folder } from '../support/worker-bench.ts';

const child = fileURLToPath(new URL('../support/worker-child.ts', import.meta.url));
const TASKS = 300;
const KILLS = 25;
const AT_ONCE = 8;

interface Open {
  readonly id: string;
  attempt: number;
  /** Sent, and not yet known how it ended. */
  sent: boolean;
  final?: TaskResult;
}

/** As much of an orchestrator as it takes to hand out tasks and to ask after them. */
class Hand {
  readonly tasks: Open[] = Array.from({ length: TASKS }, (_, number) => ({
    id: `t-${number}`,
    attempt: 1,
    sent: false,
  }));
  readonly taken: string[] = [];
  readonly finished = Promise.withResolvers<void>();
  restarts = 0;
  #process: ChildProcess | undefined;
  readonly #home: string;
  readonly #deeds: string;

  constructor(home: string, deeds: string) {
    this.#home = home;
    this.#deeds = deeds;
  }

  async start(): Promise<void> {
    const process = fork(child, [this.#home, this.#deeds], {
      execArgv: ['-C', 'handfast-source'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    await new Promise<void>((resolve, reject) => {
      process.on('message', (message: FleetMessage | { type: 'ready' }) => {
        if (message.type === 'ready') resolve();
        else this.#heard(message as FleetMessage);
      });
      process.once('exit', () => reject(new Error('the worker did not come up')));
    });
    this.#process = process;
    for (const task of this.tasks) if (task.sent && task.final === undefined) this.#poll(task);
    this.#more();
  }

  async kill(): Promise<void> {
    const process = this.#process as ChildProcess;
    this.#process = undefined;
    this.restarts += 1;
    const exited = new Promise((resolve) => process.once('exit', resolve));
    process.kill('SIGKILL');
    await exited;
  }

  async end(): Promise<void> {
    this.#process?.disconnect();
    await new Promise((resolve) => this.#process?.once('exit', resolve));
  }

  #send(message: FleetMessage): void {
    if (this.#process?.connected) this.#process.send(message, () => {});
  }

  #poll({ id: task_id, attempt }: Open): void {
    this.#send(fleetMessage('TASK_POLL', { task_id }, { attempt }));
  }

  #dispatch(task: Open): void {
    task.sent = true;
    const { id: task_id, attempt } = task;
    this.#send(
      dispatchMessage(
        { task: { task_id, reply_schema: 'json' }, requirements: { access: 'read' }, brief: 'Do it.' },
        { attempt, context_id: `${task_id}#${attempt}` },
      ),
    );
  }

  #more(): void {
    const open = this.tasks.filter(({ sent, final }) => sent && final === undefined).length;
    for (const task of this.tasks.filter(({ sent, final }) => !sent && final === undefined).slice(0, AT_ONCE - open)) {
      this.#dispatch(task);
    }
    if (this.tasks.every(({ final }) => final !== undefined)) this.finished.resolve();
  }

  #heard(message: FleetMessage): void {
    if (message.type !== 'TASK_ACK' && message.type !== 'TASK_RESULT') return;
    const task = this.tasks.find(({ id }) => id === message.task_id) as Open;
    if (message.type === 'TASK_ACK') {
      // It is not begun there any more, so that it may be sent as another attempt.
      const current = (message.envelope?.attempt ?? 1) === task.attempt && task.final === undefined;
      if (current && (message.state === 'unknown' || message.state === 'busy')) {
        task.attempt += 1;
        task.sent = false;
      }
      this.#more();
      return;
    }
    this.#send(
      fleetMessage(
        'TASK_ACK',
        { task_id: task.id, accepted: true },
        { causation_id: message.envelope?.message_id ?? '' },
      ),
    );
    if (task.final !== undefined || (message.envelope?.attempt ?? 1) < task.attempt) return;
    const again = message.blocked?.retryable === true || message.error_summary === 'worker restarted during the task';
    if (again) {
      task.attempt += 1;
      task.sent = false;
    } else {
      task.final = message;
      this.taken.push(task.id);
    }
    this.#more();
  }
}

test(`a worker that is killed ${KILLS} times during ${TASKS} tasks loses none and runs no attempt twice`, async (t) => {
  const home = await folder(t);
  const deeds = join(home, 'deeds');
  await writeFile(deeds, '');
  const hand = new Hand(home, deeds);
  let seed = 42;
  const random = (): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed / 2 ** 31;
  };
  await hand.start();
  for (let kill = 0; kill < KILLS; kill += 1) {
    await sleep(20 + random() * 160);
    await hand.kill();
    await hand.start();
  }
  await Promise.race([
    hand.finished.promise,
    sleep(240_000, undefined, { ref: false }).then(() => Promise.reject(new Error('not done'))),
  ]);
  await hand.end();

  assert.equal(new Set(hand.taken).size, TASKS, 'every task ended');
  assert.equal(hand.taken.length, TASKS, 'and was accepted once');
  const lines = (await readFile(deeds, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => line.split(' '));
  const begun = lines.filter(([what]) => what === 'begin').map(([, id, attempt]) => `${id}#${attempt}`);
  assert.equal(new Set(begun).size, begun.length, 'no attempt was begun twice');
  for (const { id, attempt, final } of hand.tasks) {
    if (final?.status === 'done')
      assert.ok(
        lines.some(([what, of, by]) => what === 'end' && of === id && by === String(attempt)),
        `${id} was done`,
      );
    else assert.equal(final?.error_summary, 'crashed the worker twice');
  }
  for (const [, , , pid] of lines) assert.equal(await identityOf(Number(pid)), undefined, 'nothing is left running');
  const poisoned = hand.tasks.filter(({ final }) => final?.status === 'error').length;
  t.diagnostic(
    `${hand.restarts} kills, ${begun.length} attempts begun, ${TASKS - poisoned} done, ${poisoned} given up after two crashes`,
  );
});
