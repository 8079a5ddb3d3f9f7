/**
 * `npm run bench:planning`: tasks created, updated and claimed a second on a board of 10,000, by one agent and by 16 at
 * once: over TCP with the host in a separate process, and in this process. Beside them the least that SQLite can do:
 * one synced transaction of a row and its log entry, without dependencies, rules, rights or events; and `plainjob`, a
 * job queue on SQLite.
 *
 *   npm run bench:planning -- [--rounds N] [--tasks N] [--operations N] [--plainjob FOLDER]
 *
 * `--plainjob`: a folder where it is installed. All sync the disk before they reply (`synchronous=FULL`), and
 * `plainjob` runs over `node:sqlite` too. Rounds are interleaved, and the tasks that a round claimed are deleted after
 * it, so that the board keeps its size.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { planningPlugin } from '../src/capabilities/planning/plugin.ts';
import { connect } from '../src/connect.ts';
import { createHost } from '../src/host.ts';
import { memoryJournal } from '../src/journal.ts';
import { thisMachine } from './report.ts';
import { median } from './workloads/workload.ts';

const CALLERS = [1, 16];
const MAX_CALLERS = 16;
const LEASE_MS = 3_600_000;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    tasks: { type: 'string', default: '10000' },
    operations: { type: 'string', default: '400' },
    plainjob: { type: 'string' },
  },
});
const [rounds, tasks, operations] = [Number(values.rounds), Number(values.tasks), Number(values.operations)];

/** A board, with the operations of one caller of several. Each resolves when it is on disk. */
interface Board {
  create(caller: number, title: string): Promise<void> | void;
  /** Changes the n-th task of those that are there from the start. */
  readonly update?: (caller: number, n: number) => Promise<void> | void;
  claim(caller: number): Promise<void> | void;
  /** Deletes the claimed tasks. */
  clear(): Promise<void> | void;
  close(): Promise<void> | void;
}

const agentAt = (target: Parameters<typeof connect>[0], agentId: string) =>
  connect(target, { capabilities: ['planning'], agentId });
type Agent = Awaited<ReturnType<typeof agentAt>>;

/** Returns a plan of a host, whose callers are agents with one connection each. */
async function handfast(open: (agentId: string) => Promise<Agent>, close: () => Promise<void>): Promise<Board> {
  const agents = await Promise.all(Array.from({ length: MAX_CALLERS }, (_, at) => open(`agent-${at}`)));
  const planningOf = (caller: number) => (agents[caller] as Agent).planning;
  const { plan_id } = await planningOf(0).createPlan('bench');
  const ids: string[] = [];
  let claimed: string[] = [];
  return {
    async create(caller, title) {
      const { task_id } = await planningOf(caller).add(plan_id, title);
      ids.push(task_id);
    },
    async update(caller, n) {
      await planningOf(caller).update(plan_id, ids.at(-1 - (n % operations)) as string, { metadata: { count: n } });
    },
    async claim(caller) {
      const claim = await planningOf(caller).claim(plan_id, { renew: false, leaseMs: LEASE_MS });
      claimed.push(claim?.id as string);
    },
    async clear() {
      await Promise.all(claimed.map((id) => planningOf(0).delete(plan_id, id, { force: true })));
      claimed = [];
    },
    async close() {
      await Promise.all(agents.map((agent) => agent.close()));
      await close();
    },
  };
}

async function overTcp(folder: string): Promise<Board> {
  const program = join(import.meta.dirname, 'children', 'planning-host.ts');
  const args = ['-C', 'handfast-source', program, join(folder, 'tcp.db')];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [address] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return handfast(
    (agentId) => agentAt(address, agentId),
    async () => {
      child.kill();
      await once(child, 'exit');
    },
  );
}

async function inProcess(folder: string): Promise<Board> {
  const stateFile = join(folder, 'memory.db');
  const host = createHost({ plugins: [planningPlugin()], journal: memoryJournal(), stateFile });
  await host.start();
  return handfast(
    (agentId) => agentAt(host, agentId),
    () => host.close(0),
  );
}

/** Returns a board with a row and a log entry in each transaction. */
function bareSqlite(folder: string): Board {
  const db = new DatabaseSync(join(folder, 'bare.db'));
  db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL');
  db.exec('CREATE TABLE task(id INTEGER PRIMARY KEY, title, status, priority, data, fence, agent, lease_until)');
  db.exec('CREATE INDEX ready ON task(status, priority DESC, id)');
  db.exec('CREATE TABLE log(seq INTEGER PRIMARY KEY, task, action, at, agent, data)');
  const insert = db.prepare("INSERT INTO task VALUES (NULL, ?, 'todo', 0, '{}', 0, '', 0) RETURNING id");
  const change = db.prepare('UPDATE task SET data = ? WHERE id = ?');
  const take = db.prepare(
    "UPDATE task SET status = 'doing', fence = fence + 1, agent = ?, lease_until = ? WHERE id = (SELECT id FROM task WHERE status = 'todo' ORDER BY priority DESC, id LIMIT 1) RETURNING id, fence",
  );
  const log = db.prepare('INSERT INTO log VALUES (NULL, ?, ?, ?, ?, ?)');
  const together = (work: () => void): void => {
    db.exec('BEGIN IMMEDIATE');
    work();
    db.exec('COMMIT');
  };
  let last = 0;
  return {
    create: (caller, title) =>
      together(() => {
        last = insert.get(title)?.id as number;
        log.run(last, 'created', Date.now(), `agent-${caller}`, JSON.stringify({ title: [null, title] }));
      }),
    update: (caller, n) =>
      together(() => {
        const [id, data] = [last - (n % operations), JSON.stringify({ count: n })];
        change.run(data, id);
        log.run(id, 'updated', Date.now(), `agent-${caller}`, data);
      }),
    claim: (caller) =>
      together(() => {
        const { id, fence } = take.get(`agent-${caller}`, Date.now() + LEASE_MS) as { id: number; fence: number };
        log.run(id, 'claimed', Date.now(), `agent-${caller}`, JSON.stringify({ fence }));
      }),
    clear: () => db.exec("DELETE FROM task WHERE status = 'doing'"),
    close: () => db.close(),
  };
}

