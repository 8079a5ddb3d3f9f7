import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { type AnyTool, tool } from '../../src/capabilities/tools/tool.ts';
import { connect } from '../../src/connect.ts';
import { originOf } from '../../src/connection/origin.ts';
import { createHost, type HostOptions } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import type { Link } from '../../src/transport/link.ts';
import { fail, HandfastError } from '../../src/wire/errors.ts';
import type { Peer } from '../support/peer.ts';
import { rawAgent } from '../support/raw-agent.ts';
import { doorOf } from '../support/sites.ts';
import { echo, gated } from '../support/tools.ts';

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

/** An unhandled rejection would have ended a real host. */
const unhandled: unknown[] = [];
const note = (error: unknown): void => void unhandled.push(error);
before(() => process.on('unhandledRejection', note));
after(() => {
  process.off('unhandledRejection', note);
  assert.deepEqual(unhandled, []);
});

async function open(tools: AnyTool[], options: Partial<HostOptions> = {}, transport: 'tcp' | 'memory' = 'tcp') {
  const host = createHost({ plugins: [toolsPlugin({ tools: [...tools, echo] })], ...options });
  await host.start();
  const door = await doorOf(transport, host);
  closing.push(
    () => host.close(0),
    () => door.close(),
  );
  return { host, door };
}

const call = (id: string, tool_name: string, extra: object = {}) => ({
  type: 'tool/call/req',
  id,
  tool_name,
  arguments: {},
  ...extra,
});

async function stillServes(peer: Peer): Promise<void> {
  peer.send(call('still', 'echo'));
  assert.equal((await peer.answer('still')).data.success, true);
}

const circle: { self?: unknown } = {};
circle.self = circle;

describe('an error always reaches its caller', () => {
  const details: Record<string, Record<string, unknown>> = {
    'a number JSON has no text for': { big: 1n },
    'a circle': { circle },
    'a value whose toJSON throws': {
      moody: {
        toJSON() {
          throw new Error('no');
        },
      },
    },
    'more than a message may hold': { text: 'x'.repeat(2 * 1024 * 1024) },
  };
  for (const [what, detail] of Object.entries(details)) {
    for (const when of ['at once', 'later'] as const) {
      test(`also with ${what} in its detail, thrown ${when}`, async () => {
        const thrower = tool({
          name: 'thrower',
          description: '',
          run: () => {
            const error = fail('tool_error', 'the reason', detail);
            if (when === 'at once') throw error;
            return Promise.reject(error);
          },
        });
        const { door, host } = await open([thrower]);
        const peer = await door.dial();
        await peer.shake();
        peer.send(call('c', 'thrower'));
        const answer = await peer.answer('c');
        assert.deepEqual([answer.type, answer.code, answer.message], ['error', 'tool_error', 'the reason']);
        await stillServes(peer);
        assert.equal(host.health().running, 0);
      });
    }
  }

  test('also with a message longer than a message may be', async () => {
    const thrower = tool({
      name: 'thrower',
      description: '',
      run: () => {
        throw new HandfastError('my_code', '漢'.repeat(1024 * 1024), { retryable: true });
      },
    });
    const { door } = await open([thrower]);
    const peer = await door.dial();
    await peer.shake();
    peer.send(call('c', 'thrower'));
    const answer = await peer.answer('c');
    assert.deepEqual([answer.code, answer.retryable], ['my_code', true]);
    assert.ok(answer.message.length > 0 && answer.message.length < 5_000);
    await stillServes(peer);
  });
});

