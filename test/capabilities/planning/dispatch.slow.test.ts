/**
 * `handfast plan dispatch` with a real host, a real fleet and a worker, as processes: the outcomes of the fleet get into the
 * plan, and kills of any of them neither repeat a run nor lose one.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Command, type Json, User } from '../../cli/command.ts';

const PATIENCE_MS = 120_000;
/** Each check is a command, which takes a processor a third of a second. */
const LOOK_MS = 500;

/** A host, an orchestrator and a worker in a folder without git, each at a separate socket. */
class Place {
  readonly user = new User();
  readonly #file = this.user.write(
    'fleet.yaml',
    `name: trial\nlisten: 'unix://${join(this.user.cwd, 'fleet.sock')}'\nlease_ttl_s: 6\n`,
  );
  readonly work = join(this.user.cwd, 'work');

  constructor(t: TestContext) {
    t.after(() => this.user.leave());
    mkdirSync(this.work);
    this.user.write('host.yaml', `listen: 'unix://${join(this.user.cwd, 'host.sock')}'\nplugins: [planning]\n`);
    const worker = `id: w\nexecutor: rehearsal\nrepo: ${this.work}\ndata_dir: ${join(this.user.folder, 'w')}\n`;
    this.user.write('worker.yaml', `${worker}max_concurrent: 4\noverhead_tokens: 0\n`);
  }

  async #start(...words: string[]): Promise<Command> {
    const command = this.user.start([...words, '--json']);
    await command.says('"ready":true');
    return command;
  }
  host = (): Promise<Command> => this.#start('up', '--config', 'host.yaml');
  fleet = (): Promise<Command> => this.#start('fleet', 'up', this.#file);
  worker = (): Promise<Command> =>
    this.#start('worker', 'worker.yaml', '--join', `unix://${join(this.user.cwd, 'fleet.sock')}`);

  /** Adds a task; resolves with its id. */
  async add(...words: string[]): Promise<string> {
    return (await this.user.json(['plan', 'add', 'release', ...words])).task_id;
  }

  /** Resolves with the plan once it fits. */
  async until(what: string, fits: (tasks: Json[]) => boolean): Promise<Json[]> {
    const startedAt = performance.now();
    for (;;) {
      const tasks = await this.user.json<Json[]>(['plan', 'tasks', 'release', '--all']);
      if (fits(tasks)) return tasks;
      assert.ok(performance.now() - startedAt < PATIENCE_MS, `never ${what}: ${JSON.stringify(tasks)}`);
      await pause(LOOK_MS);
    }
  }

  task = (id: string): Promise<Json> => this.user.json(['plan', 'show', 'release', id]);
}

async function killed(command: Command): Promise<void> {
  command.child.kill('SIGKILL');
  await command.ended();
}

test('tasks go to the fleet as they become ready, and results, errors and cancels come back', {
  timeout: 240_000,
}, async (t) => {
  const place = new Place(t);
  const { user } = place;
  const none = await user.failure(['plan', 'dispatch', 'release', '--connect', 'unix:///nowhere.sock']);
  assert.equal(none.code, 'unreachable');
  await place.host();
  await user.json(['plan', 'create', 'release']);
  const alone = await user.failure(['plan', 'dispatch', 'release']);
  assert.match(alone.message, /no fleet of this user is running/);
  await place.fleet();
  await place.worker();
  const first = await place.add('say "hello"', '--description', 'say "and more"');
  const second = await place.add('say "second"', '--after', first);
  const failing = await place.add('fail "no luck"');
  const mine = await place.add('say "by hand"', '--assignee', 'ana');
  const { code, stdout } = await user.run(['plan', 'dispatch', 'release', '--json']);
  assert.equal(code, 5, 'one is not done');
  const outcomes: Json[] = JSON.parse(stdout);
  const stateOf = (id: string) => outcomes.find(({ task_id }) => task_id === id)?.state;
  assert.deepEqual([first, second, failing, mine].map(stateOf), ['done', 'done', 'error', undefined]);
  const done = await place.task(first);
  assert.deepEqual([done.status, done.metadata.fleet.state, done.metadata.fleet.worker], ['done', 'done', 'w']);
  const history = await user.run(['plan', 'history', 'release', first]);
  assert.match(history.stdout, /hello/);
  assert.match(history.stdout, /and more/);
  // A failed task is open again, for any agent; the dispatcher leaves it alone until `--retry`.
  const failed = await place.task(failing);
  assert.deepEqual([failed.status, failed.assignee, failed.claim], ['backlog', '', null]);
  assert.equal(failed.metadata.fleet.state, 'error');
  await user.run(['plan', 'dispatch', 'release']);
  assert.equal((await user.json<Json[]>(['task', 'ls'])).length, 3);
  await user.run(['plan', 'dispatch', 'release', failing, '--retry']);
  assert.equal((await user.json<Json[]>(['task', 'ls'])).length, 4);

  // A cancel in the fleet gets into the plan; a task that is ended in the plan is cancelled in the fleet.
  const waiting = await place.add('wait 60000 ms');
  const ended = await place.add('wait 60001 ms');
  const dispatching = user.start(['plan', 'dispatch', 'release', '--json']);
  const running = (tasks: Json[]) =>
    [waiting, ended].every((id) => tasks.find(({ task_id }) => task_id === id).claim !== null);
  await place.until('running', running);
  const runOf = async (id: string): Promise<Json> => {
    for (;;) {
      const { fleet } = (await place.task(id)).metadata;
      if (fleet?.state === 'running') return fleet;
      await pause(LOOK_MS);
    }
  };
  await user.json(['task', 'cancel', (await runOf(waiting)).task_id]);
  const { task_id: cancelledRun } = await runOf(ended);
  await user.json(['plan', 'move', 'release', ended, 'done', '--force']);
  const after = JSON.parse((await dispatching.ended()).stdout) as Json[];
  assert.equal(after.find(({ task_id }) => task_id === waiting).state, 'canceled');
  assert.equal(after.find(({ task_id }) => task_id === ended).state, 'taken_back');
  for (;;) {
    const { state } = await user.json(['task', 'show', cancelledRun]);
    if (state === 'canceled') break;
    await pause(LOOK_MS);
  }
});

