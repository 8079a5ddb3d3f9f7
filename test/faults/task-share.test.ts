/**
 * The fleet's storage has shares: a principal at its share of open tasks is refused; one that stores too much loses its
 * own oldest ended tasks, and is refused if its open ones alone are too much. Others submit theirs, also after a
 * restart.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ShareUsage } from '../../src/base/share-usage.ts';
import { ADMIN, named, startFleet, tokenOf } from './support/fleet-server.ts';

const KIB = 1024;
const SUBMIT = 'fleet: { submit: true }';

type Stand = Awaited<ReturnType<typeof startFleet>>;

async function share(stand: Stand, name: string): Promise<ShareUsage> {
  const headers = { authorization: `Bearer ${ADMIN}` };
  const status = (await (await fetch(`${stand.url}/status`, { headers })).json()) as {
    shares: Record<string, ShareUsage>;
  };
  return status.shares[name] as ShareUsage;
}

interface Hand {
  submit(id: string, brief?: string): Promise<unknown>;
  cancel(id: string): Promise<unknown>;
  ids(): Promise<string[]>;
}

async function hand(stand: Stand, name: string): Promise<Hand> {
  const control = await stand.as(name === 'root' ? ADMIN : tokenOf(name));
  return {
    submit: (task_id, brief = 'x') => control.call('fleet.task.submit', { spec: { task_id, brief } }),
    cancel: (task_id) => control.call('fleet.task.cancel', { task_id }),
    async ids() {
      const { tasks } = (await control.call('fleet.task.list', { limit: 1000 })) as { tasks: { task_id: string }[] };
      return tasks.map(({ task_id }) => task_id);
    },
  };
}

const isFull = (name: string) => (error: { code: string; detail: { share?: string; retry_after_ms?: number } }) => {
  assert.deepEqual([error.code, error.detail.share], ['over_capacity', name]);
  assert.ok(Number(error.detail.retry_after_ms) > 0);
  return true;
};

test('a principal at its share of open tasks is refused, others hand in theirs, and it again once one has ended', async (t) => {
  const tokens = `${named('ann', SUBMIT)}${named('bob', SUBMIT)}limits: { max_open_tasks_per_principal: 3 }\n`;
  const stand = await startFleet(t, tokens);
  for (const round of [1, 2]) {
    const [ann, bob, root] = [await hand(stand, 'ann'), await hand(stand, 'bob'), await hand(stand, 'root')];
    if (round === 1) for (const id of ['a1', 'a2', 'a3']) await ann.submit(id);
    await assert.rejects(ann.submit(`a-${round}`), isFull('open_tasks'));
    await bob.submit(`b-${round}`);
    for (const at of [1, 2, 3, 4]) await root.submit(`r-${round}-${at}`);
    const usage = await share(stand, 'open_tasks');
    assert.deepEqual([usage.principals.ann, usage.principals.bob, usage.refused], [3, round, 1]);
    await ann.cancel(`a${round}`);
    await ann.submit(`again-${round}`);
    await stand.restart();
  }
});

test('a principal that stores too much loses its own oldest ended tasks; open ones alone are refused', async (t) => {
  const share64 = 64 * KIB;
  const tokens = `${named('ann', SUBMIT)}${named('bob', SUBMIT)}limits: { task_bytes: ${share64} }\n`;
  const stand = await startFleet(t, tokens);
  const brief = 'x'.repeat(8 * KIB);
  let [ann, bob] = [await hand(stand, 'ann'), await hand(stand, 'bob')];
  await bob.submit('b-1', brief);
  await bob.cancel('b-1');
  for (let at = 1; at <= 20; at += 1) {
    await ann.submit(`a-${at}`, brief);
    await ann.cancel(`a-${at}`);
  }
  const left = await ann.ids();
  assert.ok(left.length < 9 && left.includes('a-20') && !left.includes('a-1'), left.join());
  assert.deepEqual(await bob.ids(), ['b-1']);
  const before = (await share(stand, 'task_bytes')).principals;
  assert.ok((before.ann ?? 0) > 8 * KIB && (before.ann ?? 0) <= share64 + 9 * KIB);

  await stand.restart();
  assert.deepEqual((await share(stand, 'task_bytes')).principals, before, 'counted at the start');
  [ann, bob] = [await hand(stand, 'ann'), await hand(stand, 'bob')];
  let refusal: unknown;
  for (let at = 1; at <= 20 && refusal === undefined; at += 1) {
    await ann.submit(`open-${at}`, brief).catch((error) => {
      refusal = error;
    });
  }
  assert.ok(isFull('task_bytes')(refusal as never));
  assert.equal((await share(stand, 'task_bytes')).refused, 1);
  assert.ok(
    (await ann.ids()).every((id) => id.startsWith('open-')),
    'what has ended made room first',
  );
  await bob.submit('b-2', brief);
  await ann.cancel('open-1');
  await ann.submit('again', brief);
});
