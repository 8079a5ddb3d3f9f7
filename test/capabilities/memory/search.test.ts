import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setVariable } from '../../support/variable.ts';
import { memoryHost, temporaryFolder } from './support.ts';

const LITERAL = [
  'we write C++ and C# here',
  "it's raining cats",
  'use the flag -x with care',
  'set foo:bar in the file',
  'the quote "is" here',
  'NEAR(a b) is no operator',
  'call me at 100% * 2',
  '東京都に住んでいます',
  '我喜欢吃苹果',
  'Привет мир',
  'emoji 🚀 launch 👨‍👩‍👧',
  'Crème brûlée',
  'ภาษาไทย',
  'path/to/file_name.ts',
  'ﬁne ligature',
];

test('a query is literal text: signs are no syntax, every script is found, by words and by parts of words', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  await memory.store(LITERAL.map((content, n) => ({ key: `k${n}`, content })));
  const cases: [query: string, expected: string][] = [
    ['C++', LITERAL[0]!],
    ['C#', LITERAL[0]!],
    ["it's", LITERAL[1]!],
    ['-x', LITERAL[2]!],
    ['foo:bar', LITERAL[3]!],
    ['"is"', LITERAL[4]!],
    ['NEAR(a b)', LITERAL[5]!],
    ['100% *', LITERAL[6]!],
    ['東京', LITERAL[7]!],
    ['住', LITERAL[7]!],
    ['苹果', LITERAL[8]!],
    ['喜欢吃', LITERAL[8]!],
    ['приве', LITERAL[9]!],
    ['🚀', LITERAL[10]!],
    ['👨‍👩‍👧', LITERAL[10]!],
    ['creme brulee', LITERAL[11]!],
    ['rûlé', LITERAL[11]!],
    ['ไทย', LITERAL[12]!],
    ['ile_nam', LITERAL[13]!],
    ['fine lig', LITERAL[14]!],
    ['ainin', LITERAL[1]!],
  ];
  for (const [query, expected] of cases) {
    const [first] = (await memory.search(query)).entries;
    assert.equal(first?.content, expected, `${JSON.stringify(query)}`);
  }
  for (const query of [
    'AND',
    'OR NOT',
    '*',
    '"',
    '""',
    '(',
    'a AND',
    'col:',
    '^',
    '{}',
    '\\',
    '\u0000',
    "';--",
    '+',
    'x'.repeat(20_000),
  ]) {
    await assert.doesNotReject(memory.search(query).then(), JSON.stringify(query));
  }
  for (const query of ['', '   ', '\n'])
    assert.equal((await memory.search(query)).total, LITERAL.length, 'an empty query lists');
  assert.deepEqual(
    (await memory.search('nothing of that sort anywhere zzzz')).entries.map(({ content }) => content).slice(0, 0),
    [],
  );
  assert.equal((await memory.search('zzqqy')).total, 0);
});

test('each ranking alone, and what parts say', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  await memory.store([
    { key: 'exact', content: 'the deployment runs on Tuesday' },
    { key: 'form', content: 'deploying and redeployments were discussed' },
    { key: 'other', content: 'lunch was good' },
  ]);
  const keysOf = async (query: string, ranking: 'lexical' | 'vector' | 'hybrid') =>
    (await memory.search(query, { ranking })).entries.map(({ key }) => key.key);
  assert.equal((await keysOf('deployment', 'lexical'))[0], 'exact');
  assert.deepEqual((await keysOf('deploiment', 'vector')).includes('exact'), true, 'a misspelling, by its n-grams');
  assert.equal((await keysOf('deployment Tuesday', 'hybrid'))[0], 'exact');
  assert.ok(!(await keysOf('deployment Tuesday', 'hybrid')).includes('other'));
  const { entries } = await memory.search('deployment');
  for (const [at, { score = -1, parts }] of entries.entries()) {
    assert.equal(parts?.rank, at + 1);
    for (const value of [score, parts?.lexical ?? -1, parts?.vector ?? -1]) assert.ok(value >= 0 && value <= 1);
    if (at > 0) assert.ok(score <= (entries[at - 1]?.score ?? 0));
  }
  assert.equal(entries[0]?.parts?.literal, true);
  await assert.rejects(memory.search('x', { ranking: 'best' as 'hybrid' }).then(), { code: 'schema_violation' });
});

