import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sleep } from '../../src/base/sleep.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { connect } from '../../src/connect.ts';
import { createHost, type Host, type HostOptions } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { listenTcp } from '../../src/transport/socket.ts';
import { type Message, rawAgent } from '../support/raw-agent.ts';
import { echo, flood, gated, patient } from '../support/tools.ts';

const hosts: Host[] = [];
after(() => Promise.all(hosts.map((one) => one.close(0))));

async function open(tools: Parameters<typeof toolsPlugin>[0]['tools'], options: Partial<HostOptions> = {}) {
  const host = createHost({ plugins: [toolsPlugin({ tools })], ...options });
  await host.start();
  hosts.push(host);
  const agent = rawAgent(host);
  await agent.shake({ extensions: { 'handfast/cancel': {} } });
  return { host, agent };
}

const call = (id: string, tool_name: string, args: Message = {}, extra: Message = {}) => ({
  type: 'tool/call/req',
  id,
  tool_name,
  arguments: args,
  ...extra,
});

test('requests start in arrival order, max_parallel run at once, the rest waits in order', async () => {
  const gate = gated();
  const { agent, host } = await open([gate.tool], { limits: { maxParallel: 2, queueLimit: 2 } });
  for (const name of ['a', 'b', 'c', 'd', 'e']) agent.send(call(name, 'gated', { name }));
  const refused = await agent.answer('e');
  assert.equal(refused.code, 'runtime_error');
  assert.equal(refused.retryable, true);
  assert.deepEqual(refused.detail, { reason: 'over_capacity', retry_after_ms: 100, max_parallel: 2, queue_limit: 2 });
  assert.deepEqual(gate.started, ['a', 'b']);
  assert.equal(host.health().running, 4);
  agent.send({ type: 'ping', id: 'p' });
  assert.equal((await agent.answer('p')).type, 'pong', 'a full window does not hold pings');
  gate.open('b');
  assert.equal((await agent.answer('b')).data.data.name, 'b');
  assert.deepEqual(gate.started, ['a', 'b', 'c']);
  for (const name of ['a', 'c', 'd']) gate.open(name);
  for (const name of ['a', 'c', 'd']) assert.equal((await agent.answer(name)).data.success, true);
  assert.deepEqual(gate.started, ['a', 'b', 'c', 'd']);
  assert.equal(host.health().running, 0);
});

test('a long queue of handlers that answer at once does not deepen the stack', async () => {
  const gate = gated();
  const { agent } = await open([gate.tool, echo], { limits: { maxParallel: 1, queueLimit: 20_000 } });
  agent.send(call('first', 'gated', { name: 'first' }));
  for (let at = 0; at < 15_000; at++) agent.send(call(`e${at}`, 'echo', { n: at }));
  await agent.shake().catch(() => {});
  gate.open('first');
  assert.equal((await agent.answer('e14999')).data.data.n, 14_999);
});

/** Works for some milliseconds, and waits for nothing. */
const busy = (started: number[]) =>
  tool({
    name: 'busy',
    description: 'Works for some milliseconds.',
    input: { type: 'object', properties: { n: { type: 'number' } } },
    run: ({ n }) => {
      started.push(n as number);
      for (const until = performance.now() + 6; performance.now() < until; );
      return {};
    },
  });

test('queued handlers that return at once start for some milliseconds of each turn, in their order', async () => {
  const gate = gated();
  const started: number[] = [];
  const { agent } = await open([gate.tool, busy(started)], { limits: { maxParallel: 1, queueLimit: 64 } });
  agent.send(call('first', 'gated', { name: 'first' }));
  for (let n = 0; n < 12; n++) agent.send(call(`b${n}`, 'busy', { n }));
  gate.open('first');
  let counted = 0;
  while (started.length < 13) {
    await new Promise(setImmediate);
    assert.ok(started.length - counted <= 4, `${started.length - counted} in one turn`);
    // A request that arrives meanwhile does not overtake them, although the place may be free.
    if (counted === 0 && started.length > 0) agent.send(call('b12', 'busy', { n: 12 }));
    counted = started.length;
  }
  assert.deepEqual(started, [...Array(13).keys()]);
});

