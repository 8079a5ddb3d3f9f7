/**
 * An orchestrator killed at random moments, again and again, while its workers live on: no task is lost, no attempt runs
 * twice, no result is accepted twice, and nothing is sent again that its worker has.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fleetMessage, resultMessage } from '../../../src/fleet/messages/encode.ts';
import { sqliteTaskStore } from '../../../src/fleet/orchestrator/store-sqlite.ts';
import type { FleetMessage, TaskDispatch } from '../../../src/protocol/fleet.ts';
import type { FromChild, ToChild } from './support/orchestrator-child.ts';

const TASKS = 300;
const KILLS = 30;
const WORKERS = ['w1', 'w2', 'w3'];
const SEED = 20260601;

/** Returns numbers that are the same in each run; the moment of a kill is not, since the disk has its own time. */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

interface Job {
  readonly worker: string;
  readonly dispatch: TaskDispatch;
  state: 'running' | 'finished' | 'acknowledged';
}

class World {
  readonly chance = random(SEED);
  readonly file: string;
  readonly jobs = new Map<string, Job>();
  readonly starts = new Map<string, number>();
  readonly submitted = new Set<string>();
  kills = 0;
  #child: ChildProcess | undefined;
  #number = 0;
  readonly #waiting = new Map<number, (ok: boolean) => void>();
  #seq = 0;

  constructor(file: string) {
    this.file = file;
  }

