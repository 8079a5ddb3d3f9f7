import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MemoryStats } from '../../../src/capabilities/memory/client.ts';
import { MemoryClient, memoryHost, temporaryFolder } from './support.ts';

const contents = (page: { readonly entries: readonly { readonly content: unknown }[] }) =>
  page.entries.map(({ content }) => content);

test('an entry is stored, read by its key, replaced, listed and found', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  const { stored, errors } = await memory.store([
    { key: 'city', content: 'Lisbon', tags: ['profile'], source: 'turn-1', metadata: { importance: 0.5 } },
    { key: { user: 'u1', topic: 'prefs' }, content: { lang: 'en', tone: 'dry' }, score: 0.9 },
  ]);
  assert.deepEqual([stored, errors], [[{ key: 'city' }, { user: 'u1', topic: 'prefs' }], []]);
  const city = await memory.get('city');
  assert.equal(city?.content, 'Lisbon');
  assert.deepEqual(city?.tags, ['profile']);
  assert.equal(city?.source, 'turn-1');
  assert.deepEqual(city?.metadata, { importance: 0.5 });
  assert.equal(city?.tier, 'episodic');
  const prefs = await memory.get({ topic: 'prefs', user: 'u1' });
  assert.deepEqual(
    [prefs?.content, prefs?.score],
    [{ lang: 'en', tone: 'dry' }, 0.9],
    'the order of members is no part of a key',
  );
  await memory.store({ key: 'city', content: 'Porto' });
  const page = await memory.list();
  assert.deepEqual(contents(page), ['Porto', { lang: 'en', tone: 'dry' }]);
  assert.equal(page.total, 2);
  const found = await memory.search('dry tone');
  assert.deepEqual(found.entries[0]?.key, { user: 'u1', topic: 'prefs' });
  const { score = 0, parts } = found.entries[0] ?? {};
  assert.ok(score > 0 && score <= 1, `score ${score}`);
  assert.equal(parts?.rank, 1);
  assert.ok((parts?.lexical ?? 0) > 0 && (parts?.vector ?? 0) > 0);
});

test('entries that cannot be stored are reported with their index, the others are stored', async (t) => {
  const memory = await (await memoryHost(t, { maxEntryBytes: 2000 })).memory();
  const { stored, errors } = await memory.store([
    { key: 'a', content: 1, ttl: -1 },
    { key: 'b', content: 'fine' },
    { key: 7 as unknown as string, content: 'keys are objects' },
    { key: 'c', content: 'x', tier: 'eternal' as 'working' },
    { key: 'd', content: 'y'.repeat(3000) },
    { key: 'e', content: 'z', valid_from: 10, valid_until: 5 },
  ]);
  assert.deepEqual(stored, [{ key: 'b' }]);
  assert.match(
    errors.join('\n'),
    /^entries\[0\]: ttl must not be negative\nentries\[2\]: key must be an object or a text\nentries\[3\]: tier must be .*\nentries\[5\]: valid_until must be after valid_from\nentries\[4\]: has \d+ bytes, more than the 2000/,
  );
});

test('tiers have their owners: the session, the agent, the principal', async (t) => {
  const opened = await memoryHost(t);
  const one = new MemoryClient(await opened.agent());
  const memory = await one.open();
  await memory.store(
    (['working', 'episodic', 'semantic'] as const).map((tier) => ({ key: tier, content: tier, tier })),
  );
  const namesOf = async (found: Awaited<ReturnType<typeof opened.memory>>) => contents(await found.list()).sort();
  assert.deepEqual(await namesOf(memory), ['episodic', 'semantic', 'working']);
  assert.deepEqual(
    await namesOf(await opened.memory('planner')),
    ['episodic', 'semantic'],
    'another session of the agent',
  );
  assert.deepEqual(await namesOf(await opened.memory('writer')), ['semantic'], 'another agent of the principal');
  assert.deepEqual(
    await namesOf(await opened.memory('planner', 'bob')),
    [],
    'an agent of that name of another principal',
  );
  const other = await new MemoryClient(await opened.agent()).open({ namespace: 'other', scope: { user: 'u2' } });
  assert.deepEqual(await namesOf(other), [], 'another memory');
});