test('queued handlers of many sessions share those milliseconds, and the sessions take turns', async () => {
  const gate = gated();
  const started: number[] = [];
  const { host, agent } = await open([gate.tool, busy(started)], { limits: { maxParallel: 1, queueLimit: 64 } });
  const agents = [agent, ...Array.from({ length: 11 }, () => rawAgent(host))];
  await Promise.all(agents.slice(1).map((each) => each.shake()));
  for (const [at, each] of agents.entries()) {
    each.send(call('first', 'gated', { name: `first${at}` }));
    for (let n = 0; n < 4; n++) each.send(call(`b${n}`, 'busy', { n: 10 * at + n }));
  }
  while (gate.started.length < agents.length) await new Promise(setImmediate);
  for (const at of agents.keys()) gate.open(`first${at}`);
  for (let counted = 0; started.length < 48; ) {
    await new Promise(setImmediate);
    assert.ok(started.length - counted <= 4, `${started.length - counted} in one turn`);
    counted = started.length;
  }
  for (const at of agents.keys()) {
    assert.deepEqual(
      started.filter((n) => Math.floor(n / 10) === at),
      [0, 1, 2, 3].map((n) => 10 * at + n),
    );
  }
  assert.ok(
    started.indexOf(110) < started.indexOf(3),
    'every session starts one before the first session starts its last',
  );
});

test('an id that is still in flight is refused, and its first request is answered once', async () => {
  const gate = gated();
  const { agent } = await open([gate.tool]);
  agent.send(call('same', 'gated', { name: 'one' }));
  agent.send(call('same', 'gated', { name: 'two' }));
  assert.equal((await agent.next()).code, 'invalid_message');
  gate.open('one');
  assert.equal((await agent.next()).data.data.name, 'one');
  assert.deepEqual(gate.started, ['one']);
});

test('ids are echoed exactly, for any text', async () => {
  const { agent } = await open([echo]);
  for (const id of [
    '"quoted"',
    'back\\slash',
    'line\nbreak',
    '\u2028',
    'ключ',
    '\ud800',
    '__proto__',
    'x'.repeat(5000),
    '1',
  ]) {
    agent.send(call(id, 'echo'));
    assert.equal((await agent.next()).req_id, id);
  }
});

test('a cancel before, during and after the work leaves exactly one answer and a free slot', async () => {
  const waiting = patient();
  const { agent, host } = await open([waiting.tool, echo], { limits: { maxParallel: 1 } });
  for (let round = 0; round < 50; round++) {
    agent.send(call(`run${round}`, 'patient', { name: `run${round}` }));
    agent.send(call(`queued${round}`, 'patient', { name: `queued${round}` }));
    agent.send({ type: 'cancel', id: `x${round}`, req_id: `queued${round}` });
    agent.send({ type: 'cancel', id: `y${round}`, req_id: `run${round}` });
    agent.send({ type: 'cancel', id: `z${round}`, req_id: `run${round}` });
    for (const id of [`queued${round}`, `run${round}`]) {
      const answer = await agent.answer(id);
      assert.deepEqual([answer.code, answer.detail.reason], ['runtime_error', 'cancelled']);
    }
    agent.send(call(`echo${round}`, 'echo'));
    agent.send({ type: 'cancel', id: `w${round}`, req_id: `echo${round}` });
    assert.equal((await agent.answer(`echo${round}`)).data.success, true);
  }
  assert.deepEqual(
    waiting.started,
    Array.from({ length: 50 }, (_, round) => `run${round}`),
  );
  assert.deepEqual(
    waiting.stopped,
    Array.from({ length: 50 }, (_, round) => `run${round}:cancelled`),
  );
  assert.deepEqual(agent.rest, []);
  assert.deepEqual([host.health().running, host.health().abandoned], [0, 0]);
});

test('a deadline reaches the signal; a handler that ignores it is abandoned with timeout and counted until it settles', async () => {
  const waiting = patient();
  const gate = gated();
  const { agent, host } = await open([waiting.tool, gate.tool]);
  agent.send(call('polite', 'patient', { name: 'polite' }, { timeout: 0.05 }));
  const polite = await agent.answer('polite');
  assert.deepEqual([polite.code, polite.retryable, polite.detail.may_have_run], ['timeout', false, true]);
  assert.deepEqual(waiting.stopped, ['polite:timeout']);

  agent.send(call('deaf', 'gated', { name: 'deaf' }, { timeout: 0.05 }));
  assert.equal((await agent.answer('deaf')).code, 'timeout');
  assert.equal(host.health().abandoned, 1);
  gate.open('deaf');
  agent.send({ type: 'ping', id: 'p' });
  await agent.answer('p');
  assert.equal(host.health().abandoned, 0);
  assert.deepEqual(agent.rest, [], 'the late value is dropped');
});

