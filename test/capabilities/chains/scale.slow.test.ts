/**
 * Large chains on disk: the data written for a node does not grow with the number of nodes, and a run continues without reading
 * more than it wrote. Counts statements of the database, measures no time.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { test } from 'node:test';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import type { ChainNode } from '../../../src/capability.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { agentOf, chainHost } from './support.ts';

/** Statements of the databases of this process so far. */
const counted = { commits: 0, rows: 0, bytes: 0, reads: 0, readChars: 0 };
const texts = new WeakMap<StatementSync, string>();
const { prepare } = DatabaseSync.prototype;
DatabaseSync.prototype.prepare = function prepareNoted(this: DatabaseSync, sql: string, ...more) {
  const statement = prepare.call(this, sql, ...more);
  texts.set(statement, sql);
  return statement;
};
const { run, all, get } = StatementSync.prototype;
StatementSync.prototype.run = function runCounted(this: StatementSync, ...values: Parameters<typeof run>) {
  const sql = texts.get(this) ?? '';
  if (sql === 'COMMIT') counted.commits += 1;
  if (sql.startsWith('INSERT OR REPLACE INTO entry')) {
    counted.rows += 1;
    counted.bytes += String(values.at(-1)).length;
  }
  return run.apply(this, values);
} as typeof run;
StatementSync.prototype.all = function allCounted(this: StatementSync, ...values: Parameters<typeof all>) {
  counted.reads += 1;
  const rows = all.apply(this, values);
  for (const { value } of rows) counted.readChars += String(value ?? '').length;
  return rows;
} as typeof all;
StatementSync.prototype.get = function getCounted(this: StatementSync, ...values: Parameters<typeof get>) {
  const row = get.apply(this, values);
  counted.readChars += String(row?.value ?? '').length;
  return row;
} as typeof get;

/** Nodes that each call `note`, in rows of `width` whose nodes wait for two of the row before. */
const mesh = (count: number, width: number): ChainNode[] =>
  Array.from({ length: count }, (_, at) => ({
    node_id: `n${at}`,
    kind: 'tool',
    name: 'note',
    input: {},
    after: [at - width, at - width + 1]
      .filter((index, place) => index >= 0 && place < width)
      .map((index) => `n${index}`),
  }));

/** Returns a tool that records the counts at each of its calls. */
function noting() {
  const marks: (typeof counted)[] = [];
  const note = tool({
    name: 'note',
    description: 'Notes what was written so far',
    input: { type: 'object' },
    run: () => {
      marks.push({ ...counted });
      return marks.length;
    },
  });
  /** Returns the counts between two calls. */
  const between = (first: number, last: number) => {
    const [from, to] = [marks[first] as typeof counted, marks[last] as typeof counted];
    return { commits: to.commits - from.commits, rows: to.rows - from.rows, bytes: to.bytes - from.bytes };
  };
  return { note, marks, between };
}

test('one after another, each node is one transaction and one row, the last as the first', async (t) => {
  const { note, marks, between } = noting();
  const stateFile = join(temporaryFolder(t), 'state.db');
  const { host } = await chainHost(t, { tools: [note], stateFile });
  const { chains } = await agentOf(t, host);
  assert.equal((await chains.run({ nodes: mesh(500, 1) })).nodes_run, 500);
  assert.equal(marks.length, 500);
  const [first, last] = [between(0, 100), between(399, 499)];
  // A write of the host itself may come in between.
  for (const tenth of [first, last]) {
    assert.ok(tenth.commits >= 100 && tenth.commits <= 110, `${tenth.commits} transactions of 100 nodes`);
    assert.ok(tenth.rows >= 100 && tenth.rows <= 110, `${tenth.rows} rows of 100 nodes`);
  }
  assert.ok(last.bytes <= first.bytes * 1.25, `${last.bytes} bytes of the last 100 nodes, ${first.bytes} of the first`);
});

test('10,000 nodes, 500 deep: what starts together is written together, and the run continues without running one again', async (t) => {
  const count = 10_000;
  const width = 20;
  const stateFile = join(temporaryFolder(t), 'state.db');
  const nodes = mesh(count - 1, width);
  const last = nodes.slice(-width).map(({ node_id }) => node_id);
  nodes.push({ node_id: 'held', kind: 'wait', after: last, wait: { event: 'go' } });

  const { note, marks, between } = noting();
  const first = await chainHost(t, { tools: [note], stateFile });
  const ana = await agentOf(t, first.host);
  const before = { ...counted };
  const running = ana.chains.run({ nodes, max_parallel: 64 }, {}, { chainId: 'large' });
  running.catch(() => {});
  await untilWaiting(running);
  assert.equal(marks.length, count - 1);
  const [early, late] = [between(0, count / 10), between(count - 2 - count / 10, count - 2)];
  for (const tenth of [early, late]) {
    assert.ok(tenth.rows <= count / 10 / 2, `${tenth.rows} rows of ${count / 10} nodes that start by the twenty`);
    assert.ok(tenth.commits <= count / 10 / 2, `${tenth.commits} transactions of ${count / 10} nodes`);
  }
  assert.ok(late.bytes <= early.bytes * 1.25, `${late.bytes} bytes of the last tenth, ${early.bytes} of the first`);
  const rows = counted.rows - before.rows;
  await first.host.close(0);

  const again = noting();
  const second = await chainHost(t, { tools: [again.note], stateFile });
  const bea = await agentOf(t, second.host, 'bea');
  const { reads } = counted;
  const resumed = bea.chains.resume('large');
  await untilWaiting(resumed);
  // Pages of 4 rows, all of which it reads several times.
  const pages = Math.ceil(rows / 4);
  assert.ok(counted.reads - reads <= pages * 5 + 50, `${counted.reads - reads} reads of ${pages} pages`);
  assert.equal(await bea.chains.deliver('large', 'go'), 1);
  const { state, nodes_run } = await resumed;
  assert.deepEqual([state, nodes_run, again.marks.length], ['done', count, 0]);
});

/** Resolves when a node of the run waits; continues to read its events, because a reader that leaves cancels it. */
async function untilWaiting(run: AsyncIterable<{ readonly fields?: unknown }>): Promise<void> {
  const waiting = Promise.withResolvers<void>();
  const read = async (): Promise<void> => {
    for await (const { fields } of run) {
      if ((fields as { phase?: string } | undefined)?.phase === 'wait') waiting.resolve();
    }
  };
  read().then(() => waiting.reject(new Error('the run ended before a node waited')), waiting.reject);
  await waiting.promise;
}

test('storing, reading and running a chain reads that one, however many are stored', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const long = 'x'.repeat(10_000);
  const nodes = (at: number): ChainNode[] => [{ node_id: 'a', kind: 'tool', name: 'echo', input: { at, long } }];
  const readBy = async (work: () => Promise<unknown>): Promise<number> => {
    const before = counted.readChars;
    await work();
    return counted.readChars - before;
  };
  for (let at = 0; at < 40; at += 1) await chains.put(`c${at % 2}`, { nodes: nodes(at) });
  const works = [
    () => chains.put('c0', { nodes: nodes(40) }),
    () => chains.put('c0', { nodes: nodes(40) }),
    () => chains.get('c1'),
    () => chains.list(),
    () => chains.run({ chain: { name: 'c1' } }, {}, { durable: false }),
  ];
  for (const work of works) assert.ok((await readBy(work)) < 3 * long.length, work.toString());
  assert.equal(await chains.remove('c1'), 20);
  const [only] = await chains.list();
  assert.deepEqual([only?.name, only?.version, only?.versions], ['c0', 21, 21]);
});