/** Starts a server with the embeddings call: a vector shows which of three topics a text has. */
async function embeddingServer(
  t: TestContext,
  answer?: (request: IncomingMessage, response: ServerResponse) => boolean,
) {
  const topics = [/cat|kitten|feline/i, /car|vehicle|engine/i, /bread|bakery|flour/i];
  const seen: { url: string | undefined; key: string | undefined; model: string; inputs: string[] }[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      const { model, input } = JSON.parse(body) as { model: string; input: string[] };
      seen.push({ url: request.url, key: request.headers.authorization, model, inputs: input });
      if (answer?.(request, response)) return;
      const data = input.map((text, index) => ({
        index,
        embedding: [...topics.map((topic) => (topic.test(text) ? 1 : 0)), 0.05],
      }));
      // Not in order: the index counts.
      response.end(JSON.stringify({ data: data.reverse() }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, seen };
}

test('an embedder of the configuration finds meanings; entries that were there before get its vectors', async (t) => {
  const folder = temporaryFolder(t);
  const first = await memoryHost(t, {}, folder);
  await (await first.memory()).store([
    { key: 'pet', content: 'a kitten sleeps' },
    { key: 'drive', content: 'the vehicle is red' },
  ]);
  await first.close();
  const { baseUrl, seen } = await embeddingServer(t);
  setVariable(t, 'MEMORY_TEST_KEY', 'key-of-the-embedder');
  const second = await memoryHost(t, { embedder: { baseUrl, model: 'topics', apiKeyEnv: 'MEMORY_TEST_KEY' } }, folder);
  const memory = await second.memory();
  assert.equal(memory.embedder, `topics at ${baseUrl}`);
  await memory.store({ key: 'bake', content: 'flour and water' });
  for (let tries = 0; (await memory.stats()).pending > 0; tries += 1) {
    assert.ok(tries < 400, 'the vectors of all entries are computed');
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  const keyOf = async (query: string) => (await memory.search(query)).entries[0]?.key.key;
  assert.equal(await keyOf('feline'), 'pet');
  assert.equal(await keyOf('engine'), 'drive');
  assert.equal(await keyOf('bakery'), 'bake');
  assert.ok(
    seen.every(
      ({ url, key, model }) => url === '/v1/embeddings' && key === 'Bearer key-of-the-embedder' && model === 'topics',
    ),
  );
});

test('an embedder that fails degrades a search to words and says so; entries wait for it', async (t) => {
  let broken = true;
  const { baseUrl, seen } = await embeddingServer(t, (_, response) => {
    if (broken) response.writeHead(500).end('no');
    return broken;
  });
  const opened = await memoryHost(t, { embedder: { baseUrl, model: 'topics', timeoutMs: 1000 } });
  const memory = await opened.memory();
  await memory.store({ key: 'pet', content: 'a kitten sleeps' });
  const page = await memory.search('kitten');
  assert.equal(page.entries[0]?.key.key, 'pet');
  assert.match(page.degraded ?? '', /^the embedder failed: it responded with status 500$/);
  assert.ok(seen.length >= 3, 'it was tried again');
  const stats = await memory.stats();
  assert.equal(stats.pending, 1);
  broken = false;
  for (let tries = 0; (await memory.stats()).pending > 0; tries += 1) {
    assert.ok(tries < 600, 'it catches up');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.equal((await memory.search('feline')).entries[0]?.key.key, 'pet');
});

test('what an embedder sends that is no vector is refused', async (t) => {
  for (const body of [
    'not json',
    '{}',
    '{"data":[]}',
    '{"data":[{"embedding":"AAAA"}]}',
    '{"data":[{"embedding":[1,null]}]}',
    '{"data":[{"embedding":[]}]}',
  ]) {
    const { baseUrl } = await embeddingServer(t, (_, response) => {
      response.end(body);
      return true;
    });
    const memory = await (await memoryHost(t, { embedder: { baseUrl, model: 'm' } })).memory();
    await memory.store({ key: 'a', content: 'word' });
    const page = await memory.search('word');
    assert.equal(page.entries.length, 1);
    assert.match(page.degraded ?? '', /^the embedder failed: /, body);
  }
});