/** Returns a queue of `plainjob` over `node:sqlite`. It has no updates. */
async function plainjob(folder: string, installedIn: string): Promise<Board> {
  const file = pathToFileURL(join(installedIn, 'node_modules', 'plainjob', 'dist', 'plainjob.js')).href;
  interface Queue {
    add(type: string, data: unknown): void;
    getAndMarkJobAsProcessing(type: string): { readonly id: number } | undefined;
    markJobAsDone(id: number): void;
    close(): void;
  }
  const { defineQueue } = (await import(file)) as { defineQueue: (options: object) => Queue };
  const db = new DatabaseSync(join(folder, 'plainjob.db'));
  const connection = {
    driver: 'better-sqlite3',
    filename: 'plainjob.db',
    pragma: (text: string) => db.exec(`PRAGMA ${text}`),
    exec: (text: string) => db.exec(text),
    prepare: (text: string) => db.prepare(text),
    transaction: (work: (...given: SQLInputValue[]) => unknown) => {
      const run = (...given: SQLInputValue[]): unknown => {
        db.exec('BEGIN IMMEDIATE');
        const result = work(...given);
        db.exec('COMMIT');
        return result;
      };
      return Object.assign(run, { immediate: run, deferred: run, exclusive: run });
    },
    close: () => db.close(),
  };
  const logger = { error() {}, warn() {}, info() {}, debug() {} };
  const queue = defineQueue({ connection, logger });
  // Its own choice would not survive a loss of power.
  db.exec('PRAGMA synchronous=FULL');
  return {
    create: (_, title) => queue.add('task', { title }),
    claim() {
      if (queue.getAndMarkJobAsProcessing('task') === undefined) throw new Error('plainjob had no job');
    },
    clear: () => db.exec('DELETE FROM plainjob_jobs WHERE status = 1'),
    close: () => queue.close(),
  };
}

/** Runs an operation many times, by several callers at once; operations a second. */
async function rate(callers: number, operate: (caller: number, n: number) => Promise<void> | void): Promise<number> {
  let next = 0;
  const startedAt = performance.now();
  const caller = async (at: number): Promise<void> => {
    while (next < operations) {
      next += 1;
      await operate(at, next);
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, at) => caller(at)));
  return operations / ((performance.now() - startedAt) / 1000);
}

const WORK = ['creates', 'updates', 'claims'] as const;
type Rates = Record<(typeof WORK)[number], number>;

async function oneRound(board: Board, callers: number): Promise<Rates> {
  const { update } = board;
  const creates = await rate(callers, (caller, n) => board.create(caller, `Task number ${n} of this round`));
  const updates = update === undefined ? Number.NaN : await rate(callers, update);
  const claims = await rate(callers, (caller) => board.claim(caller));
  await board.clear();
  return { creates, updates, claims };
}

const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
const boards = new Map<string, Board>();
const samples = new Map<string, Rates[]>();
try {
  boards.set('`node:sqlite`, bare', bareSqlite(folder));
  if (values.plainjob !== undefined) boards.set('`plainjob`', await plainjob(folder, values.plainjob));
  boards.set('Handfast, in process', await inProcess(folder));
  boards.set('Handfast, TCP', await overTcp(folder));
  for (const board of boards.values()) {
    const fill = async (caller: number): Promise<void> => {
      for (let at = caller; at < tasks; at += MAX_CALLERS) await board.create(caller, `Task ${at} of the board`);
    };
    await Promise.all(Array.from({ length: MAX_CALLERS }, (_, caller) => fill(caller)));
  }
  // The first round warms up and does not count.
  for (let round = 0; round <= rounds; round += 1) {
    for (const callers of CALLERS) {
      for (const [name, board] of boards) {
        const rates = await oneRound(board, callers);
        if (round === 0) continue;
        const row = `${name}, ${callers}`;
        samples.set(row, [...(samples.get(row) ?? []), rates]);
      }
    }
  }
} finally {
  for (const board of boards.values()) await board.close();
  rmSync(folder, { recursive: true, force: true });
}
const { cpu, node } = thisMachine();
console.log(`${cpu}, ${availableParallelism()} cores to run on, Node ${node}; ratios are those to the bare loop\n`);
console.log(`| ${tasks} tasks; agents at once | creates/s | ratio | updates/s | ratio | claims/s | ratio |`);
console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: |');
for (const [row, rates] of samples) {
  const base = samples.get(`\`node:sqlite\`, bare, ${row.slice(row.lastIndexOf(' ') + 1)}`) as Rates[];
  const cells = WORK.flatMap((work) => {
    const middle = median(rates.map((one) => one[work]));
    if (Number.isNaN(middle)) return ['–', '–'];
    const ratio = middle / median(base.map((one) => one[work]));
    return [Math.round(middle).toLocaleString('en'), ratio.toFixed(2)];
  });
  console.log(`| ${[row, ...cells].join(' | ')} |`);
}
