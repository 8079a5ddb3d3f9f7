/**
 * Hostile requests by raw message, from principals with few rights: refused in words or stored unchanged, and the memory stays
 * whole.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { rawAgent } from '../../support/raw-agent.ts';
import { memoryHost, type Opened } from './support.ts';

type Reply = Record<string, unknown> & { code?: string; message?: string };

/**
 * Opens a session of plain messages; sends texts unchanged, so that they may contain JSON that JSON.stringify would not write.
 */
async function session({ host }: Opened, token: string) {
  const agent = rawAgent(host);
  await agent.shake({ agent_caps: ['memory'], auth_token: token, agent_id: 'planner' });
  let last = 0;
  const ask = (type: string, body: object | string = {}): Promise<Reply> => {
    const id = `r${++last}`;
    const rest = typeof body === 'string' ? body : JSON.stringify(body).slice(1, -1);
    agent.send(`{"type":"memory/${type}/req","id":"${id}"${rest === '' ? '' : `,${rest}`}}`);
    return agent.answer(id) as Promise<Reply>;
  };
  const open = async (body: object = {}) => (await ask('init', body)).memory_id as string;
  return { ask, open };
}

const hostOf = (t: TestContext) => memoryHost(t, { maxEntryBytes: 4096 });

test('the id of a memory of another principal opens nothing by any message, and neither does its agent id', async (t) => {
  const host = await hostOf(t);
  const ada = await session(host, 'ada');
  const id = await ada.open();
  await ada.ask('store', { memory_id: id, entries: [{ key: 'secret', content: 'of ada', tier: 'semantic' }] });
  const bob = await session(host, 'bob');
  for (const [type, more] of Object.entries({
    store: { entries: [{ key: 'x', content: 1, tier: 'episodic' }] },
    retrieve: { query: 'secret' },
    forget: { keys: ['secret'], tier: '' },
    history: { key: 'secret' },
    stats: {},
  })) {
    assert.equal((await bob.ask(type, { memory_id: id, ...more })).code, 'memory_not_found', type);
  }
  // It is refused for the space before the memory is searched.
  assert.equal((await bob.ask('publish', { memory_id: id, space: 'team', tags: ['x'] })).code, 'memory.space_denied');
  const own = await bob.open({ agent_id: 'planner' });
  assert.notEqual(own, id);
  assert.deepEqual((await bob.ask('retrieve', { memory_id: own, query: 'secret' })).entries, []);
  const { used } = await bob.ask('stats');
  assert.deepEqual(used, { entries: 0, bytes: 0 });
  assert.equal(((await ada.ask('retrieve', { memory_id: id, keys: ['secret'] })).entries as []).length, 1);
});

test('spaces are used by their exact names and grants: patterns, paths and empty names open none', async (t) => {
  const host = await hostOf(t);
  const ada = await session(host, 'ada');
  const id = await ada.open();
  await ada.ask('store', { memory_id: id, entries: [{ key: 'k', content: 'hidden', tier: 'semantic', tags: ['t'] }] });
  await ada.ask('publish', { memory_id: id, space: 'other', tags: ['t'] });
  const bob = await session(host, 'bob');
  for (const space of ['other', 'oth*', '*', '../other', 'x other', '', 'team\u0000', 'x'.repeat(200), 'tea%']) {
    const opened = await bob.ask('init', { spaces: [space] });
    assert.match(String(opened.code), /^(?:memory\.space_denied|schema_violation)$/, JSON.stringify(space));
  }
  assert.equal((await bob.ask('init', { scope: { space: 'other' } })).code, 'memory.space_denied');
  const own = await bob.open({ spaces: ['team'] });
  assert.equal((await bob.ask('forget', { memory_id: own, space: 'other', keys: ['k'] })).code, 'memory.space_denied');
  assert.equal((await bob.ask('forget', { memory_id: own, space: 'team', keys: ['k'] })).code, 'memory.space_denied');
  assert.deepEqual((await bob.ask('spaces')).spaces, []);
  assert.deepEqual((await bob.ask('retrieve', { memory_id: own, query: 'hidden' })).entries, []);
});