test('a run that is sent again with task retry comes back into its plan', { timeout: 240_000 }, async (t) => {
  const place = new Place(t);
  const { user } = place;
  await place.host();
  await place.fleet();
  await place.worker();
  const { plan_id } = await user.json(['plan', 'create', 'release']);
  const id = await place.add('read "later.txt"');
  const dispatched = await user.run(['plan', 'dispatch', 'release']);
  assert.equal(dispatched.code, 5);
  const run: string = (await place.task(id)).metadata.fleet.task_id;
  const way = `handfast plan dispatch ${plan_id} ${id}`;
  assert.ok(dispatched.stderr.includes(`after "handfast task retry ${run}": "${way}"`), dispatched.stderr);
  writeFileSync(join(place.work, 'later.txt'), 'it is here\n');
  const retried = await user.run(['task', 'retry', run]);
  assert.ok(retried.stderr.includes(way), retried.stderr);
  const again = await user.run(['plan', 'dispatch', plan_id, id]);
  assert.equal(again.code, 0, `${again.stdout}${again.stderr}`);
  const task = await place.task(id);
  assert.deepEqual([task.status, task.metadata.fleet.task_id], ['done', run]);
  assert.match((await user.run(['plan', 'history', 'release', id])).stdout, /later\.txt/);
  assert.equal((await user.json<Json[]>(['task', 'ls'])).length, 1);
});

test('kill -9 of the command, the host and the orchestrator repeats no run and loses none', {
  timeout: 400_000,
}, async (t) => {
  const place = new Place(t);
  const { user } = place;
  const processes = { host: await place.host(), fleet: await place.fleet() };
  await place.worker();
  await user.json(['plan', 'create', 'release']);
  const TASKS = 16;
  let before = '';
  for (let at = 0; at < TASKS; at += 1) {
    const brief = `append "task-${at}\\n" to runs.log; wait 700 ms`;
    before = await place.add(brief, ...(at % 4 === 3 ? ['--after', before] : []));
  }
  const start = () => user.start(['plan', 'dispatch', 'release', '--parallel', '4', '--lease', '2', '--json']);
  let command = start();
  const done = (tasks: Json[]) => tasks.filter(({ status }) => status === 'done').length;
  const log = () => {
    try {
      return readFileSync(join(place.work, 'runs.log'), 'utf8').trim().split('\n');
    } catch {
      return [];
    }
  };
  const started = async (count: number): Promise<void> => {
    const startedAt = performance.now();
    while (log().length < count) {
      assert.ok(
        performance.now() - startedAt < PATIENCE_MS,
        `only ${log().length} of ${count} were started\n${command.stderr}`,
      );
      await pause(20);
    }
  };
  await started(2);
  await killed(command);
  command = start();
  await started(5);
  await killed(processes.fleet);
  processes.fleet = await place.fleet();
  await started(8);
  await killed(processes.host);
  processes.host = await place.host();
  await started(11);
  await Promise.all([killed(processes.host), killed(processes.fleet)]);
  [processes.host, processes.fleet] = await Promise.all([place.host(), place.fleet()]);
  await started(13);
  // Two concurrent dispatchers share the work.
  const other = start();
  await killed(command);
  const { code, stdout, stderr } = await other.ended();
  assert.equal(code, 0, `${stdout}${stderr}`);
  const tasks = await place.until('done', (all) => done(all) === TASKS);
  assert.equal(tasks.length, TASKS);
  assert.deepEqual(log().sort(), Array.from({ length: TASKS }, (_, at) => `task-${at}`).sort());
  assert.equal((await user.json<Json[]>(['task', 'ls'])).length, TASKS);
});
