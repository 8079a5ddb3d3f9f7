/**
 * Resume after retention has evicted entries: one gap, then all remaining entries, new ones, and the reply.
 * `reply_lost` is only for calls whose reply was evicted.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { AgentSession } from '../../src/agent/agent.ts';
import { ToolsClient } from '../../src/capabilities/tools/client.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { connect } from '../../src/connect.ts';
import type { Gap, StateChange } from '../../src/connection/reconnect.ts';
import { createHost, type HostOptions } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import type { Link } from '../../src/transport/link.ts';
import { memoryPair } from '../../src/transport/memory.ts';
import { PATIENCE_MS, type Peer } from '../support/peer.ts';
import { type Message, RawAgent } from '../support/raw-agent.ts';
import { doorOf } from '../support/sites.ts';

const RESUME = 'handfast/resume';
/** A message of the stream; a few thousand are more than the sockets of this machine hold. */
const PAD = 'x'.repeat(4096);

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

/**
 * Returns a host with one tool that emits in steps: the number of events that `to` gets, each time it is called, until
 * `to(0)`.
 */
async function streaming(options: Partial<HostOptions>) {
  const steps: PromiseWithResolvers<number>[] = [Promise.withResolvers()];
  const state = { emitted: 0 };
  const stream = tool({
    name: 'stream',
    description: 'Emits on command',
    async run(_args, context) {
      for (;;) {
        const count = await (steps.at(-1) as PromiseWithResolvers<number>).promise;
        if (count === 0) return { emitted: state.emitted };
        steps.push(Promise.withResolvers());
        for (let at = 0; at < count; at++) {
          await context.emit('log', { pad: PAD });
          state.emitted++;
        }
      }
    },
  });
  const host = createHost({ plugins: [toolsPlugin({ tools: [stream] })], ...options });
  await host.start();
  const links: Link[] = [];
  const door = await doorOf('tcp', {
    accept(link) {
      links.push(link);
      host.accept(link);
    },
  });
  closing.push(
    () => host.close(0),
    () => door.close(),
  );
  const emit = (count: number): void => steps.at(-1)?.resolve(count);
  return { host, door, links, state, emit };
}