/** Raw JSON texts of keys and contents, each of them valid JSON. */
const ODD = [
  '"\\u0000"',
  '"a\\u0000b"',
  '"\\ud800"',
  '"\\udfff\\ud800"',
  '{"__proto__":{"polluted":true}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  '{"":""}',
  '{"a":null,"b":[],"c":{}}',
  '{"n":0.5,"m":1e308,"s":1e-320}',
  '"\u202e\u2028\ufeff"',
  '"%_\'\\"\\\\"',
  '{"toString":1,"hasOwnProperty":2}',
];

test('odd keys and contents are stored and read as they are, and forgotten alone', async (t) => {
  const bob = await session(await hostOf(t), 'bob');
  const id = await bob.open();
  for (const [at, key] of ODD.entries()) {
    const { stored, errors } = await bob.ask(
      'store',
      `"memory_id":"${id}","entries":[{"key":${key},"content":${key},"tier":"episodic","tags":[${ODD[at]?.startsWith('"') ? key : '"t"'}],"source":"s"}]`,
    );
    assert.deepEqual([(stored as []).length, errors], [1, []], key);
  }
  assert.equal((await bob.ask('retrieve', { memory_id: id, limit: 0 })).total, ODD.length);
  for (const key of ODD) {
    const { entries } = (await bob.ask('retrieve', `"memory_id":"${id}","keys":[${key}]`)) as { entries?: Reply[] };
    assert.equal(entries?.length, 1, key);
    assert.deepEqual(entries?.[0]?.content, JSON.parse(key), key);
  }
  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  for (const [at, key] of ODD.entries()) {
    assert.equal((await bob.ask('forget', `"memory_id":"${id}","keys":[${key}]`)).deleted, 1, key);
    assert.equal((await bob.ask('retrieve', { memory_id: id, limit: 0 })).total, ODD.length - at - 1);
  }
});

test('no text of a query, name or cursor is syntax, and what is too large is refused', async (t) => {
  const bob = await session(await hostOf(t), 'bob');
  const id = await bob.open();
  await bob.ask('store', { memory_id: id, entries: [{ key: 'k', content: 'plain text', tier: 'episodic' }] });
  const queries = [
    '"',
    '""',
    '*',
    'a*',
    '^a',
    'a OR b',
    'a AND NOT b',
    'NEAR(a b)',
    'text:plain',
    'rowid:1',
    '-',
    "'; DROP TABLE entry; --",
  ];
  queries.push(
    '%',
    '_',
    '(',
    ')',
    '{}',
    '\\',
    '\u0000',
    'a\u0000b',
    '\ud800',
    'plain\ud800',
    '😀',
    '.',
    '. . .',
    'x'.repeat(100_000),
  );
  queries.push(Array.from({ length: 5000 }, (_, n) => `w${n}`).join(' '), 'plain '.repeat(3000));
  for (const query of queries) {
    for (const ranking of ['hybrid', 'lexical', 'vector']) {
      const reply = await bob.ask('retrieve', { memory_id: id, query, ranking });
      assert.equal(
        reply.type,
        'memory/retrieve/resp',
        `${JSON.stringify(query.slice(0, 20))}: ${JSON.stringify(reply)}`,
      );
    }
  }
  for (const page_cursor of [
    'list.999999999.9999999999999999',
    'search.999999999',
    'list.0.0',
    'list.0.-1',
    'x',
    '0',
    'list.1e3.1',
  ]) {
    const reply = await bob.ask('retrieve', { memory_id: id, page_cursor });
    assert.ok(reply.code === 'schema_violation' || (reply.entries as []).length === 0, page_cursor);
  }
  for (const more of [
    { limit: 1e15 },
    { limit: 1e300 },
    { as_of: 1e308 },
    { as_of: -1e308 },
    { min_score: 1e308 },
    { keys: [1] },
    { keys: Array.from({ length: 1001 }, () => 'k') },
    { tags: Array.from({ length: 1001 }, () => 'k') },
  ]) {
    const reply = await bob.ask('retrieve', { memory_id: id, ...more });
    assert.match(`${reply.type} ${reply.code}`, /^memory\/retrieve\/resp|schema_violation$/, JSON.stringify(reply));
  }
  const { errors } = await bob.ask('store', {
    memory_id: id,
    entries: [
      { key: 'large', content: 'x'.repeat(5000), tier: 'episodic' },
      { key: { long: 'x'.repeat(5000) }, content: 1, tier: 'episodic' },
      { key: 'ttl', content: 1, tier: 'episodic', ttl: 1e300 },
      { key: 'score', content: 1, tier: 'episodic', score: 'high' },
      { key: 'time', content: 1, tier: 'episodic', valid_from: 1e15 },
      { key: 'tier', content: 1, tier: '__proto__' },
      { key: 'tags', content: 1, tier: 'episodic', tags: Array.from({ length: 65 }, () => 't') },
      { key: 'old', content: 1, tier: 'episodic', supersedes: Array.from({ length: 65 }, () => 'k') },
    ],
  });
  assert.equal((errors as string[]).length, 8, JSON.stringify(errors));
  const many = Array.from({ length: 1001 }, () => ({ key: 'k', content: 1, tier: 'episodic' }));
  assert.equal((await bob.ask('store', { memory_id: id, entries: many })).code, 'schema_violation');
  assert.equal((await bob.ask('retrieve', { memory_id: id, limit: 0 })).total, 1);
});