describe('what is sent fits the limit of messages as it is on the wire', () => {
  const LIMIT = 64 * 1024;
  const wide = tool({
    name: 'wide',
    description: 'Answers with characters that take six bytes each',
    input: { type: 'object', properties: { characters: { type: 'integer' } } },
    run: ({ characters }: { characters: number }) => ({ text: '漢'.repeat(characters) }),
  });

  test('an answer that only its escapes make too long is the error too_large', async () => {
    const { door } = await open([wide], { limits: { maxMessageBytes: LIMIT } });
    const peer = await door.dial();
    await peer.shake();
    peer.send(call('long', 'wide', { arguments: { characters: LIMIT / 4 } }));
    const refused = await peer.answer('long');
    assert.deepEqual(
      [refused.code, refused.detail.reason, refused.detail.limit],
      ['invalid_message', 'too_large', LIMIT],
    );
    assert.ok(refused.detail.size > LIMIT);
    peer.send(call('short', 'wide', { arguments: { characters: LIMIT / 8 } }));
    assert.equal((await peer.answer('short')).data.data.text.length, LIMIT / 8);
    for (const line of peer.lines) assert.ok(line.length <= LIMIT);
  });

  test('a request of ours that only its escapes make too long is refused before it is sent', async () => {
    const { door } = await open([]);
    await using agent = await connect(door.address as string, { capabilities: ['tools'], maxMessageBytes: LIMIT });
    await assert.rejects(agent.tools.call('echo', { text: '漢'.repeat(LIMIT / 4) }), { code: 'too_large' });
    assert.equal((await agent.tools.call('echo', { text: '漢'.repeat(LIMIT / 8) })).success, true);
  });

  test('an event that is too long or cannot be written fails where it was emitted, and leaves no hole', async () => {
    const seen: unknown[] = [];
    const careful = tool({
      name: 'careful',
      description: '',
      async run(_args, context) {
        for (const data of [{ n: 0 }, { text: 'x'.repeat(2 * LIMIT) }, { big: 1n }, { n: 1 }]) {
          try {
            await context.emit('log', data);
          } catch (error) {
            seen.push((error as HandfastError).code ?? (error as Error).name);
          }
        }
        return {};
      },
    });
    const { door } = await open([careful], { limits: { maxMessageBytes: LIMIT }, journal: memoryJournal() });
    const peer = await door.dial();
    await peer.shake({ extensions: { 'handfast/resume': {} } });
    peer.send(call('c', 'careful', { streaming: true }));
    const [first, second, answer] = [await peer.next(), await peer.next(), await peer.next()];
    assert.deepEqual(seen, ['too_large', 'TypeError']);
    assert.deepEqual([first.seq, first.data.n, second.seq, second.data.n], [0, 0, 1, 1]);
    assert.deepEqual([second.cursor, answer.cursor], [first.cursor + 1, first.cursor + 2]);
  });

  test('progress that was held back and cannot be written is dropped, and its call is answered', async () => {
    const careless = tool({
      name: 'careless',
      description: '',
      async run(_args, context) {
        while (context.emit('log', { pad: 'x'.repeat(8 * 1024) }) === undefined);
        void context.emit('progress', { big: 1n });
        return { done: true };
      },
    });
    const { door } = await open([careless]);
    const peer = await door.dial();
    await peer.shake();
    peer.send(call('c', 'careless', { streaming: true }));
    assert.equal((await peer.answer('c')).data.data.done, true);
    await stillServes(peer);
  });
});

describe('what a host counts', () => {
  test('a handler that outlives its session is counted until it settles', async () => {
    const gate = gated();
    const { host } = await open([gate.tool], {}, 'memory');
    const agent = rawAgent(host);
    await agent.shake();
    agent.send(call('c', 'gated', { arguments: { name: 'deaf' } }));
    agent.send({ type: 'ping', id: 'p' });
    await agent.answer('p');
    agent.link.destroy('cut');
    await agent.closed();
    while (host.health().sessions > 0) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(host.health().abandoned, 1);
    gate.open('deaf');
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(host.health().abandoned, 0);
  });

  test('a shutdown may grant more time than a timer can hold', async () => {
    const gate = gated();
    const { door } = await open([gate.tool]);
    const peer = await door.dial();
    await peer.shake();
    peer.send(call('c', 'gated', { arguments: { name: 'a' } }));
    peer.send({ type: 'shutdown', id: 's', timeout: 10_000_000 });
    peer.send(call('late', 'echo'));
    assert.equal((await peer.next()).req_id, 'late');
    await new Promise((resolve) => setTimeout(resolve, 30));
    gate.open('a');
    assert.equal((await peer.answer('c')).data.success, true);
    await peer.closed();
  });

  test('failures of an address count together, over every kind of link', () => {
    const from = (transport: string, peer: string): string | undefined => originOf({ transport, peer } as Link);
    assert.equal(from('tcp', 'tcp://192.0.2.7:5000'), '192.0.2.7');
    assert.equal(from('websocket', 'ws:192.0.2.7:5001'), '192.0.2.7');
    assert.equal(from('http', '192.0.2.7:5002'), '192.0.2.7');
    assert.equal(from('tcp', 'tcp://[2001:db8:1:2:3:4:5:6]:5000'), '2001:db8:1:2::/64');
    assert.equal(from('websocket', 'ws:2001:db8:1:2:3:4:5:6:5001'), '2001:db8:1:2::/64');
    assert.equal(from('http', '2001:db8:1:2:3:4:5:6:5002'), '2001:db8:1:2::/64');
    assert.equal(from('http', '::1:5002'), from('tcp', 'tcp://[::1]:5000'));
    // All peers of a socket together; the pipes of a child are its parent's.
    assert.equal(from('unix', 'unix:///tmp/x'), 'unix:///tmp/x');
    assert.equal(from('stdio', 'stdio'), undefined);
  });
});
