/**
 * The storage of the environment's journal is divided into shares: a principal past its share loses its own oldest
 * entries, those of sessions that have ended first, and no other principal loses any; on disk also after a restart.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sharesServer } from './shares-server.ts';

const KIB = 1024;
const SHARE = 512 * KIB;
const BODY = 16 * KIB;

for (const kind of ['sqlite', 'memory'] as const) {
  test(`a principal past its share of the ${kind} journal loses its own oldest entries, and works on`, async (t) => {
    const grants = 'capabilities: [tools], tools: { allow: [read_file] }';
    const server = await sharesServer(
      t,
      { greedy: grants, other: grants },
      `journal: { kind: ${kind}, max_bytes_per_principal: ${SHARE} }\n`,
    );
    writeFileSync(join(server.folder, 'long.txt'), 'x'.repeat(BODY));
    const read = async (name: string, times: number): Promise<void> => {
      await using agent = await server.agent(name);
      for (let at = 0; at < times; at += 1) await agent.tools.call('read_file', { path: 'long.txt' });
    };
    await using watcher = await server.agent('other');
    await watcher.tools.call('read_file', { path: 'long.txt' });
    const { other = 0 } = (await server.until('journal_bytes', ({ principals }) => (principals.other ?? 0) > BODY))
      .principals;

    // Many sessions that end, then one that lives and writes more than the share alone.
    for (let session = 0; session < 10; session += 1) await read('greedy', 8);
    await using greedy = await server.agent('greedy');
    for (let at = 0; at < 80; at += 1) await greedy.tools.call('read_file', { path: 'long.txt' });
    const full = await server.until('journal_bytes', ({ principals }) => {
      const { greedy: used = 0 } = principals;
      return used <= SHARE && used > SHARE / 4;
    });
    assert.equal(full.principals.other, other, 'another principal lost nothing');
    assert.ok(Number((full as { evicted?: number }).evicted) > 0);
    assert.ok(((await server.share('journal_entries')).principals.greedy ?? 0) > 0);
    await greedy.close();
    await watcher.close();

    await server.restart();
    const again = (await server.share('journal_bytes')).principals;
    if (kind === 'memory') assert.deepEqual(again, {});
    else {
      assert.equal(again.other, other, 'counted at the start');
      assert.ok((again.greedy ?? 0) > SHARE / 4);
    }
    for (let session = 0; session < 10; session += 1) await read('greedy', 8);
    const { principals } = await server.until('journal_bytes', (usage) => (usage.principals.greedy ?? 0) <= SHARE);
    assert.equal(principals.other, again.other);
    await read('other', 1);
  });
}