const workingOf = ({ tiers }: MemoryStats): number => (tiers.working as { entries: number }).entries;

test('every entry says which agent stored it, in which session; what the sender claims is ignored', async (t) => {
  const opened = await memoryHost(t);
  const agent = await opened.agent('writer');
  const memory = await new MemoryClient(agent).open();
  const claimed = { key: 'k', content: 'v', provenance: { agent_id: 'somebody else' } };
  await memory.store(claimed);
  assert.deepEqual((await memory.get('k'))?.provenance, { agent_id: 'writer', session_id: agent.sessionId });
  await (await opened.memory('writer')).store({ key: 'k', content: 'v' });
  assert.equal((await memory.history('k')).length, 1, 'the same fact of another session is no other fact');
});

test('the requests of one principal do not hold up those of another', { timeout: 120_000 }, async (t) => {
  const opened = await memoryHost(t);
  const memory = await opened.memory();
  await memory.store(Array.from({ length: 500 }, (_, n) => ({ key: `k${n}`, content: `busy note ${n}` })));
  const other = await opened.memory('reader', 'bob');
  await other.store({ key: 'a', content: 'quiet' });
  let done = 0;
  const flood = Array.from({ length: 150 }, () => memory.search('busy note', { limit: 200 }).then(() => (done += 1)));
  assert.equal((await other.search('quiet')).entries[0]?.content, 'quiet');
  assert.ok(done < 150, `${done} of 150 requests of the other principal came first`);
  await Promise.all(flood);
});

test('the working tier ends with its session', async (t) => {
  const opened = await memoryHost(t);
  const agent = await opened.agent();
  const memory = await new MemoryClient(agent).open();
  await memory.store({ key: 'scratch', content: 'only here', tier: 'working' });
  assert.equal(workingOf(await memory.stats()), 1);
  await agent.close();
  const later = new MemoryClient(await opened.agent());
  for (let tries = 0; tries < 100; tries += 1) {
    if (workingOf(await later.stats()) === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail('the working tier is still there');
});

test('what was stored is there after a restart, under the same memory id', async (t) => {
  const folder = temporaryFolder(t);
  const first = await memoryHost(t, {}, folder);
  const before = await first.memory();
  await before.store({ key: 'k', content: 'survives' });
  await first.close();
  const second = await memoryHost(t, {}, folder);
  const after = await second.memory();
  assert.equal(after.id, before.id);
  assert.equal((await after.get('k'))?.content, 'survives');
  assert.equal((await after.search('survives')).entries.length, 1);
});

test('an id of another principal is not found, as an unknown one', async (t) => {
  const opened = await memoryHost(t);
  const memory = await opened.memory();
  await memory.store({ key: 'secret', content: 'of ada' });
  const agent = await opened.agent('planner', 'bob');
  const { Memory } = await import('./support.ts');
  for (const id of [memory.id, 'mem-unknown', '']) {
    const stolen = new Memory(agent.calls, id, '');
    await assert.rejects(stolen.list().then(), { code: 'memory_not_found' });
    await assert.rejects(stolen.store({ key: 'x', content: 1 }).then(), { code: 'memory_not_found' });
    await assert.rejects(stolen.forget({ keys: ['secret'] }).then(), { code: 'memory_not_found' });
  }
  assert.equal((await memory.get('secret'))?.content, 'of ada');
});

test('limit: 0 gives the total alone, a negative one is refused, a huge one is the maximum', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  await memory.store(Array.from({ length: 30 }, (_, n) => ({ key: `k${n}`, content: `note ${n}` })));
  assert.deepEqual(await memory.list({ limit: 0 }), {
    entries: [],
    total: 30,
    nextCursor: undefined,
    degraded: undefined,
  });
  const none = await memory.search('note', { limit: 0 });
  assert.deepEqual([none.entries.length, none.total], [0, 30]);
  await assert.rejects(memory.list({ limit: -1 }).then(), { code: 'schema_violation' });
  assert.equal((await memory.list({ limit: 2 ** 40 })).entries.length, 30);
  assert.equal((await memory.list()).entries.length, 10);
});

test('pages follow each other without gaps and repeats, of lists and of searches', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  await memory.store(
    Array.from({ length: 25 }, (_, n) => ({
      key: `k${n}`,
      content: `note ${n}`,
      tier: n % 2 ? 'semantic' : 'episodic',
    })),
  );
  for (const query of ['', 'note']) {
    const seen: unknown[] = [];
    let cursor: string | undefined;
    do {
      const page = await memory.search(query, { limit: 10, ...(cursor !== undefined && { cursor }) });
      assert.equal(page.total, 25);
      seen.push(...page.entries.map(({ key }) => key.key));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    assert.equal(seen.length, 25);
    assert.equal(new Set(seen).size, 25);
  }
  await assert.rejects(memory.list({ cursor: 'nonsense' }).then(), { code: 'schema_violation' });
  await assert.rejects(memory.list({ cursor: 'search.3' }).then(), { code: 'schema_violation' });
});

test('keys, query, tags, tier and min_score are all asked for; several keys or tags mean any of them', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  await memory.store([
    { key: 'a', content: 'red apple', tags: ['fruit'], score: 0.2 },
    { key: 'b', content: 'green apple', tags: ['fruit', 'sour'], score: 0.8 },
    { key: 'c', content: 'red car', tags: ['machine'], tier: 'semantic', score: 0.8 },
  ]);
  const keysOf = async (query: string, filter: object) =>
    (await memory.search(query, filter)).entries.map(({ key }) => key.key).sort();
  assert.deepEqual(await keysOf('', { keys: ['a', 'c', 'none'] }), ['a', 'c']);
  assert.deepEqual(await keysOf('', { tags: ['sour', 'machine'] }), ['b', 'c']);
  assert.deepEqual(await keysOf('', { tags: ['fruit'], keys: ['a', 'c'] }), ['a']);
  assert.deepEqual(await keysOf('', { tier: 'semantic' }), ['c']);
  assert.deepEqual(await keysOf('', { minScore: 0.5 }), ['b', 'c']);
  assert.deepEqual(await keysOf('apple', { tags: ['sour'] }), ['b']);
  assert.deepEqual(await keysOf('red', { tier: 'semantic' }), ['c']);
  assert.deepEqual(await keysOf('red', { keys: ['a'] }), ['a']);
  const [best] = (await memory.search('green apple')).entries;
  assert.equal(best?.key.key, 'b');
  assert.ok((await keysOf('green apple', { minScore: (best?.score ?? 0) + 0.01 })).length === 0);
});

