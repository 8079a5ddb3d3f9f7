import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { createHost } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import type { Peer } from '../support/peer.ts';
import { doorOf } from '../support/sites.ts';

const IDLE_MS = 100;
const AT_ONCE = 125;
const ROUNDS = 4;
/** Bound on rounds if the machine is so slow that one side always wins. */
const MAX_ROUNDS = 40;

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

test('F-43: a message that races the end of its idle session is served or told session_expired, never half', async () => {
  const ran = new Set<string>();
  const mark = tool({
    name: 'mark',
    description: 'Notes that it ran',
    input: { type: 'object', properties: { key: { type: 'string' } } },
    run: ({ key }: { key: string }) => {
      ran.add(key);
      return { key };
    },
  });
  const host = createHost({ plugins: [toolsPlugin({ tools: [mark] })], limits: { idleTimeoutMs: IDLE_MS } });
  await host.start();
  const door = await doorOf('tcp', host);
  closing.push(
    () => host.close(0),
    () => door.close(),
  );
  let served = 0;
  let expired = 0;
  const race = async (peer: Peer, key: string, waitMs: number): Promise<void> => {
    await delay(waitMs);
    peer.send({ type: 'tool/call/req', id: key, tool_name: 'mark', arguments: { key } });
    const first = await peer.next().catch(() => undefined);
    if (first?.req_id === key) {
      assert.equal(first.type, 'tool/call/resp');
      assert.ok(ran.has(key));
      served++;
      peer.cut();
      return;
    }
    // The client got the reason, or was cut off in the middle of it; in either case the call was not started.
    if (first !== undefined)
      assert.deepEqual([first.type, first.req_id, first.detail.reason], ['error', '', 'session_expired']);
    await peer.closed();
    assert.deepEqual(peer.rest, []);
    assert.ok(!ran.has(key), 'it ran and its reply was lost');
    expired++;
  };
  let round = 0;
  for (; round < ROUNDS || (round < MAX_ROUNDS && (served === 0 || expired === 0)); round++) {
    const peers = await Promise.all(Array.from({ length: AT_ONCE }, () => door.dial()));
    const runs = peers.map(async (peer, at) => {
      await peer.shake();
      // A sweep runs every quarter of the idle time, so sessions end between one and one and a half of it.
      await race(peer, `${round}-${at}`, IDLE_MS * (0.3 + (at / AT_ONCE) * 1.4));
    });
    await Promise.all(runs);
  }
  assert.equal(served + expired, round * AT_ONCE);
  assert.ok(served > 0 && expired > 0, `${served} served, ${expired} expired: no race at all`);
});

test('F-43: a session with work under way or a link that comes back in time does not expire', async () => {
  // Long enough that none runs out between a reply and the next request.
  const idleMs = 1_000;
  const slow = tool({
    name: 'slow',
    description: 'Takes longer than idle',
    run: () => delay(idleMs * 2, { done: true }),
  });
  const host = createHost({
    plugins: [toolsPlugin({ tools: [slow] })],
    journal: memoryJournal(),
    limits: { idleTimeoutMs: idleMs, resumeWindowMs: 60_000 },
  });
  await host.start();
  const door = await doorOf('tcp', host);
  closing.push(
    () => host.close(0),
    () => door.close(),
  );
  const peer = await door.dial();
  const { session_id } = await peer.shake({ extensions: { 'handfast/resume': {} } });
  peer.send({ type: 'tool/call/req', id: 'c', tool_name: 'slow', arguments: {} });
  assert.equal((await peer.answer('c')).data.success, true);
  peer.cut();
  await delay(idleMs * 2);
  const again = await door.dial();
  const answer = await again.shake({ extensions: { 'handfast/resume': { session_id, cursor: 0 } } });
  assert.equal(answer.session_id, session_id, 'without a link only the resume window counts');
});