test('replies and events without a request are dropped and counted, what is handled is not, and the count outlives the session', async () => {
  const { agent, host } = await open([echo]);
  agent.send({ type: 'cancel', id: 'x', req_id: 'nobody' });
  agent.send({ type: 'handshake/req', id: 'again', agent_caps: ['tools'] });
  await agent.answer('again');
  agent.send(call('c', 'echo'));
  await agent.answer('c');
  agent.send({ type: 'ping', id: 'p' });
  await agent.answer('p');
  assert.equal(host.health().dropped_messages, 0);
  for (const type of ['tool/call/resp', 'tool/event', 'env/state/push', 'pong', 'error']) {
    agent.send({ type, id: 'late', req_id: 'nobody', data: {} });
  }
  agent.send({ type: 'ping', id: 'p2' });
  await agent.answer('p2');
  assert.deepEqual(agent.rest, []);
  assert.equal(host.health().dropped_messages, 5);
  agent.send({ type: 'shutdown', id: 's', timeout: 0 });
  await agent.closed();
  assert.deepEqual([host.health().sessions, host.health().dropped_messages], [0, 5]);
});

test('a deadline also runs while a request waits for its turn', async () => {
  const gate = gated();
  const { agent } = await open([gate.tool], { limits: { maxParallel: 1 } });
  agent.send(call('a', 'gated', { name: 'a' }));
  agent.send(call('b', 'gated', { name: 'b' }, { timeout: 0.05 }));
  assert.equal((await agent.answer('b')).code, 'timeout');
  assert.deepEqual(gate.started, ['a']);
});

test('a tool may bound its own time below what its caller allows', async () => {
  const slow = tool({ name: 'slow', description: 'never', maxSeconds: 0.05, run: () => new Promise(() => {}) });
  const { agent } = await open([slow]);
  agent.send(call('c', 'slow', {}, { timeout: 100 }));
  assert.equal((await agent.answer('c')).code, 'timeout');
});

test('events count from 0, come before the answer, and only when asked for', async () => {
  const { agent } = await open([flood]);
  agent.send(call('f', 'flood', { count: 500 }, { streaming: true }));
  for (let seq = 0; seq < 500; seq++) {
    const event = await agent.next();
    assert.deepEqual([event.type, event.req_id, event.seq, event.data.at], ['tool/event', 'f', seq, seq]);
  }
  assert.equal((await agent.next()).type, 'tool/call/resp');
  agent.send(call('quiet', 'flood', { count: 10 }));
  assert.equal((await agent.next()).type, 'tool/call/resp');
});

test('nothing follows the reply, also when the handler still sends', async () => {
  const late = Promise.withResolvers<void>();
  const chatty = tool({
    name: 'chatty',
    description: 'talks on',
    run: (_args, context) => {
      setImmediate(() => {
        context.emit('log', { message: 'too late' });
        late.resolve();
      });
      return { done: true };
    },
  });
  const { agent } = await open([chatty]);
  agent.send(call('c', 'chatty', {}, { streaming: true }));
  assert.equal((await agent.next()).type, 'tool/call/resp');
  await late.promise;
  agent.send({ type: 'ping', id: 'p' });
  assert.equal((await agent.next()).type, 'pong');
});

test('a handler that only emits starves no other call, and ends when its call is cancelled', async () => {
  const ended = Promise.withResolvers<unknown>();
  const endless = tool({
    name: 'endless',
    description: 'never stops by itself',
    async run(_args, context) {
      try {
        for (;;) await context.emit('log', {});
      } catch (reason) {
        ended.resolve(reason);
        throw reason;
      }
    },
  });
  const { agent } = await open([endless]);
  agent.send(call('e', 'endless'));
  agent.send({ type: 'ping', id: 'p' });
  assert.equal((await agent.answer('p')).type, 'pong');
  agent.send({ type: 'cancel', id: 'x', req_id: 'e' });
  assert.equal((await agent.answer('e')).detail.reason, 'cancelled');
  assert.equal(((await ended.promise) as { code: string }).code, 'cancelled');
});

