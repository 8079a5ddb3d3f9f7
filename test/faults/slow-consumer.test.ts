import assert from 'node:assert/strict';
import { connect as netConnect } from 'node:net';
import { after, describe, test } from 'node:test';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { createHost } from '../../src/host/host.ts';
import type { HostLimits } from '../../src/host/host-limits.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import type { Link } from '../../src/transport/link.ts';
import { parseUnixAddress } from '../../src/transport/socket.ts';
import { PATIENCE_MS, type Peer } from '../support/peer.ts';
import { type Message, rawAgent } from '../support/raw-agent.ts';
import { type Door, doorOf } from '../support/sites.ts';
import { echo } from '../support/tools.ts';

const RESUME = 'handfast/resume';
/** Approximate size of one event; with its envelope, less than twice that. */
const EVENT_BYTES = 4 * 1024;
/** Sockets of this machine take some megabytes before the host notices that its output is not read. */
const EVENTS = 10_000;
/** One message that takes a slow reader a while. */
const LARGE_BYTES = 16 * 1024 * 1024;

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

async function until(done: () => boolean, what: string): Promise<void> {
  const late = performance.now() + PATIENCE_MS;
  while (!done()) {
    assert.ok(performance.now() < late, `waited too long until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Starts a host whose tool floods; returns it with the links it accepted. */
async function floodedHost(limits: Partial<HostLimits>) {
  const progress = { emitted: 0, most: 0, failed: '' };
  const links: Link[] = [];
  const pad = 'x'.repeat(EVENT_BYTES);
  const torrent = tool({
    name: 'torrent',
    description: 'Sends events as fast as they are taken',
    async run(_args, context) {
      for (let at = 0; at < EVENTS; at++) {
        await context.emit('log', { at, pad });
        progress.emitted = at + 1;
        progress.most = Math.max(progress.most, links[0]?.buffered ?? 0);
      }
      return { sent: EVENTS };
    },
  });
  const careless = tool({
    name: 'careless',
    description: 'Sends events without waiting for anybody',
    run(_args, context) {
      for (let at = 0; at < EVENTS; at++) {
        void context.emit('log', { at, pad });
        progress.most = Math.max(progress.most, links[0]?.buffered ?? 0);
      }
      return { sent: EVENTS };
    },
  });
  const large = tool({
    name: 'large',
    description: 'Answers with a long text',
    run: () => 'x'.repeat(LARGE_BYTES),
  });
  const host = createHost({
    plugins: [toolsPlugin({ tools: [torrent, careless, large, echo] })],
    journal: memoryJournal({ retention: { maxEntries: 100_000, maxBytes: 256 * 1024 * 1024 } }),
    limits: { maxMessageBytes: 1024 * 1024, ...limits },
  });
  await host.start();
  closing.push(() => host.close(0));
  const watched = {
    accept(link: Link): void {
      links.push(link);
      host.accept(link);
    },
  };
  return { host, watched, progress, links };
}

/** Returns the cursor of the last message that arrived whole. */
const cursorOf = (peer: Peer): number => Math.max(0, ...peer.messages.map(({ cursor = 0 }) => cursor));

/** Asserts every message of the call in order, once: events 0 to the last, then the reply. */
function assertWhole(messages: readonly Message[]): void {
  const events = messages.filter(({ type }) => type === 'tool/event');
  assert.deepEqual(
    events.map(({ seq }) => seq),
    Array.from({ length: EVENTS }, (_, at) => at),
  );
  assert.equal(messages.at(-1)?.type, 'tool/call/resp');
}

describe('F-30: a reader that stops', () => {
  for (const transport of ['tcp', 'unix', 'http'] as const) {
    test(`over ${transport}: the producer waits within bounds, others are served, and nothing is lost`, async () => {
      const { host, watched, progress } = await floodedHost({});
      const door = await doorOf(transport, watched);
      closing.push(() => door.close());
      const peer = await door.dial();
      await peer.shake();
      peer.send({ type: 'tool/call/req', id: 'f', tool_name: 'torrent', arguments: {}, streaming: true, timeout: 60 });
      await peer.next();
      peer.carrier.pause?.(true);

      let seen = -1;
      await until(() => {
        const stands = progress.emitted === seen;
        seen = progress.emitted;
        return stands;
      }, 'the producer stands still');
      assert.ok(progress.emitted < EVENTS, 'the producer did not wait');
      assert.ok(progress.most <= host.limits.sendBufferBytes, `${progress.most} bytes waited`);
      for (const neighbour of [await door.dial(), await door.dial()]) {
        await neighbour.shake();
        neighbour.send({ type: 'tool/call/req', id: 'c', tool_name: 'echo', arguments: { n: 1 } });
        assert.equal((await neighbour.answer('c')).data.data.n, 1);
        await neighbour.ping();
      }

      peer.carrier.pause?.(false);
      await peer.until(
        () => peer.messages.at(-1)?.req_id === 'f' && peer.messages.at(-1)?.type !== 'tool/event',
        'the answer',
      );
      assertWhole(peer.messages.slice(1));
      assert.ok(progress.most <= host.limits.sendBufferBytes);
    });
  }

  test('for longer than its grace loses its link but not its session, and resumes where it was', async () => {
    const { host, watched, progress, links } = await floodedHost({ sendBufferBytes: 128 * 1024, slowConsumerMs: 200 });
    const door = await doorOf('tcp', watched);
    closing.push(() => door.close());
    const first = await door.dial();
    const { session_id } = await first.shake({ extensions: { [RESUME]: {} } });
    first.send({ type: 'tool/call/req', id: 'f', tool_name: 'torrent', arguments: {}, streaming: true, timeout: 60 });
    await first.next();
    first.carrier.pause?.(true);
    const [session] = [...host.sessions];
    await until(() => session?.state === 'detached', 'the link is dropped');
    assert.equal(links.length, 1);
    assert.ok(progress.most < 2 * 256 * 1024, `${progress.most} bytes waited`);
    // No reader is left to wait for: the work continues into the journal.
    await until(() => progress.emitted === EVENTS, 'the work is done');
    first.carrier.pause?.(false);
    await first.closed();

    const messages = first.messages.slice(1);
    await resumeToTheEnd(door, session_id, messages);
  });

  for (const transport of ['tcp', 'unix', 'websocket', 'http'] as const) {
    test(`over ${transport}: that takes nothing at all loses its link, however little waits, and resumes where it was`, async () => {
      const { host, watched, progress, links } = await floodedHost({ writeStallMs: 200 });
      const door = await doorOf(transport, watched);
      closing.push(() => door.close());
      const first = await door.dial();
      const { session_id } = await first.shake({ extensions: { [RESUME]: {} } });
      first.send({ type: 'tool/call/req', id: 'f', tool_name: 'torrent', arguments: {}, streaming: true, timeout: 60 });
      await first.next();
      first.carrier.pause?.(true);
      const [session] = [...host.sessions];
      await until(() => session?.state === 'detached', 'the link is dropped');
      assert.equal(links.length, 1);
      // The handler waited for its reader all the time, so the other bound was never near.
      assert.ok(progress.most < 2 * 256 * 1024, `${progress.most} bytes waited`);
      await until(() => progress.emitted === EVENTS, 'the work is done');
      first.carrier.pause?.(false);
      await first.closed();
      await resumeToTheEnd(door, session_id, first.messages.slice(1));
    });
  }

  test('over unix: that is slow but takes some all the time keeps its link, also within one long message', async () => {
    const limits = { writeStallMs: 400, maxMessageBytes: 2 * LARGE_BYTES, sendBufferBytes: 2 * LARGE_BYTES };
    const { watched, links } = await floodedHost(limits);
    const door = await doorOf('unix', watched);
    closing.push(() => door.close());
    const socket = netConnect(parseUnixAddress(door.address as string));
    closing.push(() => socket.destroy());
    let lines = 0;
    let bytes = 0;
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      lines += chunk.filter((byte) => byte === 0x0a).length;
      // At most 64 KiB at a time.
      socket.pause();
      setTimeout(() => socket.resume(), 5);
    });
    const started = performance.now();
    const greeting = { type: 'handshake/req', id: 'hs', agent_caps: ['tools'] };
    const call = { type: 'tool/call/req', id: 'l', tool_name: 'large', arguments: {} };
    socket.write(`${JSON.stringify(greeting)}\n${JSON.stringify(call)}\n`);
    await until(() => lines === 2 || socket.destroyed, 'the answer');
    assert.equal(lines, 2, `cut off after ${bytes} bytes`);
    assert.ok(bytes > LARGE_BYTES);
    assert.ok(performance.now() - started > 2 * limits.writeStallMs, 'the reader was not slow');
    assert.equal(links.length, 1);
  });

  test('with a stall limit of 0 is waited for', async () => {
    const { host, watched, progress } = await floodedHost({ writeStallMs: 0 });
    const door = await doorOf('tcp', watched);
    closing.push(() => door.close());
    const peer = await door.dial();
    await peer.shake({ extensions: { [RESUME]: {} } });
    peer.send({ type: 'tool/call/req', id: 'f', tool_name: 'torrent', arguments: {}, streaming: true, timeout: 60 });
    await peer.next();
    peer.carrier.pause?.(true);
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.equal([...host.sessions][0]?.state, 'open');
    assert.ok(progress.emitted < EVENTS);
    peer.carrier.pause?.(false);
    await peer.until(() => peer.messages.at(-1)?.type === 'tool/call/resp', 'the answer');
    assertWhole(peer.messages.slice(1));
  });
});

const cursorOfAll = (messages: readonly Message[]): number => Math.max(0, ...messages.map(({ cursor = 0 }) => cursor));

/** Resumes until the reply has arrived, and asserts that no message is missing after those in `messages`. */
async function resumeToTheEnd(door: Door, session_id: string, messages: Message[]): Promise<void> {
  let resumed = await door.dial();
  // The peer may be too slow again while it catches up.
  for (let round = 0; round < 20; round++) {
    const answer = await resumed.shake({ extensions: { [RESUME]: { session_id, cursor: cursorOfAll(messages) } } });
    assert.equal(answer.session_id, session_id);
    await resumed.until(() => resumed.over || resumed.messages.at(-1)?.type === 'tool/call/resp', 'the rest');
    messages.push(...resumed.messages.slice(1));
    if (messages.at(-1)?.type === 'tool/call/resp') break;
    resumed = await door.dial();
  }
  assertWhole(messages);
  await resumed.ping();
}

describe('F-30: a handler that does nothing but emit', () => {
  for (const streaming of [true, false]) {
    test(`${streaming ? 'to a link that is cut' : 'to a caller that wants no events'} lets the news in, and is stopped`, async () => {
      // Some seconds of emitting, in which nothing else would ever happen.
      const MOST = 3_000_000;
      const seen = { emitted: 0, settled: false };
      const talker = tool({
        name: 'talker',
        description: 'Emits and does nothing else',
        async run(_args, { emit, signal }) {
          try {
            for (; seen.emitted < MOST && !signal.aborted; seen.emitted++) await emit('log', { at: seen.emitted });
          } finally {
            seen.settled = true;
          }
          return {};
        },
      });
      const host = createHost({ plugins: [toolsPlugin({ tools: [talker] })] });
      await host.start();
      const door = await doorOf('tcp', host);
      closing.push(
        () => host.close(0),
        () => door.close(),
      );
      const peer = await door.dial();
      await peer.shake();
      peer.send({ type: 'tool/call/req', id: 't', tool_name: 'talker', arguments: {}, streaming });
      await until(() => seen.emitted > 0, 'it has begun');
      peer.cut();
      await until(() => seen.settled, 'it was stopped');
      assert.ok(seen.emitted < MOST, 'no reply could be sent');
      assert.equal(host.health().sessions, 0);
    });
  }
});

describe('F-30: a handler that does not wait', () => {
  for (const transport of ['memory', 'tcp', 'http'] as const) {
    test(`over ${transport}: fails with slow_consumer at the bound, and its session continues`, async () => {
      const { host, watched, progress } = await floodedHost({ sendBufferBytes: 1024 * 1024 });
      const door = await doorOf(transport, watched);
      closing.push(() => door.close());
      const neighbour = rawAgent(host);
      await neighbour.shake();
      const peer = await door.dial();
      await peer.shake();
      peer.send({ type: 'tool/call/req', id: 'f', tool_name: 'careless', arguments: {}, streaming: true });
      const answer = await peer.answer('f');
      assert.deepEqual(
        [answer.type, answer.code, answer.detail, answer.retryable],
        ['error', 'runtime_error', { reason: 'slow_consumer', may_have_run: true }, false],
      );
      assert.ok(progress.most <= host.limits.sendBufferBytes + 2 * EVENT_BYTES, `${progress.most} bytes waited`);
      const events = peer.messages.filter(({ type }) => type === 'tool/event');
      assert.deepEqual(
        events.map(({ seq }) => seq),
        events.map((_, at) => at),
        'what had been sent arrived, in order',
      );
      peer.send({ type: 'tool/call/req', id: 'c', tool_name: 'echo', arguments: { n: 1 } });
      assert.equal((await peer.answer('c')).data.data.n, 1);
      neighbour.send({ type: 'ping', id: 'p' });
      assert.equal((await neighbour.answer('p')).type, 'pong');
      assert.equal(cursorOf(peer), 0);
    });
  }
});
