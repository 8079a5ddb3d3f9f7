/**
 * `kill -9` of a worker, of the orchestrator and of nats-server in the middle of 1,000 tasks, all real processes: none
 * is lost, none is accepted twice, and no task runs more often than requested. Prints the table of the results.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { FleetClient } from '../../src/bridge/fleet-client.ts';
import { connect as connectControl } from '../../src/control-client/connect.ts';
import type { TaskRecord } from '../../src/fleet/orchestrator/task.ts';
import { type Command, type Json, User } from '../cli/command.ts';
import { NatsServer, natsTest } from '../fleet/nats/server.ts';

const TASKS = 1_000;
const WORKERS = ['w1', 'w2', 'w3'];
const PATIENCE_MS = 240_000;

/** Starts a command and waits for the line that reports that it is ready. */
async function ready(command: Command): Promise<Json> {
  await command.says('"ready":true');
  return JSON.parse(command.stdout.slice(0, command.stdout.indexOf('\n')));
}

async function killed(command: Command): Promise<void> {
  command.child.kill('SIGKILL');
  await command.ended();
}

natsTest(
  'kill -9 of a worker, of the orchestrator and of the bus in the middle of 1,000 tasks loses nothing',
  async (t, installed) => {
    const user = new User();
    t.after(() => user.leave());
    const nats = await NatsServer.start(t, installed);
    const fleetFile = user.write(
      'fleet.yaml',
      `name: kill\nbus: ${nats.url}\nlisten: http://127.0.0.1:0\nlease_ttl_s: 6\n`,
    );
    const events: string[] = [];
    const began = performance.now();
    const happened = (what: string): void => {
      events.push(`${((performance.now() - began) / 1000).toFixed(1).padStart(6)} s  ${what}`);
    };

    const startOrchestrator = () => user.start(['fleet', 'up', fleetFile, '--json']);
    const startWorker = (id: string) => {
      const repo = join(user.cwd, id);
      mkdirSync(repo, { recursive: true });
      const file = user.write(
        `${id}.yaml`,
        `id: ${id}\nexecutor: rehearsal\nrepo: ${repo}\ndata_dir: ${join(user.folder, `data-${id}`)}\nmax_concurrent: 8\noverhead_tokens: 0\n`,
      );
      return user.start(['worker', file, '--join', nats.url, '--json']);
    };
    let orchestrator = startOrchestrator();
    const first = await ready(orchestrator);
    const workers = new Map(WORKERS.map((id) => [id, startWorker(id)]));
    await Promise.all([...workers.values()].map(ready));
    const token = readFileSync(first.token_file, 'utf8').trim();
    const dial = async (url: string) => connectControl(url, { token });
    let control = await dial(first.url);
    let fleet = new FleetClient(control);
    // If the orchestrator ends by itself, its stderr has the reason.
    t.after(() => t.diagnostic(orchestrator.stderr.slice(-2_000)));

    const specs = Array.from({ length: TASKS }, (_, n) => ({
      task_id: `task-${n}`,
      brief: `append "task-${n}\\n" to runs.log; wait 20 ms`,
      // Half of them may be done twice; the others must not.
      retry_safe: n % 2 === 0,
    }));
    for (let at = 0; at < TASKS; at += 250) await fleet.submitBatch(specs.slice(at, at + 250));
    happened(`${TASKS} tasks submitted`);

    const ended = async (): Promise<number> => {
      const { counts } = await fleet.status();
      return TASKS - (counts.open ?? 0);
    };
    const until = async (count: number): Promise<void> => {
      while ((await ended()) < count) {
        assert.ok(
          performance.now() - began < PATIENCE_MS,
          `only ${await ended()} of ${count} ended:\n${events.join('\n')}`,
        );
        await pause(50);
      }
    };

    await until(150);
    await killed(workers.get('w1')!);
    happened(`worker w1 killed with ${await ended()} tasks ended`);
    await until(300);
    workers.set('w1', startWorker('w1'));
    await ready(workers.get('w1')!);
    happened('worker w1 started again');

    await until(400);
    happened(`orchestrator killed with ${await ended()} tasks ended`);
    await killed(orchestrator);
    await control.close();
    await pause(300);
    orchestrator = startOrchestrator();
    control = await dial((await ready(orchestrator)).url);
    fleet = new FleetClient(control);
    happened('orchestrator started again');

    await until(600);
    happened(`nats-server killed with ${await ended()} tasks ended`);
    await nats.kill();
    await pause(500);
    await nats.up();
    happened('nats-server started again');

    // Tasks that may not be retried automatically wait for an operator.
    let tasks: TaskRecord[] = [];
    for (;;) {
      tasks = [];
      for (let before: number | undefined; ; before = tasks.at(-1)?.number) {
        const page = await fleet.list({ limit: 500, ...(before !== undefined && { before }) });
        tasks.push(...page);
        if (page.length < 500) break;
      }
      const open = tasks.filter(({ ended_at, parked }) => ended_at === null && !parked);
      if (open.length === 0) break;
      if (performance.now() - began > PATIENCE_MS) {
        assert.fail(`${open.length} tasks never ended, such as ${JSON.stringify(open[0])}\n${events.join('\n')}`);
      }
      await pause(200);
    }
    happened('all ended');
    await control.close();

    const runs = new Map<string, number>();
    for (const id of WORKERS) {
      for (const line of readFileSync(join(user.cwd, id, 'runs.log'), 'utf8')
        .trim()
        .split('\n')) {
        runs.set(line, (runs.get(line) ?? 0) + 1);
      }
    }
    const counted: Record<string, number> = {};
    const count = (what: string): void => {
      counted[what] = (counted[what] ?? 0) + 1;
    };
    assert.equal(new Set(tasks.map(({ task_id }) => task_id)).size, TASKS, 'a task is lost');
    for (const task of tasks) {
      const ran = runs.get(task.task_id) ?? 0;
      count(task.parked ? `${task.state}, waits for a person` : task.state);
      if (ran > 1) count('ran again, as it may');
      if (task.late_results.length > 0) count('came late as well, kept and not applied');
      assert.ok(ran <= task.attempt, `${task.task_id} ran ${ran} times in ${task.attempt} attempts`);
      if (!task.spec.retry_safe) assert.ok(ran <= 1, `${task.task_id} ran ${ran} times and must not`);
      const accepted = task.attempts.filter(({ outcome }) => outcome === 'done');
      assert.ok(accepted.length <= 1, `${task.task_id} was accepted ${accepted.length} times`);
      if (task.state === 'done') assert.equal(ran >= 1, true, `${task.task_id} is done and never ran`);
      if (task.spec.retry_safe) assert.equal(task.state, 'done', `${task.task_id}: ${JSON.stringify(task)}`);
    }
    t.diagnostic(events.join('\n'));
    t.diagnostic(
      Object.entries(counted)
        .map(([what, number]) => `${String(number).padStart(6)}  ${what}`)
        .join('\n'),
    );
    assert.equal((counted.done ?? 0) > TASKS / 2, true);
  },
  { timeout: 300_000, only: 'newest' },
);
