/**
 * Random bytes and randomly damaged messages against a host. The seed is printed and can be set as FUZZ_SEED; the
 * duration as FUZZ_SECONDS.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Host } from '../../src/host/host.ts';
import { LineReader } from '../../src/wire/frame.ts';
import { contractHost, TOKEN } from '../support/contract-host.ts';
import type { Peer } from '../support/peer.ts';
import { doorOf } from '../support/sites.ts';

const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31));
const secondsFor = Number(process.env.FUZZ_SECONDS ?? 5) / 4;

/** As long as the right one; no damage makes that of it. */
const WRONG_TOKEN = 'x'.repeat(TOKEN.length);

/** Returns a small, fast generator that is the same everywhere (mulberry32). */
function randomOf(start: number): (below: number) => number {
  let state = start >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}
type Random = ReturnType<typeof randomOf>;
const pick = <T>(random: Random, from: readonly T[]): T => from[random(from.length)] as T;

/** Good messages, and some that are nearly good. `ID` becomes an id that is used once. */
const valid: readonly object[] = [
  { type: 'tool/call/req', id: 'ID', tool_name: 'echo', arguments: { text: 'hello', n: 5 } },
  { type: 'tool/call/req', id: 'ID', tool_name: 'flood', arguments: { count: 3 }, streaming: true, timeout: 5 },
  { type: 'tool/call/req', id: 'ID', tool_name: 'wait', arguments: { ms: 3 }, timeout: 1, correlation_id: 'x' },
  { type: 'tool/call/req', id: 'ID', tool_name: 'sum', arguments: { numbers: [1, 2.5, -3e10] } },
  { type: 'tool/call/req', id: 'ID', tool_name: 'fails', arguments: {}, session_id: '' },
  { type: 'tool/list/req', id: 'ID', query: 'e', filter_tags: ['pure'], include_deferred: true, filter_kind: '' },
  { type: 'handshake/req', id: 'ID', a2e: '1.0', agent_caps: ['tools', 'memory'], auth_token: '', extensions: {} },
  { type: 'cancel', id: 'ID', req_id: 'ID' },
  { type: 'ping', id: 'ID', ts: 1_767_225_600.5 },
  { type: 'memory/store/req', id: 'ID', entries: [{ key: { a: 1 } }] },
  { type: 'journal/follow/req', id: 'ID', after: 0, limit: 5 },
  { type: 'test/bug/req', id: 'ID' },
  { type: 'tool/event', id: 'ID', req_id: 'ID', kind: 'log', data: {}, seq: 0 },
  { type: 'error', id: 'ID', req_id: 'ID', code: 'timeout', detail: { reason: 'x' } },
];

const oddValues: readonly string[] = [
  'null',
  'true',
  '0',
  '-1',
  '1e400',
  '-0',
  '9007199254740993',
  '""',
  '"\\u0000"',
  '"\\ud800"',
  '[]',
  '[[]]',
  '{}',
  '{"__proto__":1}',
  '"__proto__"',
  '"constructor"',
  '"tools"',
  '1.5',
  '"\\u2028"',
  '{"a":{"b":[1,{}]}}',
  '"1.0"',
];
const oddKeys: readonly string[] = [
  '__proto__',
  'constructor',
  'type',
  'id',
  'req_id',
  'arguments',
  'timeout',
  'cursor',
  '',
  'a2e',
];

/** Returns a message with one or several faults, still mostly JSON. */
function damaged(random: Random, text: string): string {
  let result = text;
  for (let round = random(4); round >= 0; round--) {
    const at = random(result.length + 1);
    switch (random(7)) {
      case 0: // Another value for some member.
        result = result.replace(/:("[^"]*"|[\d.]+|\{\}|\[\])/g, (all) =>
          random(4) === 0 ? `:${pick(random, oddValues)}` : all,
        );
        break;
      case 1: // One member more.
        result = result.replace('{', `{"${pick(random, oddKeys)}":${pick(random, oddValues)},`);
        break;
      case 2: // Another name for some member.
        result = result.replace(/"(\w+)":/g, (all) => (random(5) === 0 ? `"${pick(random, oddKeys)}":` : all));
        break;
      case 3:
        result = result.slice(0, at);
        break;
      case 4:
        result = result.slice(0, at) + String.fromCharCode(random(256)) + result.slice(at + random(3));
        break;
      case 5:
        result = result.slice(0, at) + result.slice(random(result.length + 1));
        break;
      default: // Deeper.
        result = result.replace('{', `{"deep":${'['.repeat(random(90))}${']'.repeat(random(90))},`);
    }
  }
  return result.replaceAll('\n', ' ');
}

/** Returns bytes of some length, mostly noise with the characters of JSON in it. */
function noise(random: Random): Buffer {
  const bytes = Buffer.alloc(random(300));
  for (let at = 0; at < bytes.length; at++) {
    bytes[at] = random(3) === 0 ? pick(random, [...Buffer.from('{}[]":,\\\n\r tfn0-.e')]) : random(256);
  }
  return bytes;
}

const unhandled: unknown[] = [];
const note = (error: unknown): void => void unhandled.push(error);
before(() => process.on('unhandledRejection', note));
after(() => process.off('unhandledRejection', note));

/** Asserts that no request has two replies, and that no event follows the reply. */
function assertAnsweredOnce(peer: Peer, where: string): void {
  const answers = new Map<string, number>();
  for (const { type, req_id } of peer.messages) {
    if (typeof req_id !== 'string' || !/^good\d+$/.test(req_id)) continue;
    if (!String(type).endsWith('/event')) answers.set(req_id, (answers.get(req_id) ?? 0) + 1);
    else assert.ok(!answers.has(req_id), `${where}: an event of ${req_id} came behind its answer`);
  }
  for (const [id, count] of answers) assert.equal(count, 1, `${where}: ${id} has ${count} answers`);
}

