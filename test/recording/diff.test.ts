/**
 * The differences between two recordings that matter: those of content, and not those of every run.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { connect, tool } from 'handfast';
import { testHost } from 'handfast/testing';
import { diffRecordings } from '../../src/recording/diff.ts';
import type { Recording } from '../../src/recording/format.ts';
import { readJournalFile } from '../../src/recording/journal-recording.ts';
import { echo, flood } from '../support/tools.ts';
import { cleanUp, recorded, scratchFile } from './recorded.ts';

after(cleanUp);

/** Returns values that differ in every run, and the given one. */
const varied = (answer: string) =>
  tool({
    name: 'varied',
    description: 'Gives ids and times',
    input: { type: 'object', properties: { text: { type: 'string' } } },
    run: () => ({ job: randomUUID(), at: new Date().toISOString(), note: `job ${randomUUID()} of today`, answer }),
  });

type Agent = Parameters<Parameters<typeof recorded>[1]>[0];
const say =
  (...texts: string[]) =>
  async (agent: Agent) => {
    for (const text of texts) await agent.tools.call('echo', { text });
  };
const of = (script: (agent: Agent) => Promise<unknown>, options = {}): Promise<Recording> =>
  recorded({ tools: [echo, flood] }, script, options);
const all = { most: 100 };

test('two runs of the same are the same', async () => {
  const script = async (agent: Agent) => {
    await agent.tools.call('varied', { text: 'x' });
    await agent.ping();
  };
  const one = await recorded({ tools: [varied('yes')] }, script);
  const other = await recorded({ tools: [varied('yes')] }, async (agent) => script(agent).then(() => agent.ping()), {
    at: 'http://127.0.0.1:0',
  });
  assert.deepEqual(diffRecordings(one, other, all), []);
});

test('a reply that differs is found with its place and both values', async () => {
  const script = (agent: Agent) => agent.tools.call('varied', { text: 'x' });
  const one = await recorded({ tools: [varied('yes')] }, script);
  const other = await recorded({ tools: [varied('no')] }, script);
  const [first, ...others] = diffRecordings(one, other, all);
  assert.deepEqual(first, {
    kind: 'changed',
    type: 'tool/call/req',
    part: 'reply',
    left: 5,
    right: 5,
    path: '/data/data/answer',
    left_value: '"yes"',
    right_value: '"no"',
  });
  assert.deepEqual(others, []);
  assert.deepEqual(diffRecordings(one, other, { volatile: ['/data/data/answer'] }), []);
});

test('an id that stands for two others differs', async () => {
  const pair = (same: boolean) =>
    tool({
      name: 'pair',
      description: 'Two ids',
      input: { type: 'object' },
      run: () => {
        const id = randomUUID();
        return { one: id, two: same ? id : randomUUID() };
      },
    });
  const script = (agent: Agent) => agent.tools.call('pair', {});
  const one = await recorded({ tools: [pair(true)] }, script);
  const other = await recorded({ tools: [pair(false)] }, script);
  assert.equal(diffRecordings(one, other)[0]?.path, '/data/data/two');
  assert.deepEqual(diffRecordings(one, await recorded({ tools: [pair(true)] }, script)), []);
});

test('a request that is missing, one that was added, and one that changed', async () => {
  const base = await of(say('a', 'b', 'c'));
  const [missing, ...rest] = diffRecordings(base, await of(say('a', 'c')), all);
  assert.deepEqual([missing?.kind, missing?.left, rest.length], ['missing', 6, 0]);
  const [added] = diffRecordings(base, await of(say('a', 'b', 'new', 'c')), all);
  assert.deepEqual([added?.kind, added?.left, added?.right], ['added', null, 8]);
  const [changed] = diffRecordings(base, await of(say('a', 'B', 'c')), all);
  assert.deepEqual([changed?.kind, changed?.part, changed?.path], ['changed', 'request', '/arguments/text']);
});

test('parallel requests may be answered in any order, others not', async () => {
  const parallel =
    (...texts: string[]) =>
    (agent: Agent) =>
      Promise.all(texts.map((text) => agent.tools.call('echo', { text })));
  assert.deepEqual(diffRecordings(await of(parallel('a', 'b', 'c')), await of(parallel('c', 'a', 'b')), all), []);
  const [first] = diffRecordings(await of(say('a', 'b')), await of(say('b', 'a')), all);
  assert.equal(first?.kind, 'order');
});

test('an event that is missing is found, and a link that was lost makes no difference', async () => {
  const events = (count: number) => (agent: Agent) => Array.fromAsync(agent.tools.call('flood', { count: count }));
  const whole = await of(events(200));
  assert.deepEqual(diffRecordings(whole, await of(events(200), { cutAfter: 50 }), all), []);
  const entries = whole.entries.filter(({ seq }) => seq !== 20);
  const [first] = diffRecordings(whole, { ...whole, entries }, all);
  assert.equal(first?.part, 'event');
});

test('a recording is compared with the journal of its session', async () => {
  await using served = await testHost({ tools: [echo] });
  await using agent = await connect(served.host, { capabilities: ['tools'], token: served.token });
  await say('a', 'b')(agent);
  const journal = (await Array.fromAsync(agent.journal())).map(({ data }) => JSON.stringify(data));
  const file = scratchFile('journal.ndjson');
  writeFileSync(file, `${journal.join('\n')}\n`);
  const read = readJournalFile(file);
  assert.ok(read !== undefined);
  assert.deepEqual(diffRecordings(await of(say('a', 'b')), read, all), []);
  assert.equal(diffRecordings(await of(say('a', 'x')), read)[0]?.path, '/arguments/text');
});

test('values that are shown have no secrets', async () => {
  const base = await of(say('one'));
  const other = await of(say('two'));
  const text = JSON.stringify(other.entries).replaceAll('"two"', '"ghp_0123456789abcdefghijklmn"');
  const [first] = diffRecordings(base, { ...other, entries: JSON.parse(text) });
  assert.equal(first?.right_value, '"[redacted:pattern:api_key:1]"');
});