test('an entry of one long run of marks does not hold up the memory of others', { timeout: 120_000 }, async (t) => {
  const host = await memoryHost(t);
  const bob = await session(host, 'bob');
  const id = await bob.open();
  const content = `a${'.'.repeat(250_000)}a`;
  const ada = await session(host, 'ada');
  const own = await ada.open();
  const stored = bob.ask('store', { memory_id: id, entries: [{ key: 'dots', content, tier: 'episodic' }] });
  // With the quadratic search for the end of the run this took minutes.
  assert.equal((await ada.ask('retrieve', { memory_id: own, query: 'x' })).type, 'memory/retrieve/resp');
  assert.deepEqual((await stored).errors, []);
});

test('as deep as a message may be, a key and a content are stored, superseded and read', async (t) => {
  const bob = await session(await hostOf(t), 'bob');
  const id = await bob.open();
  const deep = `${'{"a":'.repeat(55)}1${'}'.repeat(55)}`;
  const entry = `{"key":${deep},"content":${deep},"tier":"episodic","supersedes":[${deep}]}`;
  assert.deepEqual((await bob.ask('store', `"memory_id":"${id}","entries":[${entry}]`)).errors, []);
  assert.equal((await bob.ask('retrieve', `"memory_id":"${id}","keys":[${deep}]`)).total, 1);
});

test('requests that their sender cancels count until they are done, so that they do not hold up the memory of others', {
  timeout: 120_000,
}, async (t) => {
  const host = await memoryHost(t);
  const bob = await host.memory('planner', 'bob');
  await bob.store({ key: 'first', content: 'x' });
  const content = 'word '.repeat(2_000);
  const outcomes = new Map<string, number>();
  const calls: Promise<void>[] = [];
  const count = (code: string): void => void outcomes.set(code, (outcomes.get(code) ?? 0) + 1);
  for (let at = 0; at < 400; at++) {
    const controller = new AbortController();
    const entries = Array.from({ length: 20 }, (_, entry) => ({ key: `${at} ${entry}`, content }));
    calls.push(
      bob.store(entries, { signal: controller.signal }).then(
        () => count('made'),
        ({ code }: { code: string }) => count(code),
      ),
    );
    // Long enough that the thread of the memory has it.
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
    controller.abort();
  }
  await Promise.all(calls);
  assert.equal(outcomes.get('cancelled'), 400);
  // Requests that reached the thread are done nevertheless; the others waited behind the bound of a principal, and left it.
  await bob.store({ key: 'last', content: 'x' });
  const { total } = await bob.list({ limit: 1 });
  const reached = (total - 2) / 20;
  t.diagnostic(`${reached} of 400 reached the thread`);
  assert.ok(reached <= 200, `${reached} requests of one principal were in the thread`);
});
