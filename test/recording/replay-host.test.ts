/** The recorded host served to live agents and clients: same calls, other calls, other order, streams, cancels, resume, other transports. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { connect, listen, type StateChange } from 'handfast';
import { ReplayHost, type ReplayOptions } from '../../src/recording/replay-host.ts';
import { echo, flood, patient } from '../support/tools.ts';
import { cleanUp, recorded } from './recorded.ts';

after(cleanUp);

/** Returns a replay and its log. */
function replayOf(recording: Awaited<ReturnType<typeof recorded>>, options: ReplayOptions = {}) {
  const logged: string[] = [];
  const replay = new ReplayHost(recording, { log: (line) => logged.push(line), ...options });
  return { replay, logged };
}

const echoes = await recorded({ tools: [echo, flood] }, async (agent) => {
  await agent.tools.call('echo', { text: 'one' });
  await agent.tools.call('echo', { text: 'two' });
  await agent.tools.call('echo', { text: 'one' });
});

test('a live agent gets what the recorded one got, with ids of its own', async () => {
  const { replay, logged } = replayOf(echoes);
  const agent = await connect(replay, { capabilities: ['tools'], token: 'another token' });
  for (const text of ['one', 'two', 'one']) {
    assert.deepEqual((await agent.tools.call('echo', { text })).data, { text });
  }
  await agent.close();
  await replay.ended;
  assert.deepEqual(replay.report, { matched: 5, misses: 0, missed: [], missing: 0 });
  assert.deepEqual(logged, []);
});

for (const address of ['tcp://127.0.0.1:0', 'http://127.0.0.1:0']) {
  test(`what was recorded over TCP is replayed at ${address}`, async () => {
    const { replay } = replayOf(echoes);
    await using listener = await listen(replay, address);
    const agent = await connect(listener.address, { capabilities: ['tools'] });
    assert.deepEqual((await agent.tools.call('echo', { text: 'two' })).data, { text: 'two' });
    await agent.close();
    await replay.close();
    await listener.close();
  });
}