describe(`a host fed with rubbish (seed ${seed})`, () => {
  const closing: (() => unknown)[] = [];
  after(async () => {
    for (const close of closing.reverse()) await close();
  });

  async function goodCall(host: Host, peer: Peer, id: string): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      const own = `${id}, attempt ${attempt}`;
      peer.send({ type: 'tool/call/req', id: own, tool_name: 'echo', arguments: { text: id } });
      const answer = await peer.answer(own);
      if (answer.detail?.reason === 'over_capacity' && attempt < 500) {
        // The requests sent before still run.
        await new Promise((resolve) => setTimeout(resolve, 5));
        continue;
      }
      assert.equal(answer.data?.data?.text, id, JSON.stringify(answer));
      break;
    }
    assert.ok(host.health().sessions > 0);
  }

  for (const transport of ['memory', 'tcp', 'websocket'] as const) {
    test(`over ${transport}: answers each id at most once, stays up, and a good call works afterwards`, async (t) => {
      const random = randomOf(seed);
      const host = await contractHost('open', () => {}, { limits: { maxParallel: 4, queueLimit: 4 } });
      const door = await doorOf(transport, host);
      closing.push(
        () => host.close(0),
        () => door.close(),
      );
      const until = performance.now() + secondsFor * 1000;
      let sent = 0;
      for (let round = 0; performance.now() < until; round++) {
        const where = `seed ${seed}, round ${round}`;
        const peer = await door.dial();
        await peer.shake({
          agent_caps: ['tools', 'test'],
          extensions: { 'handfast/cancel': {}, 'handfast/journal': {} },
        });
        for (let at = 0; at < 60; at++) {
          sent++;
          // Ids of damaged messages may occur twice. Those of good ones are used once, and no damage turns another id
          // into one of them.
          const good = random(3) === 0;
          const text = JSON.stringify(pick(random, valid)).replaceAll(
            '"ID"',
            `"${good ? `good${sent}` : `d${random(5)}`}"`,
          );
          if (good) peer.send(text);
          else if (transport !== 'memory' && random(4) === 0)
            peer.write(Buffer.concat([noise(random), Buffer.from('\n')]));
          else peer.send(damaged(random, text));
          if (random(20) === 0) await new Promise((resolve) => setImmediate(resolve));
        }
        assert.equal(peer.over, false, `${where}: the host ended an established session`);
        await goodCall(host, peer, `after ${round}`).catch((error) => {
          throw new Error(`${where}: ${error.message}`, { cause: error });
        });
        assertAnsweredOnce(peer, where);
        peer.cut();
      }
      assert.deepEqual(unhandled, [], `seed ${seed}`);
      t.diagnostic(`${sent} messages`);
    });
  }

  test('before the handshake: at most one answer and the end, and the next one is let in', async (t) => {
    const random = randomOf(seed + 1);
    const host = await contractHost('guarded', () => {});
    // A Unix socket, because wrong tokens slow the address of a TCP peer down.
    const door = await doorOf('unix', host);
    closing.push(
      () => host.close(0),
      () => door.close(),
    );
    const until = performance.now() + secondsFor * 1000;
    let links = 0;
    for (; performance.now() < until; links++) {
      const peer = await door.dial();
      const first = pick(random, [
        () => noise(random),
        () => Buffer.from(damaged(random, JSON.stringify(valid[random(valid.length)]))),
        () => Buffer.from(damaged(random, JSON.stringify({ type: 'handshake/req', id: 'h', auth_token: WRONG_TOKEN }))),
      ])();
      peer.write(Buffer.concat([first, Buffer.from('\nrubbish\n')]));
      await peer.closed();
      // Noise may hold several lines, of which some are pings; nothing gets further than one error.
      const refusals = peer.messages.filter(({ type }) => type !== 'pong');
      assert.ok(refusals.length <= 1, `seed ${seed}, link ${links}: ${JSON.stringify(refusals)}`);
      assert.ok(
        peer.messages.every(({ ok }) => ok !== true),
        `seed ${seed}, link ${links}: let in`,
      );
    }
    const good = await door.dial();
    assert.equal((await good.shake({ auth_token: TOKEN })).ok, true);
    assert.deepEqual(unhandled, [], `seed ${seed}`);
    t.diagnostic(`${links} links`);
  });

  test('framing: any bytes in any pieces give the same lines as in one piece', () => {
    const random = randomOf(seed + 2);
    const read = (pieces: Iterable<Buffer>): string[] => {
      const seen: string[] = [];
      const reader = new LineReader(
        { line: (text) => seen.push(`+${text}`), malformed: ({ reason }) => seen.push(`-${reason}`) },
        200,
        false,
        { spend: () => false, renew() {} },
      );
      for (const piece of pieces) reader.push(Buffer.from(piece));
      reader.end();
      return seen;
    };
    for (let round = 0; round < 2_000; round++) {
      const bytes = Buffer.concat(Array.from({ length: 1 + random(4) }, () => noise(random)));
      const pieces: Buffer[] = [];
      for (let at = 0; at < bytes.length; ) {
        const size = 1 + random(random(3) === 0 ? 200 : 5);
        pieces.push(bytes.subarray(at, at + size));
        at += size;
      }
      assert.deepEqual(read(pieces), read([bytes]), `seed ${seed}, round ${round}: ${bytes.toString('hex')}`);
    }
  });
});