test('a full memory says so with what is used and what may be, and stores nothing of the request', async (t) => {
  const memory = await (await memoryHost(t, { maxEntries: 3 })).memory();
  await memory.store([
    { key: 'a', content: 1 },
    { key: 'b', content: 2 },
  ]);
  await assert.rejects(
    memory
      .store([
        { key: 'c', content: 3 },
        { key: 'd', content: 4 },
      ])
      .then(),
    (error: { code: string; detail: { used: unknown; quota: { entries: number } } }) => {
      assert.equal(error.code, 'memory_full');
      assert.equal((error.detail.used as { entries: number }).entries, 2);
      assert.equal(error.detail.quota.entries, 3);
      return true;
    },
  );
  assert.equal((await memory.list()).total, 2);
  await memory.forget({ keys: ['a'] });
  await memory.store([
    { key: 'c', content: 3 },
    { key: 'd', content: 4 },
  ]);
});

test('a principal whose token limits what it stores has that much memory, and others have the usual', async (t) => {
  const { memory } = await memoryHost(t);
  const guest = await memory('planner', 'guest');
  const content = 'x'.repeat(1000);
  const entries = Array.from({ length: 4 }, (_, n) => ({ key: `k${n}`, content }));
  await assert.rejects(guest.store(entries).then(), { code: 'memory_full' });
  await guest.store(entries.slice(0, 3));
  await assert.rejects(guest.store(entries.slice(3)).then(), { code: 'memory_full' });
  assert.equal((await guest.stats()).quota.bytes, 4096);
  assert.equal((await guest.list()).total, 3);
  await (await memory()).store(entries);
});

