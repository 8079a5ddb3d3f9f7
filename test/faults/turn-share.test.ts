/**
 * Concurrent turns have shares: one principal never holds all of them, its further turns wait, and another one's run
 * meanwhile.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharesServer } from './shares-server.ts';

test('a principal that fills its share of turns waits for its own, and another one runs its turns meanwhile', async (t) => {
  const client = 'roles: [client]';
  const server = await sharesServer(
    t,
    { greedy: client, other: client },
    'control: { backend: rehearsal, max_turns: 3, max_turns_per_principal: 2 }\n',
  );
  for (const round of ['first', 'after a restart']) {
    const greedy = await server.client('greedy');
    const other = await server.client('other');
    const long = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const session = await greedy.create();
        return { session, turn: await session.prompt('wait 600000 ms') };
      }),
    );
    const usage = await server.until('turns', ({ used }) => used === 2);
    assert.deepEqual(usage.principals, { greedy: 2 }, round);
    const session = await other.create();
    for (let at = 0; at < 3; at += 1) {
      assert.equal((await (await session.prompt('say "served"')).result()).stopReason, 'end_turn');
    }
    assert.deepEqual((await server.share('turns')).principals, { greedy: 2 });
    // An interrupt frees a place for a waiting turn, in order.
    for (const { session: mine, turn } of long) {
      await mine.interrupt();
      assert.equal((await turn.result()).stopReason, 'interrupted');
    }
    await server.until('turns', ({ used }) => used === 0);
    const last = await greedy.create();
    assert.equal((await (await last.prompt('say "again"')).result()).stopReason, 'end_turn');
    await Promise.all([greedy.close(), other.close()]);
    await server.restart();
  }
});
