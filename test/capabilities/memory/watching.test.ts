/** The pushes to sessions that watch a memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../mcp/support.ts';
import { MemoryClient, memoryHost } from './support.ts';

interface Seen {
  readonly keys: readonly unknown[];
  readonly more: boolean;
}

test('a session that watches a memory gets what others store, forget and publish in it, and nothing of other memories', async (t) => {
  const host = await memoryHost(t);
  const watching = new MemoryClient(await host.agent('planner'));
  const seen: Seen[] = [];
  const end = await watching.watch({}, (change) => seen.push(change));
  const keys = (): string[] => [...new Set(seen.flatMap((each) => each.keys.map((key) => JSON.stringify(key))))];

  const memory = await host.memory('planner');
  await memory.store({ key: 'city', content: 'Rome' });
  await until(() => keys().includes('{"key":"city"}'));

  const other = await host.memory('scout');
  await other.store([
    { key: 'own', content: 'episodic, of the other agent' },
    { key: 'passing', content: 'of its session', tier: 'working' },
    { key: 'general', content: 'of all agents', tier: 'semantic', supersedes: ['former'] },
  ]);
  await until(() => keys().includes('{"key":"general"}'));
  assert.ok(keys().includes('{"key":"former"}'), 'its fact has ended');
  await (await host.memory('planner', 'eve')).store({ key: 'general', content: 'of another principal' });

  seen.length = 0;
  await memory.forget({ keys: ['city'] });
  await until(() => keys().includes('{"key":"city"}'));
  await other.publish('team', { keys: ['general'] });
  await until(() => keys().includes('{"key":"general"}'));
  assert.ok(!keys().includes('{"key":"own"}') && !keys().includes('{"key":"passing"}'), keys().join());

  end();
  seen.length = 0;
  const again = new MemoryClient(await host.agent('planner'));
  const later: Seen[] = [];
  await again.watch({}, (change) => later.push(change));
  await memory.store({ key: 'last', content: 1 });
  await until(() => later.length > 0);
  assert.deepEqual(seen, []);
});

test('many changes of a moment are one push, which says that there are more', async (t) => {
  const host = await memoryHost(t);
  const seen: Seen[] = [];
  await new MemoryClient(await host.agent()).watch({}, (change) => seen.push(change));
  const memory = await host.memory();
  await memory.store(Array.from({ length: 400 }, (_, at) => ({ key: `key-${at}`, content: at, tags: ['many'] })));
  await until(() => seen.some(({ more, keys }) => more && keys.length === 100));
  seen.length = 0;
  await memory.store({ key: 'x'.repeat(100_000), content: 1 });
  await until(() => seen.some(({ more, keys }) => more && keys.length === 0));
  seen.length = 0;
  await memory.forget({ tags: ['many'] });
  await until(() => seen.some(({ more, keys }) => more && keys.length === 100));
});

test('a session watches a limited number of memories; the same one again counts once', async (t) => {
  const host = await memoryHost(t);
  const client = new MemoryClient(await host.agent());
  for (let at = 0; at < 63; at += 1) await client.watch({ namespace: `n${at}` }, () => {});
  const [one, two] = [
    await client.watch({ namespace: 'last' }, () => {}),
    await client.watch({ namespace: 'last' }, () => {}),
  ];
  await assert.rejects(
    client.watch({ namespace: 'one too many' }, () => {}),
    { code: 'memory.too_many_watches' },
  );
  one();
  await assert.rejects(
    client.watch({ namespace: 'one too many' }, () => {}),
    { code: 'memory.too_many_watches' },
  );
  two();
  await client.watch({ namespace: 'one too many' }, () => {});
});