  async start(): Promise<void> {
    const child = fork(new URL('./support/orchestrator-child.ts', import.meta.url), [this.file], {
      execArgv: ['-C', 'handfast-source'],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child = child;
    const ready = Promise.withResolvers<void>();
    child.on('message', (message: FromChild) => {
      if (message.kind === 'ready') ready.resolve();
      else if (this.#child === child) this.#hear(message);
    });
    child.once('exit', () => ready.reject(new Error('the child ended before it was ready')));
    await ready.promise;
    this.#seq += 1;
    for (const worker of WORKERS) {
      void this.#say(
        worker,
        fleetMessage('SESSION_ANNOUNCE', {
          worker: { agent_id: worker, max_concurrent: 8 },
          capabilities: { tools: [], mcp_servers: [] },
          session: { incarnation: `${worker}-1`, seq: this.#seq, active_tasks: 0, ttl_s: 600 },
        }),
      );
    }
    for (const job of this.jobs.values()) if (job.state === 'finished') void this.#report(job);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    this.#child = undefined;
    for (const settle of this.#waiting.values()) settle(false);
    this.#waiting.clear();
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    this.kills += 1;
  }

  submit(task_id: string): void {
    this.#send({ kind: 'submit', task_id, retry_safe: Number(task_id.slice(1)) % 2 === 0 });
  }

  /** Reports for every worker that it continues. */
  beat(): void {
    for (const { worker, dispatch, state } of this.jobs.values()) {
      if (state !== 'running') continue;
      const { task, envelope } = dispatch;
      const progress = { task_id: task.task_id, seq: 1, phase: 'running' };
      void this.#say(worker, fleetMessage('TASK_PROGRESS', progress, { attempt: envelope?.attempt }));
    }
  }

  #send(message: ToChild): void {
    if (this.#child?.connected) this.#child.send(message, () => {});
  }

  #say(peer: string, message: FleetMessage): Promise<boolean> {
    if (this.#child === undefined) return Promise.resolve(false);
    const number = ++this.#number;
    this.#send({ kind: 'say', number, peer, message });
    return new Promise((resolve) => this.#waiting.set(number, resolve));
  }

  #hear(message: FromChild): void {
    if (message.kind === 'submitted') this.submitted.add(message.task_id);
    else if (message.kind === 'kept') {
      this.#waiting.get(message.number)?.(message.ok);
      this.#waiting.delete(message.number);
    } else if (message.kind === 'send') this.#work(message.peer, message.message);
  }

  /** Acts as a worker as the specification has it: a journal by task id, an outbox, answers to polls. */
  #work(worker: string, message: FleetMessage): void {
    if (message.type === 'TASK_POLL') {
      const job = this.jobs.get(`${worker} ${message.task_id}`);
      const state = job === undefined ? 'unknown' : job.state === 'running' ? 'running' : 'finished';
      const attempt = job?.dispatch.envelope?.attempt ?? message.envelope?.attempt;
      const ack = { task_id: message.task_id, accepted: job !== undefined, state } as const;
      void this.#say(worker, fleetMessage('TASK_ACK', ack, { attempt }));
      if (state === 'finished') void this.#report(job as Job);
      return;
    }
    if (message.type !== 'TASK_DISPATCH') return;
    const { task_id } = message.task;
    const attempt = message.envelope?.attempt;
    const known = this.jobs.get(`${worker} ${task_id}`);
    if (known !== undefined) {
      assert.notEqual(known.dispatch.envelope?.attempt, attempt, `${task_id}#${attempt} was sent twice`);
      const busy = { task_id, accepted: false, state: 'busy', retry_after_s: 1 } as const;
      if (known.state === 'running') void this.#say(worker, fleetMessage('TASK_ACK', busy, { attempt }));
      else void this.#report(known);
      return;
    }
    const job: Job = { worker, dispatch: message, state: 'running' };
    this.jobs.set(`${worker} ${task_id}`, job);
    const key = `${task_id}#${attempt}`;
    this.starts.set(key, (this.starts.get(key) ?? 0) + 1);
    void this.#say(worker, fleetMessage('TASK_ACK', { task_id, accepted: true, state: 'accepted' }, { attempt }));
    setTimeout(() => {
      job.state = 'finished';
      void this.#report(job);
    }, this.chance() * 60);
  }

  /** Delivers the result until it is kept. */
  async #report(job: Job): Promise<void> {
    const { dispatch, worker } = job;
    const { task, envelope } = dispatch;
    const body = {
      task_id: task.task_id,
      status: 'done',
      tokens_spent: 1,
      summary: `${worker}#${envelope?.attempt}`,
    } as const;
    if (await this.#say(worker, resultMessage(body, { attempt: envelope?.attempt }))) job.state = 'acknowledged';
  }
}

test('killed at random moments, it loses nothing and accepts nothing twice', { timeout: 480_000 }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'handfast-kill-'));
  t.after(() => rm(folder, { recursive: true }));
  const world = new World(join(folder, 'tasks.db'));
  const ids = Array.from({ length: TASKS }, (_, at) => `t${at}`);
  await world.start();
  t.after(() => world.kill());
  let next = 0;
  const unfinished = () => [...world.jobs.values()].filter(({ state }) => state !== 'acknowledged').length;
  const deadline = performance.now() + 400_000;
  for (let round = 0; performance.now() < deadline; round += 1) {
    for (let n = 0; n < 12 && next < TASKS; n += 1) world.submit(ids[next++] as string);
    // A task that was not confirmed is submitted again: the same task, not another one.
    for (const id of ids.slice(0, next)) if (!world.submitted.has(id)) world.submit(id);
    world.beat();
    await pause(world.chance() * 120);
    if (world.kills < KILLS && round % 2 === 1) {
      await world.kill();
      await world.start();
    } else if (world.submitted.size === TASKS && world.kills >= KILLS) {
      if (
        new Set([...world.jobs.values()].map(({ dispatch }) => dispatch.task.task_id)).size === TASKS &&
        unfinished() === 0
      )
        break;
    }
  }
  await pause(300);
  await world.kill();

  const store = await sqliteTaskStore({ file: world.file });
  t.after(() => store.close());
  const records = await store.find({ limit: 1000 });
  const states = Object.groupBy(records, ({ state }) => state);
  t.diagnostic(
    `${world.kills} kills; ${TASKS} tasks: ${Object.entries(states)
      .map(([state, of]) => `${of?.length} ${state}`)
      .join(', ')}; ` + `${world.starts.size} attempts begun`,
  );
  assert.equal(records.length, TASKS, 'none lost, none twice');
  assert.equal(states.done?.length, TASKS);
  assert.equal(new Set(records.map(({ number }) => number)).size, TASKS);
  assert.ok(
    [...world.starts.values()].every((count) => count === 1),
    'an attempt is begun at most once',
  );
  for (const { task_id, spec, attempts, late_results } of records) {
    const begun = attempts.filter(({ attempt }) => world.starts.has(`${task_id}#${attempt}`));
    if (!spec.retry_safe) assert.equal(begun.length, 1, `${task_id} was begun once`);
    assert.ok(late_results.length < Math.max(1, begun.length), 'a result is late only where there were two attempts');
  }
});
