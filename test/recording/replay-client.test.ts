/**
 * The recorded client against live hosts: the same host, one that replies differently, one that is silent, and other
 * transports.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, test } from 'node:test';
import { tool } from 'handfast';
import { type TestHostOptions, testHost } from 'handfast/testing';
import { addressOf } from '../../src/agent/addresses.ts';
import type { Recording } from '../../src/recording/format.ts';
import { type ReplayClientOptions, replayClient } from '../../src/recording/replay-client.ts';
import { memoryPair } from '../../src/transport/memory.ts';
import { echo, flood, patient } from '../support/tools.ts';
import { cleanUp, recorded } from './recorded.ts';

after(cleanUp);

/** Plays a recording against a fresh host at an address, in memory without one. */
async function play(
  recording: Recording,
  options: TestHostOptions,
  at?: string,
  more: Partial<ReplayClientOptions> = {},
) {
  await using host = await testHost(options);
  const address = at === undefined ? undefined : (await host.listen(at)).address;
  const dial = async () => {
    if (address !== undefined)
      return addressOf(address, { timeoutMs: 10_000, maxMessageBytes: 1024 * 1024 }).dial(undefined);
    const [ours, theirs] = memoryPair();
    host.host.accept(theirs);
    return ours;
  };
  return await replayClient(recording, { dial, token: host.token, most: 10, ...more });
}

const twice = await recorded({ tools: [echo] }, async (agent) => {
  await agent.tools.call('echo', { text: 'one' });
  await Promise.all([agent.tools.call('echo', { n: 1 }), agent.tools.call('echo', { n: 2 })]);
});

for (const at of ['tcp://127.0.0.1:0', 'http://127.0.0.1:0', undefined]) {
  test(`a host that replies as recorded has no divergence (${at ?? 'in memory'})`, async () => {
    const { divergences, live } = await play(twice, { tools: [echo] }, at);
    assert.deepEqual(divergences, []);
    assert.equal(live.entries.filter((entry) => 'from' in entry).length, twice.manifest.messages);
  });
}

test('a host that replies otherwise is found out, with the place and both values', async () => {
  const loud = tool({
    ...echo,
    run: (args: object) => ({ ...args, ...('text' in args && { text: 'ONE' }) }),
  } as typeof echo);
  const { divergences } = await play(twice, { tools: [loud] });
  assert.equal(divergences.length, 1);
  const [{ part, path, left_value: before, right_value: now }] = divergences as [(typeof divergences)[0]];
  assert.deepEqual([part, path, before, now], ['reply', '/data/data/text', '"one"', '"ONE"']);
});

test('a host that fails, and one that never replies, differ too', async () => {
  const failed = await play(twice, { tools: [flood] });
  assert.equal(failed.divergences[0]?.part, 'reply');
  const silent = patient();
  const stuck = tool({ ...silent.tool, name: 'echo' } as typeof echo);
  const { divergences } = await play(twice, { tools: [stuck] }, undefined, { timeoutMs: 300 });
  assert.deepEqual([divergences[0]?.kind, divergences[0]?.part], ['missing', 'reply']);
});

test('ids that the live host gives out are sent in place of the recorded ones', async () => {
  const jobs = () => {
    const known = new Set<string>();
    const start = tool({
      name: 'start',
      description: 'Starts a job',
      input: { type: 'object' },
      run: () => {
        const job = randomUUID();
        known.add(job);
        return { job };
      },
    });
    const look = tool({
      name: 'look',
      description: 'Looks at a job',
      input: { type: 'object', properties: { job: { type: 'string' } }, required: ['job'] },
      run: ({ job }: { job: string }) => ({ known: known.has(job) }),
    });
    return [start, look];
  };
  const recording = await recorded({ tools: jobs() }, async (agent) => {
    const { data } = await agent.tools.call<{ job: string }>('start', {});
    assert.deepEqual((await agent.tools.call('look', { job: data?.job })).data, { known: true });
  });
  assert.deepEqual((await play(recording, { tools: jobs() })).divergences, []);
});

test('a session that was resumed is resumed again, with every event once', async () => {
  const recording = await recorded(
    { tools: [flood] },
    (agent) => Array.fromAsync(agent.tools.call('flood', { count: 200 })),
    { cutAfter: 50 },
  );
  const { divergences, live } = await play(recording, { tools: [flood] }, 'tcp://127.0.0.1:0');
  assert.deepEqual(divergences, []);
  assert.equal(live.entries.filter((entry) => 'event' in entry && entry.event === 'opened').length, 2);
});

test('a secret has to be given, and is sent', async () => {
  const secrets = [{ rule: 'env:KEY', value: 'recorded-secret-1' }];
  const recording = await recorded(
    { tools: [echo] },
    (agent) => agent.tools.call('echo', { text: 'key recorded-secret-1' }),
    { secrets },
  );
  await assert.rejects(play(recording, { tools: [echo] }), { code: 'usage', message: /sends \[redacted:env:KEY:1\]/ });
  const given = { secrets: { '[redacted:env:KEY:1]': 'live-secret-2' } };
  const { divergences, live } = await play(recording, { tools: [echo] }, undefined, given);
  assert.deepEqual(divergences, []);
  assert.match(JSON.stringify(live.entries), /"text":"key live-secret-2"/);
});