async function until(done: () => boolean, what: string): Promise<void> {
  const late = performance.now() + PATIENCE_MS;
  while (!done()) {
    assert.ok(performance.now() < late, `waited too long until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

const seqsOf = (messages: readonly Message[]): number[] =>
  messages.filter(({ type }) => type === 'tool/event').map(({ seq }) => seq as number);

test('work that continues during the replay waits for it, so that retention cannot overtake it: one gap, then all', async () => {
  const retention = { maxEntries: 3_000, maxBytes: 1024 * 1024 * 1024 };
  const { host, door, state, emit } = await streaming({ journal: memoryJournal({ retention }) });
  const first = await door.dial();
  const { session_id } = await first.shake({ extensions: { [RESUME]: {} } });
  first.send({ type: 'tool/call/req', id: 's', tool_name: 'stream', arguments: {}, streaming: true, timeout: 300 });
  emit(100);
  await first.until(() => seqsOf(first.messages).length === 100, 'the first events');
  const cursor = first.messages.at(-1)?.cursor as number;
  first.cut();
  const [session] = [...host.sessions];
  await until(() => session?.state === 'detached', 'the host has noticed');
  // No reader is left to wait for: this is more than the journal stores.
  emit(5_000);
  await until(() => state.emitted === 5_100, 'the work continued without a link');

  const second: Peer = await door.dial();
  second.send({
    type: 'handshake/req',
    id: 'hs',
    agent_caps: ['tools'],
    extensions: { [RESUME]: { session_id, cursor } },
  });
  const { gap, running } = (await second.answer('hs')).extensions[RESUME];
  assert.deepEqual(running, ['s']);
  second.carrier.pause?.(true);
  emit(10_000);
  let seen = -1;
  await until(() => {
    const stands = state.emitted === seen;
    seen = state.emitted;
    return stands;
  }, 'the work waits');
  assert.ok(state.emitted < 5_100 + retention.maxEntries, `${state.emitted - 5_100} events were sent meanwhile`);
  second.carrier.pause?.(false);
  await until(() => state.emitted === 15_100, 'the work is done');
  emit(0);
  assert.equal((await second.answer('s')).data.data.emitted, 15_100);
  const seqs = seqsOf(second.messages);
  // The call itself has cursor 1, so event n has cursor n + 2.
  assert.deepEqual([gap.from, gap.to], [cursor + 1, (seqs[0] as number) + 1]);
  assert.deepEqual(
    seqs,
    Array.from({ length: 15_100 - (seqs[0] as number) }, (_, at) => (seqs[0] as number) + at),
  );
});

test('our agent, cut off in the middle of a stream longer than the journal, gets one gap, the rest and the result', async () => {
  const { door, links, emit } = await streaming({ journal: memoryJournal({ retention: { maxEntries: 500 } }) });
  const changes: StateChange[] = [];
  const ofSession: Gap[] = [];
  const ofCall: Gap[] = [];
  const agent = await connect(door.address as string, {
    capabilities: ['tools'],
    onState: (change) => changes.push(change),
    onGap: (gap) => ofSession.push(gap),
  });
  const seqs: number[] = [];
  const items: unknown[] = [];
  const call = agent.tools.call(
    'stream',
    {},
    {
      timeoutMs: 300_000,
      onEvent({ kind, seq, data }) {
        if (kind === 'gap') return void items.push(data);
        seqs.push(seq);
        if (seqs.length === 1_000) links[0]?.destroy('cut');
      },
      onGap: (gap) => ofCall.push(gap),
    },
  );
  emit(20_000);
  const [result] = await Promise.all([call, until(() => seqs.at(-1) === 19_999, 'the last event').then(() => emit(0))]);
  assert.deepEqual(result.data, { emitted: 20_000 });
  assert.deepEqual(
    seqs,
    [...seqs].sort((a, b) => a - b),
  );
  // The missing numbers are the reported ones: in the stream, by the callback, and afterwards.
  const told = call.gaps.flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, at) => from + at));
  assert.deepEqual(
    [...seqs, ...told].sort((a, b) => a - b),
    Array.from({ length: 20_000 }, (_, seq) => seq),
  );
  assert.ok(call.gaps.length <= 1, `${call.gaps.length} gaps`);
  assert.deepEqual([items, ofCall], [call.gaps, call.gaps]);
  assert.deepEqual(
    changes.map(({ state }) => state),
    ['open', 'lost', 'resumed'],
  );
  const resumed = changes.at(-1);
  assert.deepEqual(resumed?.state === 'resumed' && resumed.gap ? [resumed.gap] : [], ofSession);
  assert.equal(ofSession.length, call.gaps.length);
  await agent.close();
});

/** Returns an agent whose host is the test: each dial is a new link, taken by `next`. */
async function scripted() {
  const dialled: RawAgent[] = [];
  const agent = AgentSession.open(
    async () => {
      const [ours, theirs] = memoryPair();
      dialled.push(new RawAgent(ours));
      return theirs;
    },
    ['tools'],
    { agentId: 'scripted' },
  );
  let taken = 0;
  const next = async (resume: Message): Promise<RawAgent> => {
    await until(() => dialled.length > taken, 'the agent dials');
    const host = dialled[taken++] as RawAgent;
    const { id } = await host.next();
    host.send({
      type: 'handshake/resp',
      id: 'h',
      req_id: id,
      session_id: 'one',
      accepted_caps: [{ capability: 'tools', enabled: true, metadata: {} }],
      max_parallel: 4,
      ok: true,
      reason: '',
      extensions: { [RESUME]: { window_ms: 10_000, ...resume } },
    });
    return host;
  };
  const first = await next({});
  return { agent: await agent, first, next };
}

test('a call the host had not read before the cut is sent again and not taken for one whose reply is lost', async () => {
  const { agent, first, next } = await scripted();
  const call = agent.request('tool/call/req', { tool_name: 'late' });
  await first.next();
  first.link.destroy('cut');
  const second = await next({ resumed: true, cursor: 9, received: 0, gap: { from: 1, to: 5 }, running: [] });
  const again = await second.next();
  assert.equal(again.id, call.id);
  const ping = await second.next();
  assert.equal(ping.type, 'ping');
  second.send({ type: 'pong', id: 'p', req_id: ping.id });
  second.send({ type: 'tool/call/resp', id: 'r', req_id: call.id, data: { late: true } });
  assert.deepEqual((await call).data, { late: true });
  await agent.close();
});

test('a removed reply is reported as reply_lost, also when the link that reported the gap is lost before', async () => {
  const { agent, first, next } = await scripted();
  const call = agent.request('tool/call/req', { tool_name: 'gone' });
  const running = agent.request('tool/call/req', { tool_name: 'running' });
  await first.next();
  await first.next();
  first.link.destroy('cut');
  const resume = { resumed: true, cursor: 9, received: 2 };
  const second = await next({ ...resume, gap: { from: 1, to: 5 }, running: [running.id] });
  assert.equal((await second.next()).type, 'ping');
  second.link.destroy('cut');
  // The agent's last seen entries are after the gap, so the host reports none.
  const third = await next(resume);
  const ping = await third.next();
  assert.equal(ping.type, 'ping');
  third.send({ type: 'pong', id: 'p', req_id: ping.id });
  await assert.rejects(call, { code: 'reply_lost' });
  third.send({ type: 'tool/call/resp', id: 'r', req_id: running.id, data: {} });
  await running;
  await agent.close();
});

const event = (call: string, seq: number) => ({
  type: 'tool/event',
  id: `e${seq}`,
  req_id: call,
  kind: 'log',
  data: { seq },
  seq,
});

test('F-106: events that retention took are an item of the iteration at their place; a call that missed none has no gap', async () => {
  const { agent, first, next } = await scripted();
  const call = new ToolsClient(agent).call('stream', {}, { timeoutMs: 60_000 });
  const whole = new ToolsClient(agent).call('stream', {}, { timeoutMs: 60_000 });
  const items: unknown[] = [];
  const reading = (async () => {
    for await (const { kind, data } of call) items.push(kind === 'gap' ? data : data.seq);
  })();
  const numbers: unknown[] = [];
  const readingWhole = (async () => {
    for await (const { kind, data } of whole) numbers.push(kind === 'gap' ? data : data.seq);
  })();
  await first.next();
  await first.next();
  for (const seq of [0, 1]) first.send(event(call.id, seq));
  first.send(event(whole.id, 0));
  await until(() => items.length === 2 && numbers.length === 1, 'the first events');
  first.link.destroy('cut');
  const resume = { resumed: true, cursor: 20, received: 2, running: [call.id, whole.id] };
  const second = await next({ ...resume, gap: { from: 4, to: 13 } });
  for (const seq of [7, 8]) second.send(event(call.id, seq));
  second.send(event(whole.id, 1));
  const answer = { success: true, tool_name: 'stream', duration_ms: 0, data: {} };
  for (const { id } of [call, whole]) second.send({ type: 'tool/call/resp', id: 'r', req_id: id, data: answer });
  await Promise.all([reading, readingWhole]);
  assert.deepEqual(items, [0, 1, { from: 2, to: 6 }, 7, 8]);
  assert.deepEqual(call.gaps, [{ from: 2, to: 6 }]);
  assert.deepEqual([numbers, whole.gaps], [[0, 1], []]);
  await agent.close();
});

test('when the reply follows the gap, the gap ends with the highest number that can be missing', async () => {
  const { agent, first, next } = await scripted();
  const gaps: Gap[] = [];
  const call = new ToolsClient(agent).call(
    'stream',
    {},
    { timeoutMs: 60_000, streaming: true, onGap: (gap) => gaps.push(gap) },
  );
  await first.next();
  for (const seq of [0, 1]) first.send(event(call.id, seq));
  await new Promise(setImmediate);
  first.link.destroy('cut');
  const second = await next({ resumed: true, cursor: 9, received: 1, running: [call.id], gap: { from: 4, to: 6 } });
  const answer = { success: true, tool_name: 'stream', duration_ms: 0, data: {} };
  second.send({ type: 'tool/call/resp', id: 'r', req_id: call.id, data: answer });
  await call;
  assert.deepEqual(call.gaps, [{ from: 2, to: 4 }]);
  assert.deepEqual(gaps, call.gaps);
  await agent.close();
});

test('reading a journal tells what retention took in gaps, too', async () => {
  const { door, emit, state } = await streaming({ journal: memoryJournal({ retention: { maxEntries: 50 } }) });
  const agent = await connect(door.address as string, { capabilities: ['tools'] });
  const call = agent.tools.call('stream', {}, { timeoutMs: 60_000, streaming: true });
  emit(200);
  await until(() => state.emitted === 200, 'the events');
  emit(0);
  await call;
  const gaps: Gap[] = [];
  const items: Record<string, unknown>[] = [];
  const reading = agent.journal('', {}, { onEvent: ({ data }) => items.push(data), onGap: (gap) => gaps.push(gap) });
  await reading;
  const [first] = items;
  assert.equal(first?.kind, 'gap');
  assert.deepEqual(reading.gaps, [{ from: first?.from, to: first?.to }]);
  assert.deepEqual(gaps, reading.gaps);
  await agent.close();
});