test('anything a handler throws becomes one reply without a stack', async () => {
  const thrown: unknown[] = [new Error('plain'), 'text', null, undefined, { odd: true }];
  const tools = thrown.flatMap((value, at) => [
    tool({
      name: `sync${at}`,
      description: '',
      run: () => {
        throw value;
      },
    }),
    tool({ name: `async${at}`, description: '', run: () => Promise.reject(value) }),
  ]);
  const { agent } = await open([...tools, echo]);
  for (const { name } of tools) {
    agent.send(call(name, name));
    const answer = await agent.answer(name);
    assert.equal(answer.code, 'tool_error', name);
    assert.doesNotMatch(JSON.stringify(answer), /at .*\.ts/);
  }
  agent.send(call('e', 'echo'));
  assert.equal((await agent.answer('e')).data.success, true);
});

test('an answer that JSON cannot carry is an error, and the link stays usable', async () => {
  const unwritable = tool({ name: 'unwritable', description: '', run: () => ({ big: 1n }) });
  const host = createHost({ plugins: [toolsPlugin({ tools: [unwritable] })] });
  await host.start();
  const listener = await listenTcp({ host: '127.0.0.1', port: 0 }, (link) => host.accept(link));
  await using agent = await connect(listener.address, { capabilities: ['tools'] });
  await assert.rejects(agent.tools.call('unwritable'), { code: 'runtime_error' });
  assert.ok((await agent.ping()).roundTripMs >= 0);
  await listener.close();
  await host.close();
});

test('an answer longer than a message may be is the error too_large, not an unreadable line', async () => {
  const big = tool({ name: 'big', description: '', run: () => ({ text: 'x'.repeat(20_000) }) });
  const host = createHost({ plugins: [toolsPlugin({ tools: [big] })], limits: { maxMessageBytes: 16_384 } });
  await host.start();
  const listener = await listenTcp({ host: '127.0.0.1', port: 0, maxMessageBytes: 16_384 }, (link) =>
    host.accept(link),
  );
  await using agent = await connect(listener.address, { capabilities: ['tools'] });
  await assert.rejects(agent.tools.call('big'), { code: 'too_large' });
  assert.ok((await agent.ping()).roundTripMs >= 0);
  await listener.close();
  await host.close();
});

test('shutdown lets running work finish, delivers its answer, refuses what comes after, and ends the link', async () => {
  const gate = gated();
  const { agent, host } = await open([gate.tool, echo]);
  agent.send(call('a', 'gated', { name: 'a' }));
  agent.send({ type: 'shutdown', id: 's', timeout: 60 });
  agent.send(call('late', 'echo'));
  const late = await agent.answer('late');
  assert.deepEqual([late.code, late.detail.reason, late.retryable], ['runtime_error', 'interrupted', true]);
  await sleep(50);
  assert.equal(host.health().sessions, 1, 'the session waits for its work');
  gate.open('a');
  assert.equal((await agent.answer('a')).data.success, true);
  await agent.closed();
  assert.equal(host.health().sessions, 0);
});

test('shutdown stops what is not done in time, and answers it', async () => {
  const waiting = patient();
  const { agent } = await open([waiting.tool]);
  agent.send(call('a', 'patient', { name: 'a' }));
  agent.send({ type: 'shutdown', id: 's', timeout: 0.05 });
  const answer = await agent.answer('a');
  assert.equal(answer.detail.reason, 'interrupted');
  assert.deepEqual(waiting.stopped, ['a:interrupted']);
  await agent.closed();
});

test('a lost link aborts the work of a session that cannot be resumed', async () => {
  const waiting = patient();
  const { agent, host } = await open([waiting.tool], { journal: memoryJournal() });
  agent.send(call('a', 'patient', { name: 'a' }));
  agent.send({ type: 'ping', id: 'p' });
  await agent.answer('p');
  agent.link.destroy('cut');
  while (waiting.stopped.length === 0) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(waiting.stopped, ['a:connection_lost']);
  assert.equal(host.health().sessions, 0);
});

test('an idle session ends with its reason; one in use stays', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let ms = 0;
  t.mock.method(performance, 'now', () => ms);
  const { agent, host } = await open([echo], { limits: { idleTimeoutMs: 120 } });
  const busy = rawAgent(host);
  await busy.shake();
  for (; agent.received.length < 2; ms += 30) {
    assert.ok(ms < 300, 'the idle session stays open');
    busy.send({ type: 'ping', id: 'keep' });
    await busy.answer('keep');
    t.mock.timers.tick(30);
  }
  const told = await agent.next();
  assert.deepEqual([told.type, told.req_id, told.detail.reason], ['error', '', 'session_expired']);
  await agent.closed();
  assert.equal(busy.closedWith, undefined);
  assert.equal(host.health().sessions, 1);
});