test('forgetting deletes what has any of the keys, tags or sources in the tier, or is old, and nothing else', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  const left = async () =>
    (await memory.list({ limit: 100 })).entries.map(({ key, tier }) => `${key.key} ${tier}`).sort();
  await memory.store([
    { key: 'a', content: 1, tags: ['x'] },
    { key: 'a', content: 1, tier: 'semantic', tags: ['x'] },
    { key: 'b', content: 2, tags: ['x', 'y'] },
    { key: 'c', content: 3, source: 'mail' },
    { key: 'd', content: 4 },
  ]);
  assert.deepEqual(await memory.forget({}), { deleted: 0, erased: true }, 'nothing named, nothing forgotten');
  assert.equal((await memory.forget({ keys: ['a'] })).deleted, 1);
  assert.deepEqual(await left(), ['a semantic', 'b episodic', 'c episodic', 'd episodic']);
  assert.equal((await memory.forget({ tags: ['y'], keys: ['nothing'] })).deleted, 1);
  assert.equal((await memory.forget({ sources: ['mail'] })).deleted, 1);
  assert.deepEqual(await left(), ['a semantic', 'd episodic']);
  assert.equal((await memory.forget({ before: Date.now() / 1000 - 60 })).deleted, 0);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const moment = Date.now() / 1000;
  await memory.store({ key: 'e', content: 5 });
  assert.equal((await memory.forget({ before: moment, tier: '' })).deleted, 2);
  assert.deepEqual(await left(), ['e episodic']);
});

test('semantic entries are private until they are published into a space, which needs the grant', async (t) => {
  const opened = await memoryHost(t);
  const eve = await opened.memory('writer', 'eve');
  await eve.store({ key: 'deploy', content: 'deploy on Tuesdays', tier: 'semantic', tags: ['ops'], source: 'runbook' });
  const bob = new MemoryClient(await opened.agent('reader', 'bob'));
  const team = await bob.open({ spaces: ['team'] });
  assert.deepEqual((await team.search('deploy')).entries, []);
  assert.deepEqual(await eve.publish('team', { tags: ['ops'] }), [{ key: 'deploy' }]);
  const [entry] = (await team.search('deploy')).entries;
  assert.equal(entry?.content, 'deploy on Tuesdays');
  assert.equal(entry?.space, 'team');
  assert.equal(entry?.source, 'runbook');
  const { principal, agent_id, session_id, published_at } = entry?.provenance ?? {};
  assert.deepEqual([principal, agent_id], ['eve', 'writer']);
  assert.ok(session_id && published_at);
  assert.deepEqual((await (await bob.open()).search('deploy')).entries, [], 'a memory reads the spaces it names alone');
  assert.deepEqual(await bob.spaces(), [{ space: 'team', entries: 1, write: false }]);
  await assert.rejects(bob.open({ spaces: ['eve-notes'] }).then(), { code: 'memory.space_denied' });
  await assert.rejects(team.publish('team', { keys: ['deploy'] }).then(), { code: 'memory.space_denied' });
  await assert.rejects(team.forget({ keys: ['deploy'], space: 'team' }).then(), { code: 'memory.space_denied' });
  assert.equal((await eve.forget({ keys: ['deploy'], space: 'team' })).deleted, 1);
  assert.deepEqual((await team.search('deploy')).entries, []);
  const ada = new MemoryClient(await opened.agent());
  assert.ok(await ada.open({ spaces: ['anything'] }), 'an administrator reads every space');
});

test('what expires is found no more from that second on', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  await memory.store([
    { key: 'short', content: 'gone soon', ttl: 1 },
    { key: 'long', content: 'here soon too', ttl: 3600 },
  ]);
  assert.equal((await memory.search('soon')).entries.length, 2);
  await new Promise((resolve) => setTimeout(resolve, 1100));
  assert.deepEqual(contents(await memory.search('soon')), ['here soon too']);
  assert.deepEqual(contents(await memory.list()), ['here soon too']);
  assert.equal(await memory.get('short'), undefined);
  // The entry had expired, so the reply does not count it.
  assert.deepEqual(await memory.forget({ keys: ['short'] }), { deleted: 0, erased: true });
  assert.deepEqual(await memory.forget({ keys: ['short', 'long'] }), { deleted: 1, erased: true });
});
