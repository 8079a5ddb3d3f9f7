/** Long chains, wide maps and large lists of runs hold the event loop for some milliseconds at a time. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { RunIndex } from '../../../src/capabilities/chains/run-index.ts';
import { newestFirst } from '../../../src/capabilities/chains/run-order.ts';
import type { StoredRun } from '../../../src/capabilities/chains/stored.ts';
import type { ChainNode } from '../../../src/capability.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { inTurns } from '../../support/longest-turn.ts';
import { agentOf, chainHost } from './support.ts';

const COUNT = 10_000;

test('a chain of ten thousand nodes is checked, run, shown and continued in turns', async (t) => {
  const stateFile = join(temporaryFolder(t), 'state.db');
  const first = await chainHost(t, { stateFile });
  const { chains } = await agentOf(t, first.host);
  const line = Array.from(
    { length: COUNT - 1 },
    (_, at): ChainNode => ({
      node_id: `n${at}`,
      kind: 'gather',
      input_map: { note: '$.note' },
      condition: 'input.note == "x"',
      ...(at > 0 && { after: [`n${at - 1}`] }),
    }),
  );
  const held: ChainNode = { node_id: 'held', kind: 'wait', wait: { event: 'go' }, after: [`n${COUNT - 2}`] };
  const nodes = [...line, held];
  const { ok } = await inTurns(t, 'check', () => chains.check({ nodes }));
  assert.equal(ok, true);
  const waiting = async (running: ReturnType<typeof chains.run>): Promise<void> => {
    running.catch(() => {});
    const waits = Promise.withResolvers<void>();
    const read = async (): Promise<void> => {
      for await (const { fields } of running) if ((fields as { phase?: string }).phase === 'wait') waits.resolve();
    };
    read().then(() => waits.reject(new Error('the run ended before its last node waited')), waits.reject);
    await waits.promise;
  };
  await inTurns(t, 'run', () => waiting(chains.run({ nodes }, { note: 'x' }, { chainId: 'long' })));
  const status = await inTurns(t, 'status', () => chains.status('long', { definition: true, outputs: true }));
  assert.equal(status.nodes.length, COUNT);
  await inTurns(t, 'history', () => chains.history('long', { limit: 1_000 }));
  await first.host.close(0);

  const second = await chainHost(t, { stateFile });
  const again = (await agentOf(t, second.host, 'bea')).chains;
  await inTurns(t, 'runs', () => again.runs());
  await inTurns(t, 'deliver', () => again.deliver('long', 'go'));
  const { state, nodes_run } = await inTurns(t, 'resume', () => again.resume('long'));
  assert.deepEqual([state, nodes_run], ['done', COUNT]);
  const retried = await inTurns(t, 'retry', async () => {
    const running = again.retry('long', `n${COUNT - 10}`);
    await waiting(running);
    await again.deliver('long', 'go');
    return running;
  });
  assert.equal(retried.state, 'done');
});

test('problems of a chain of ten thousand nodes are found in turns', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const line = (at: number): ChainNode => ({ node_id: `n${at}`, kind: 'gather', next_node: `n${(at + 1) % COUNT}` });
  const circle = Array.from({ length: COUNT }, (_, at) => line(at));
  const cycle = await inTurns(t, 'cycle', () => chains.check({ nodes: circle, entry_node: 'n0' }));
  assert.equal(cycle.problems[0]?.code, 'chain_cycle');
  const lost = Array.from({ length: COUNT }, (_, at): ChainNode => ({ ...line(at), next_node: `m${at}` }));
  const unknown = await inTurns(t, 'unknown nodes', () => chains.check({ nodes: lost }));
  assert.equal(unknown.problems.length, 100);
});

test('an expression that is refused and a wide map leave the loop to others', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const [x, y] = [0, 0].map(() => Array.from({ length: 100_000 }, () => 1));
  const z = Array.from({ length: 20_000 }, (_, at) => at);
  const conditions = ['input.z.all(a, input.x == input.y)', 'input.z.exists(a, input.none == a)'];
  for (const condition of conditions) {
    const node: ChainNode = { node_id: 'a', kind: 'wait', wait: { ms: 1 }, condition };
    const { error } = await inTurns(t, condition, () => chains.run({ nodes: [node] }, { x, y, z }));
    assert.match(error?.message ?? '', /more than 500000 steps/);
  }
  const nodes: ChainNode[] = [
    { node_id: 'each', kind: 'map', items_path: '$.z', map_node: 'one', parallel: 50 },
    { node_id: 'one', kind: 'tool', name: 'echo', input_map: { at: '$.index' } },
  ];
  const wide = await inTurns(t, 'map', () => chains.run({ nodes, entry_node: 'each' }, { z }, { durable: false }));
  assert.equal(wide.success, true);
});

test('a page of runs, and the oldest one, are found without looking at the others', () => {
  const index = new RunIndex();
  const run = (at: number, id = `r${at}`) => ({ chain_id: id, started_at: at % 500 }) as StoredRun;
  const known = new Map<string, StoredRun>();
  for (let at = 0; at < 2_000; at += 1) {
    const added = run((at * 7_919) % 2_000);
    index.set(added);
    known.set(added.chain_id, added);
    if (at % 3 === 0) {
      index.delete(`r${at}`);
      known.delete(`r${at}`);
    }
    if (at % 5 === 0 && known.has(`r${at}`)) {
      const changed = { ...run(at), started_at: 1_000 + at };
      index.set(changed);
      known.set(changed.chain_id, changed);
    }
  }
  const sorted = [...known.values()].toSorted(newestFirst);
  assert.equal(index.size, known.size);
  assert.deepEqual([...index.from()], sorted);
  assert.deepEqual([...index.oldest()], sorted.toReversed());
  for (const at of [0, 1, 700, sorted.length - 1]) {
    assert.deepEqual([...index.from(sorted[at])], sorted.slice(at + 1));
  }
  // Behind a deleted run, and while runs are deleted and added.
  const gone = sorted[10] as StoredRun;
  index.delete(gone.chain_id);
  assert.deepEqual(index.from(gone).next().value, sorted[11]);
  const pages = index.from();
  pages.next();
  index.delete((sorted[1] as StoredRun).chain_id);
  index.set({ ...run(0, 'newest'), started_at: 9_999 });
  assert.deepEqual(pages.next().value, sorted[2]);
});

test('the code of the plugin is loaded in several turns', async () => {
  const script = fileURLToPath(new URL('../../support/loads-in-turns.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ['-C', 'handfast-source', script, 'chains']);
  const modules = JSON.parse(stdout) as number[];
  const all = modules.reduce((sum, each) => sum + each, 0);
  assert.ok(all > 50 && Math.max(...modules) < all / 2, `modules that each turn loaded: ${modules}`);
});