describe('a call that was not recorded', () => {
  test('is refused with the nearest recording, the place and both values', async () => {
    const { replay, logged } = replayOf(echoes);
    await using agent = await connect(replay, { capabilities: ['tools'] });
    const error = await agent.tools.call('echo', { text: 'three' }).catch((thrown) => thrown);
    assert.equal(error.code, 'recording.not_recorded');
    assert.match(
      error.message,
      /nearest is #4 tool\/call\/req, which differs at \/arguments\/text: recorded "one", received "three"/,
    );
    assert.equal(error.detail.path, '/arguments/text');
    assert.deepEqual(logged, [error.message]);
    assert.deepEqual((await agent.tools.call('echo', { text: 'two' })).data, { text: 'two' }, 'the session continues');
  });

  test('names no secret', async () => {
    const { replay, logged } = replayOf(echoes);
    await using agent = await connect(replay, { capabilities: ['tools'] });
    const text = 'the token is ghp_0123456789abcdefghijklmn';
    const error = await agent.tools.call('echo', { text }).catch((thrown) => thrown);
    assert.ok(!`${error.message}${JSON.stringify(error.detail)}${logged.join()}`.includes('ghp_'));
  });

  test('because it came more often than it was recorded says so', async () => {
    const { replay } = replayOf(echoes);
    await using agent = await connect(replay, { capabilities: ['tools'] });
    await agent.tools.call('echo', { text: 'two' });
    await agent.tools.call('echo', { text: 'one' });
    await agent.tools.call('echo', { text: 'one' });
    const error = await agent.tools.call('echo', { text: 'one' }).catch((thrown) => thrown);
    assert.match(error.message, /once more: its 3 recorded times were used/);
  });

  test('of a type that was not recorded names a type that was', async () => {
    const { replay } = replayOf(echoes);
    await using agent = await connect(replay, { capabilities: ['tools'] });
    const error = await agent.request('tool/list/req', {}).catch((thrown) => thrown);
    assert.match(error.message, /tool\/list\/req is not in the recording; the nearest is #4 tool\/call\/req/);
  });

  test('may be one whose differing field is declared volatile', async () => {
    const { replay } = replayOf(echoes, { volatile: ['/arguments/text'] });
    await using agent = await connect(replay, { capabilities: ['tools'] });
    assert.deepEqual((await agent.tools.call('echo', { text: 'three' })).data, { text: 'one' });
  });

  test('in strict order is one that comes too early', async () => {
    const { replay } = replayOf(echoes, { order: 'strict' });
    await using agent = await connect(replay, { capabilities: ['tools'] });
    await assert.rejects(agent.tools.call('echo', { text: 'two' }), { code: 'recording.not_recorded' });
    await agent.tools.call('echo', { text: 'one' });
    await agent.tools.call('echo', { text: 'two' });
  });
});

test('a handshake that asks for other capabilities is refused', async () => {
  const { replay } = replayOf(echoes);
  await assert.rejects(connect(replay, { capabilities: ['tools', 'memory'] }), {
    code: 'recording.not_recorded',
    message: /differs at \/agent_caps\/1: recorded nothing, received "memory"/,
  });
});

test('a second client finds no recorded connection left', async () => {
  const { replay } = replayOf(echoes);
  await using _first = await connect(replay, { capabilities: ['tools'] });
  await assert.rejects(connect(replay, { capabilities: ['tools'] }), /every recorded connection was played/);
});

test('ten thousand events arrive in order, and parallel calls may come in another order', async () => {
  const recording = await recorded({ tools: [echo, flood] }, async (agent) => {
    await Promise.all([
      Array.fromAsync(agent.tools.call('flood', { count: 10_000 })),
      agent.tools.call('echo', { n: 1 }),
      agent.tools.call('echo', { n: 2 }),
    ]);
  });
  const { replay } = replayOf(recording);
  await using listener = await listen(replay, 'tcp://127.0.0.1:0');
  const agent = await connect(listener.address, { capabilities: ['tools'] });
  const [two, events, one] = await Promise.all([
    agent.tools.call('echo', { n: 2 }),
    Array.fromAsync(agent.tools.call('flood', { count: 10_000 })),
    agent.tools.call('echo', { n: 1 }),
  ]);
  assert.deepEqual([one.data, two.data], [{ n: 1 }, { n: 2 }]);
  assert.deepEqual(
    events.map(({ seq }) => seq),
    Array.from({ length: 10_000 }, (_, seq) => seq),
  );
  await agent.close();
  await listener.close();
  assert.equal(replay.report.misses, 0);
});

test('a cancel in the middle is answered when it comes', async () => {
  const slow = patient();
  const script = async (agent: Awaited<ReturnType<typeof connect<'tools'>>>) => {
    const controller = new AbortController();
    const call = agent.tools.call('patient', { name: 'a' }, { signal: controller.signal });
    const ended = call.then(
      () => 'done',
      (error) => error.code,
    );
    await agent.ping();
    controller.abort();
    assert.equal(await ended, 'cancelled');
    await agent.ping();
  };
  const recording = await recorded({ tools: [slow.tool] }, script);
  const { replay } = replayOf(recording);
  const agent = await connect(replay, { capabilities: ['tools'] });
  await script(agent);
  await agent.close();
  assert.equal(replay.report.misses, 0);
});

test('a lost link and a resumed session are replayed', async () => {
  const script = async (agent: Awaited<ReturnType<typeof connect<'tools'>>>) => {
    const events = await Array.fromAsync(agent.tools.call('flood', { count: 200 }));
    assert.deepEqual(
      events.map(({ seq }) => seq),
      Array.from({ length: 200 }, (_, seq) => seq),
    );
    assert.deepEqual((await agent.tools.call('echo', { n: 9 })).data, { n: 9 });
  };
  const recording = await recorded({ tools: [flood, echo] }, script, { cutAfter: 50 });
  assert.equal(recording.manifest.connections, 2);
  const { replay, logged } = replayOf(recording);
  await using listener = await listen(replay, 'tcp://127.0.0.1:0');
  const states: string[] = [];
  const onState = ({ state }: StateChange) => void states.push(state);
  const agent = await connect(listener.address, { capabilities: ['tools'], onState });
  await script(agent);
  await agent.close();
  await listener.close();
  assert.ok(states.includes('resumed'), states.join());
  assert.deepEqual([replay.report.misses, replay.report.missing, logged], [0, 0, []]);
});

test('a redacted argument stands for one text, everywhere the same, and comes back as what the live client sent', async () => {
  const secrets = [{ rule: 'env:KEY', value: 'recorded-secret-1' }];
  const script = (secret: string) => async (agent: Awaited<ReturnType<typeof connect<'tools'>>>) => {
    const first = await agent.tools.call('echo', { text: `key=${secret}` });
    assert.deepEqual(first.data, { text: `key=${secret}` });
    assert.deepEqual((await agent.tools.call('echo', { text: secret })).data, { text: secret });
  };
  const recording = await recorded({ tools: [echo] }, script('recorded-secret-1'), { secrets });
  assert.ok(!JSON.stringify(recording).includes('recorded-secret-1'));
  const one = await connect(new ReplayHost(recording), { capabilities: ['tools'] });
  await script('quite another one')(one);
  await one.close();
  await using two = await connect(new ReplayHost(recording), { capabilities: ['tools'] });
  await two.tools.call('echo', { text: 'key=first' });
  await assert.rejects(two.tools.call('echo', { text: 'second' }), { code: 'recording.not_recorded' });
});

test('with the pauses of the recording the same arrives', async () => {
  const { replay } = replayOf(echoes, { speed: 'as-recorded' });
  const agent = await connect(replay, { capabilities: ['tools'] });
  assert.deepEqual((await agent.tools.call('echo', { text: 'one' })).data, { text: 'one' });
  await agent.close();
});

test('a client that leaves early is reported with what it did not send', async () => {
  const { replay, logged } = replayOf(echoes);
  const agent = await connect(replay, { capabilities: ['tools'] });
  await agent.close();
  await replay.ended;
  assert.equal(replay.report.missing, 3);
  assert.match(logged[0] ?? '', /left without sending #4 tool\/call\/req, and 2 more/);
});
