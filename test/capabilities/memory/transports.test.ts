/** The memory capability behaves equally over every transport: stored and found entries, refusals, resumed calls. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Agent, connect } from '../../../src/connect.ts';
import { doorOf } from '../../support/sites.ts';
import { memoryHost, temporaryFolder } from './support.ts';

const COMMAND = join(import.meta.dirname, '../../../src/cli/main.ts');

/** Connects an agent over the transport to a separate host. */
async function agentOver(t: TestContext, transport: string): Promise<Agent<'memory'>> {
  const options = { capabilities: ['memory'], token: 'ada', agentId: 'one' } as const;
  if (transport === 'stdio') {
    const words = [process.execPath, '-C', 'handfast-source', COMMAND, 'stdio'].map((word) => `'${word}'`);
    const env = { ...(process.env as Record<string, string>), HANDFAST_HOME: temporaryFolder(t) };
    return connect(`stdio:${words.join(' ')}`, { ...options, env });
  }
  const { host } = await memoryHost(t);
  if (transport === 'memory') return connect(host, options);
  const door = await doorOf(transport as 'tcp', host);
  t.after(() => door.close());
  return connect(door.address ?? '', options);
}

const TEXT = 'été 東京 😀 \u2028\u2029\u0085 \\ " C++';

/** Returns the replies to a fixed series of requests; times and ids left out. */
async function story(agent: Agent<'memory'>): Promise<unknown[]> {
  const memory = await agent.memory.open({ namespace: 'wire', scope: { user: 'u' } });
  const stored = await memory.store([
    { key: 'city', content: 'Ada lives in Rome', tags: ['profile'], valid_from: 100 },
    { key: 'city', content: 'Ada lives in Lisbon', tags: ['profile'], valid_from: 200 },
    {
      key: { of: 'text', n: 1 },
      content: { text: TEXT, list: [1, null, true, 1.5] },
      tier: 'semantic',
      source: 'turn-1',
    },
    { key: 'note', content: 'of this session alone', tier: 'working', metadata: { importance: 2 } },
    { key: 'bad', content: 'x', ttl: -1 },
  ]);
  const found = await memory.search('where does Ada live?', { limit: 2 });
  const signs = await memory.search('C++');
  const past = await memory.get('city', { asOf: 150 });
  const history = await memory.history('city');
  const pages = [];
  for await (const entry of memory.all({ limit: 1 })) pages.push(entry.key);
  const failures: unknown[] = [];
  const attempt = (call: Promise<unknown>) =>
    call.then(
      () => failures.push('none'),
      ({ code, message, retryable }) => failures.push([code, message, retryable]),
    );
  await attempt(memory.search('x', { cursor: 'nonsense' }));
  await attempt(memory.search('x', { tier: 'attic' as 'working' }));
  await attempt(memory.publish('no such name!', { tags: ['x'] }));
  const forgotten = await memory.forget({ tags: ['profile'] });
  const { tiers, pending } = await memory.stats();
  const { entries } = await memory.list();
  return [
    ...[
      memory.embedder,
      stored,
      found.total,
      found.entries.map(({ content, score, parts }) => [content, score, parts]),
    ],
    ...[
      signs.entries.map(({ content }) => content),
      past?.content,
      history.map(({ content, current }) => [content, current]),
    ],
    ...[pages, failures, forgotten, tiers, pending, entries.map(({ key, tier, metadata }) => [key, tier, metadata])],
  ];
}

let first: string | undefined;

for (const transport of ['memory', 'stdio', 'tcp', 'unix', 'websocket', 'http']) {
  test(`the same requests get the same replies over ${transport}`, { timeout: 120_000 }, async (t) => {
    await using agent = await agentOver(t, transport);
    const told = JSON.stringify(await story(agent));
    first ??= told;
    assert.equal(told, first);
    assert.match(told, /Ada lives in Lisbon/);
  });
}
