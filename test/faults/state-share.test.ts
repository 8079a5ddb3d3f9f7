/**
 * Data that plugins store for a principal counts in its share of stored bytes, with the events of its sessions, under
 * any agent names it uses: past it the principal is refused until it deletes, also after a restart, and no other is.
 * Entries of its memory count too.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharesServer } from './shares-server.ts';

const KIB = 1024;
const SHARE = 64 * KIB;
const PLUGIN = `import { tool, toolsPlugin } from 'handfast';
const input = { type: 'object', properties: { key: { type: 'string' }, bytes: { type: 'integer' } } };
const keep = tool({ name: 'keep', description: 'Stores.', input, async run({ key, bytes }, { store }) {
  if (bytes === 0) await store.principal.delete(key);
  else await store.principal.set(key, 'x'.repeat(bytes));
  return { stored: store.principal.usage.bytes };
} });
export const plugin = { ...toolsPlugin({ name: 'keeper', tools: [keep] }), store: {} };
`;

test('a principal whose plugins store its share is refused until it deletes, and another one stores meanwhile', async (t) => {
  const grants = 'roles: [client], capabilities: [tools], tools: { allow: [keep] }';
  const server = await sharesServer(
    t,
    { greedy: grants, other: grants },
    `limits: { stored_bytes: ${SHARE} }\nplugins: [./keeper.mjs]\n`,
    { 'keeper.mjs': PLUGIN },
  );
  const keep = async (name: string, key: string, bytes: number) => {
    await using agent = await server.agent(name);
    return await agent.tools.call('keep', { key, bytes });
  };
  const full = (error: { code: string; detail: { share?: string; retry_after_ms?: number } }) => {
    assert.deepEqual([error.code, error.detail.share], ['over_capacity', 'stored_bytes']);
    assert.ok(Number(error.detail.retry_after_ms) > 0);
    return true;
  };
  for (let at = 0; at < 8; at += 1) await keep('greedy', `k${at}`, 8 * KIB);
  for (const round of [1, 2]) {
    await assert.rejects(keep('greedy', 'more', 8 * KIB), full);
    await using control = await server.client('greedy');
    await assert.rejects(control.call('session.create', {}), full);
    await keep('other', `o${round}`, 8 * KIB);
    const { principals, refused } = await server.share('stored_bytes');
    assert.ok((principals.greedy ?? 0) >= SHARE && (principals.other ?? 0) >= round * 8 * KIB);
    assert.equal(refused, 2);
    // Deletion frees its share.
    await keep('greedy', 'k0', 0);
    await keep('greedy', 'k0', 8 * KIB);
    const before = (await server.share('stored_bytes')).principals;
    await server.restart();
    assert.deepEqual((await server.share('stored_bytes')).principals, before, 'counted at the start');
  }
});

test('the memory of each principal counts in its share, and has what all else has left of it', async (t) => {
  const grants = 'roles: [client], capabilities: [tools, memory], tools: { allow: [keep] }';
  const server = await sharesServer(
    t,
    { greedy: grants, other: grants },
    `limits: { stored_bytes: ${SHARE} }\nplugins: [./keeper.mjs, memory]\n`,
    { 'keeper.mjs': PLUGIN },
  );
  const counted = async (name: string): Promise<number> => (await server.share('stored_bytes')).principals[name] ?? 0;
  const entry = (key: string) => ({ key, content: 'x'.repeat(8 * KIB) });
  const inMemory = async <Result>(
    name: string,
    work: (memory: Awaited<ReturnType<Awaited<ReturnType<typeof server.agent>>['memory']['open']>>) => Promise<Result>,
  ): Promise<Result> => {
    await using agent = await server.agent(name);
    return await work(await agent.memory.open());
  };
  const agent = await server.agent('greedy');
  await agent.tools.call('keep', { key: 'state', bytes: 32 * KIB });
  await agent.close();
  const state = await counted('greedy');
  for (const key of ['a', 'b', 'c']) await inMemory('greedy', (memory) => memory.store(entry(key)).then());
  assert.ok((await counted('greedy')) >= state + 24 * KIB, 'the memory is counted with the state');
  for (let round = 0; round < 2; round += 1) {
    await assert.rejects(
      inMemory('greedy', (memory) => memory.store(entry('more')).then()),
      (error: { code: string; detail: { quota: { bytes: number } } }) => {
        assert.deepEqual([error.code, error.detail.quota.bytes], ['memory_full', SHARE - state]);
        return true;
      },
    );
    await inMemory('other', (memory) => memory.store(entry(`o${round}`)).then());
    // Deleted memories free the share, for the memory and for all other data.
    await inMemory('greedy', (memory) => memory.forget({ keys: ['a'] }));
    assert.ok((await counted('greedy')) < state + 20 * KIB);
    await inMemory('greedy', (memory) => memory.store(entry('a')).then());
    await server.restart();
  }
});
