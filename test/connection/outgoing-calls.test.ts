import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { connect } from '../../src/connect.ts';
import { createHost, type Host } from '../../src/host/host.ts';
import { echo, flood, gated, patient } from '../support/tools.ts';

const ends: (() => unknown)[] = [];
after(() => Promise.all(ends.map((end) => end())));

async function agentOf(tools: Parameters<typeof toolsPlugin>[0]['tools'], maxParallel = 4) {
  const host: Host = createHost({ plugins: [toolsPlugin({ tools })], limits: { maxParallel, queueLimit: 0 } });
  await host.start();
  ends.push(() => host.close(0));
  return connect(host, { capabilities: ['tools'] });
}

/** Starts a host of another implementation, which replies to each line with the result of `answer`, in one write. */
async function scriptedHost(answer: (message: Record<string, unknown>, socket: Socket) => object[]) {
  const server = createServer((socket) => {
    let rest = '';
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        const message = JSON.parse(line);
        const replies =
          message.type === 'handshake/req'
            ? [
                {
                  type: 'handshake/resp',
                  id: 'r',
                  req_id: message.id,
                  session_id: 's',
                  ok: true,
                  max_parallel: 8,
                  accepted_caps: [{ capability: 'tools' }],
                },
              ]
            : answer(message, socket);
        socket.write(replies.map((reply) => `${JSON.stringify(reply)}\n`).join(''));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(() => server.close());
  const { port } = server.address() as { port: number };
  const agent = await connect(`tcp://127.0.0.1:${port}`, { capabilities: ['tools'] });
  ends.push(() => agent.close());
  return agent;
}

const reply = (id: unknown, data: unknown) => ({
  type: 'tool/call/resp',
  id: 'x',
  req_id: id,
  data: { success: true, tool_name: 't', duration_ms: 0, data },
});

test('events that arrive in one piece with the answer are all seen, in order, before the call settles', async () => {
  const agent = await scriptedHost(({ id }) => [
    ...Array.from({ length: 100 }, (_, seq) => ({
      type: 'tool/event',
      id: `e${seq}`,
      req_id: id,
      kind: 'log',
      data: { seq },
      seq,
    })),
    reply(id, { done: true }),
  ]);
  const iterated: number[] = [];
  const call = agent.tools.call('t');
  for await (const { seq } of call) iterated.push(seq);
  assert.deepEqual(iterated, [...Array(100).keys()]);
  assert.deepEqual((await call).data, { done: true });

  const called: number[] = [];
  await agent.tools.call('t', {}, { onEvent: ({ seq }) => called.push(seq) });
  assert.deepEqual(called, [...Array(100).keys()]);
});

test('events are asked for when the call is iterated at once or has a listener, and not otherwise', async () => {
  const asked: unknown[] = [];
  const agent = await scriptedHost(({ id, streaming }) => {
    asked.push(streaming);
    return [reply(id, {})];
  });
  await agent.tools.call('t');
  for await (const _event of agent.tools.call('t'));
  await agent.tools.call('t', {}, { onEvent: () => {} });
  await agent.tools.call('t', {}, { streaming: true });
  await agent.tools.call('t', {}, { streaming: false });
  assert.deepEqual(asked, [false, true, true, true, false]);
  const late = agent.tools.call('t');
  await late;
  await assert.rejects(
    async () => {
      for await (const _event of late);
    },
    { code: 'usage' },
  );
});

test('a result that says it failed is the same error as an error message', async () => {
  const agent = await scriptedHost(({ id, tool_name }) =>
    tool_name === 'soft'
      ? [
          {
            type: 'tool/call/resp',
            id: 'x',
            req_id: id,
            data: { success: false, tool_name: 't', error: 'no luck', error_code: 'tool_error', duration_ms: 1 },
          },
        ]
      : [{ type: 'error', id: 'x', req_id: id, code: 'made_up', message: 'odd' }],
  );
  await assert.rejects(agent.tools.call('soft'), { code: 'tool_error', message: 'no luck' });
  await assert.rejects(agent.tools.call('odd'), { code: 'made_up', message: 'odd' });
});

test('an answer of the wrong shape fails its call, replies without a call are dropped, and the link stays', async () => {
  const agent = await scriptedHost(({ id, type, tool_name }) => {
    if (type === 'ping') return [{ type: 'pong', id: 'p', req_id: id, uptime_seconds: 1 }];
    const stray = [
      reply('nobody', {}),
      { type: 'tool/event', req_id: 'nobody', seq: 0 },
      { type: 'future/push', id: 'f', x: 1 },
      7 as never,
      [1] as never,
    ];
    return tool_name === 'odd'
      ? [{ type: 'tool/call/resp', id: 'x', req_id: id, data: 'text' }]
      : [...stray, reply(id, {}), reply(id, { twice: true })];
  });
  await assert.rejects(agent.tools.call('odd'), { code: 'schema_violation' });
  assert.deepEqual((await agent.tools.call('t')).data, {});
  assert.equal((await agent.ping()).uptimeSeconds, 1);
});

test('the own window keeps the host from ever refusing', async () => {
  const gate = gated();
  const agent = await agentOf([gate.tool], 3);
  const calls = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => agent.tools.call('gated', { name }));
  await agent.ping();
  assert.deepEqual(gate.started, ['a', 'b', 'c']);
  for (const name of ['c', 'a', 'b', 'd', 'e', 'f']) gate.open(name);
  assert.deepEqual(await Promise.all(calls).then((all) => all.map(({ data }) => (data as { name: string }).name)), [
    'a',
    'b',
    'c',
    'd',
    'e',
    'f',
  ]);
  assert.deepEqual(gate.started, ['a', 'b', 'c', 'd', 'e', 'f']);
});

test('the caller’s queue has a limit', async () => {
  const gate = gated();
  const host = createHost({ plugins: [toolsPlugin({ tools: [gate.tool] })], limits: { maxParallel: 1 } });
  await host.start();
  ends.push(() => host.close(0));
  const agent = await connect(host, { capabilities: ['tools'], queueLimit: 2 });
  const calls = ['a', 'b', 'c', 'd'].map((name) => agent.tools.call('gated', { name }));
  await assert.rejects(calls[3] as Promise<unknown>, { code: 'over_capacity', retryable: true });
  for (const name of ['a', 'b', 'c']) gate.open(name);
  assert.equal((await Promise.all(calls.slice(0, 3))).length, 3);
});

test('aborting a signal, cancel() and leaving the loop stop the work at the host', async () => {
  const waiting = patient();
  const endless = tool({
    name: 'endless',
    description: 'never stops by itself',
    async run(_args, { emit, signal }) {
      waiting.started.push('endless');
      signal.addEventListener('abort', () => waiting.stopped.push('endless'));
      while (!signal.aborted) {
        await emit('log', {});
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  });
  const agent = await agentOf([waiting.tool, endless]);
  const controller = new AbortController();
  const byReason = agent.tools.call('patient', { name: 'signal' }, { signal: controller.signal });
  const byCall = agent.tools.call('patient', { name: 'call' });
  await agent.ping();
  controller.abort(new Error('enough'));
  byCall.cancel();
  await assert.rejects(
    byReason,
    (error: { code: string; cause: Error }) => error.code === 'cancelled' && error.cause.message === 'enough',
  );
  await assert.rejects(byCall, { code: 'cancelled' });
  await agent.ping();
  assert.deepEqual(waiting.stopped.sort(), ['call:cancelled', 'signal:cancelled']);
  for await (const _event of agent.tools.call('endless')) break;
  await agent.ping();
  assert.ok(waiting.stopped.includes('endless'));
  await assert.rejects(agent.tools.call('patient', {}, { signal: AbortSignal.abort() }), { code: 'cancelled' });
});

test('a call that gets no answer in time rejects with timeout, also while it waits for its turn', async () => {
  const agent = await scriptedHost(() => []);
  const late = { code: 'timeout', retryable: false, detail: { may_have_run: true } };
  await assert.rejects(agent.tools.call('t', {}, { timeoutMs: 40 }), late);
  const safe = { code: 'timeout', retryable: true, detail: {} };
  await assert.rejects(agent.tools.call('t', {}, { timeoutMs: 40, idempotent: true }), safe);
  await assert.rejects(agent.tools.list({}, { timeoutMs: 40 }), safe);
  const calls = Array.from({ length: 10 }, () => agent.tools.call('t', {}, { timeoutMs: 60 }));
  for (const outcome of await Promise.allSettled(calls)) {
    assert.ok(outcome.status === 'rejected');
    assert.equal(outcome.reason.code, 'timeout');
    assert.match(
      outcome.reason.message,
      /got no reply within 60 ms|not sent within 60 ms: the calls before it still run/,
    );
  }
});

test('an unread stream does not stop other calls, and its events are there for a later reader', async () => {
  const agent = await agentOf([flood, echo]);
  const call = agent.tools.call('flood', { count: 5_000 }, { streaming: true });
  assert.deepEqual((await agent.tools.call('echo', { n: 1 })).data, { n: 1 });
  await call;
  let seen = 0;
  for await (const { seq } of call) assert.equal(seq, seen++);
  assert.equal(seen, 5_000);
});

test('requests of any type can be sent; a host without a handler says unknown_type or capability_missing', async () => {
  const agent = await agentOf([echo]);
  const answer = await agent.request('tool/call/req', {
    tool_name: 'echo',
    arguments: { n: 3 },
    id: 'mine',
    type: 'other',
  });
  assert.deepEqual((answer.data as { data: unknown }).data, { n: 3 });
  await assert.rejects(agent.request('memory/init/req'), { code: 'capability_missing', capability: 'memory' });
  await assert.rejects(agent.request('made/up'), { code: 'unknown_type' });
});

test('capabilities that were not granted fail where they are called, with the host’s reason', async () => {
  const host = createHost({ plugins: [] });
  await host.start();
  ends.push(() => host.close(0));
  await assert.rejects(connect(host, { capabilities: ['tools'] }), { code: 'no_caps' });
  const agent = await connect(host);
  assert.equal(Object.hasOwn(agent, 'tools'), false);
  assert.throws(() => (agent as unknown as { tools: unknown }).tools, { code: 'capability_missing' });
});

test('a reply without req_id is that of the only call that waits for its type', async () => {
  const held: unknown[] = [];
  const agent = await scriptedHost(({ id, tool_name }) => {
    if (tool_name === 'alone') return [reply(undefined, { at: 'alone' })];
    held.push(id);
    // With two calls open the first of these belongs to neither, and the one behind the reply of the first to the second.
    return held.length < 2
      ? []
      : [reply(undefined, { at: 'nobody' }), reply(held[0], { at: 'first' }), reply(undefined, { at: 'second' })];
  });
  assert.deepEqual((await agent.tools.call('alone', {})).data, { at: 'alone' });
  const [first, second] = await Promise.all([agent.tools.call('a', {}), agent.tools.call('b', {})]);
  assert.deepEqual([first.data, second.data], [{ at: 'first' }, { at: 'second' }]);
});
