import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { connect } from '../../src/connect.ts';
import type { Host, HostOptions } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { contractHost } from '../support/contract-host.ts';
import { PATIENCE_MS, type Peer } from '../support/peer.ts';
import type { Message } from '../support/raw-agent.ts';
import { startRelay } from '../support/relay.ts';
import { type Door, doorOf } from '../support/sites.ts';

const RESUME = 'handfast/resume';
/** Returns the handshake that continues a session at a cursor. */
const resume = (session_id: string, cursor: number): Message => ({ extensions: { [RESUME]: { session_id, cursor } } });

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

async function until(done: () => boolean, what: string): Promise<void> {
  const late = performance.now() + PATIENCE_MS;
  while (!done()) {
    assert.ok(performance.now() < late, `waited too long until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

async function served(options: Partial<HostOptions> = {}): Promise<{ host: Host; door: Door; ran: string[] }> {
  const ran: string[] = [];
  const host = await contractHost('open', (name) => ran.push(name), options);
  const door = await doorOf('tcp', host);
  closing.push(
    () => host.close(0),
    () => door.close(),
  );
  return { host, door, ran };
}

const lastCursor = (messages: readonly Message[]): number =>
  messages.reduce((highest, { cursor = 0 }) => Math.max(highest, cursor), 0);

/** Asserts the final form of a call with six events. */
function assertWhole(messages: readonly Message[], where: string): void {
  assert.deepEqual(
    messages.map(({ type, seq }) => seq ?? type),
    [0, 1, 2, 3, 4, 5, 'tool/call/resp'],
    where,
  );
}

describe('F-34: a connection cut anywhere', () => {
  test('at every single byte of what the host says: after resuming, everything was seen once and in order', async () => {
    const { door } = await served();
    const flood = { type: 'tool/call/req', id: 'f', tool_name: 'flood', arguments: { count: 6 }, streaming: true };
    const whole = await door.dial();
    await whole.shake({ extensions: { [RESUME]: {} } });
    const greeting = whole.received;
    whole.send(flood);
    await whole.answer('f');
    const length = whole.received - greeting;
    whole.cut();
    assert.ok(length >= 500, `only ${length} places to cut at`);

    const cutAt = async (bytes: number): Promise<void> => {
      const first = await door.dial();
      const { session_id } = await first.shake({ extensions: { [RESUME]: {} } });
      // Reads no further than that: later output of the host is lost with the connection.
      first.stopAfter(first.received + bytes);
      first.send(flood);
      await first.until(() => first.stopped, 'the cut');
      first.cut();
      const seen = first.messages.slice(1);
      const second = await door.dial();
      const answer = await second.shake(resume(session_id, lastCursor(seen)));
      assert.equal(answer.session_id, session_id);
      assert.equal(answer.extensions[RESUME].resumed, true);
      // Everything except the reply may have arrived already; the reply itself, if it had arrived whole, is not sent a
      // second time.
      if (seen.at(-1)?.type !== 'tool/call/resp') await second.answer('f');
      await second.ping('done');
      const replayed = second.messages.slice(1).filter(({ type }) => type !== 'pong');
      assertWhole([...seen, ...replayed], `cut after ${bytes} bytes`);
      second.cut();
    };
    const AT_ONCE = 16;
    for (let from = 0; from < length; from += AT_ONCE) {
      await Promise.all(Array.from({ length: Math.min(AT_ONCE, length - from) }, (_, at) => cutAt(from + at)));
    }
  });

  test('at random bytes both ways, by a relay, again and again: our agent loses nothing and runs nothing twice', async () => {
    const { door, ran } = await served();
    // The same cuts each time, but at odd places.
    let seed = 7;
    const relay = await startRelay(parseTcpAddress(door.address as string), () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return 700 + (seed % 6_000);
    });
    closing.push(() => relay.close());
    await using agent = await connect(`tcp://127.0.0.1:${relay.port}`, { capabilities: ['tools'], timeoutMs: 30_000 });
    for (let round = 0; round < 10; round++) {
      const keys = Array.from({ length: 20 }, (_, at) => `${round}-${at}`);
      const events: number[] = [];
      const [results] = await Promise.all([
        Promise.all(keys.map((name) => agent.tools.call<{ name: string }>('mark', { name }))),
        (async () => {
          for await (const { seq } of agent.tools.call('flood', { count: 50 })) events.push(seq);
        })(),
      ]);
      assert.deepEqual(
        results.map(({ data }) => data?.name),
        keys,
      );
      assert.deepEqual(
        events,
        Array.from({ length: 50 }, (_, at) => at),
      );
    }
    assert.equal(ran.length, new Set(ran).size, 'something ran twice');
    assert.equal(ran.length, 200);
    assert.ok(relay.cuts > 10, `only ${relay.cuts} cuts`);
  });

  test('with an orderly end instead of a reset: the session is still there', async () => {
    const { door, host } = await served();
    const first = await door.dial();
    const { session_id } = await first.shake({ extensions: { [RESUME]: {} } });
    first.end();
    await first.closed();
    assert.equal(host.health().sessions, 1);
    const second = await door.dial();
    assert.equal((await second.shake(resume(session_id, 0))).session_id, session_id);
    second.send({ type: 'shutdown', id: 's', timeout: 0 });
    await second.closed();
    assert.equal(host.health().sessions, 0);
  });
});

describe('a session that is resumed', () => {
  test('F-29: has the answers that came while no agent was connected, once', async () => {
    const { door, host } = await served();
    const first = await door.dial();
    const { session_id } = await first.shake({ extensions: { [RESUME]: {} } });
    first.send({ type: 'tool/call/req', id: 'w', tool_name: 'wait', arguments: { ms: 60 } });
    await first.ping();
    first.cut();
    await until(() => host.health().running === 0, 'the work is done');
    const second = await door.dial();
    await second.shake(resume(session_id, 0));
    assert.equal((await second.answer('w')).data.data.ms, 60);
    await second.ping();
    assert.deepEqual(second.rest, []);
  });

  test('F-35: from the same cursor twice gets the same twice; from one that was never given out, nothing', async () => {
    const { door } = await served();
    const first = await door.dial();
    const { session_id } = await first.shake({ extensions: { [RESUME]: {} } });
    for (const id of ['a', 'b']) first.send({ type: 'tool/call/req', id, tool_name: 'echo', arguments: {} });
    const { cursor } = await first.answer('a');
    await first.answer('b');
    const seen: unknown[] = [];
    for (let round = 0; round < 3; round++) {
      const peer = await door.dial();
      await peer.shake(resume(session_id, cursor));
      await peer.ping();
      seen.push(peer.messages.filter(({ type }) => type === 'tool/call/resp').map(({ id, req_id }) => [id, req_id]));
    }
    assert.deepEqual(seen[0], seen[1]);
    assert.deepEqual(seen[1], seen[2]);
    assert.deepEqual((seen[0] as unknown[]).length, 1);
    for (const wrong of [cursor + 1_000, -1, 1.5, '1', null]) {
      const peer = await door.dial();
      peer.send({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'], ...resume(session_id, wrong as number) });
      assert.equal((await peer.answer('hs')).code, 'invalid_message', String(wrong));
    }
  });

  test('F-36: by two connections at once, 200 times: one has it in the end, and no answer reaches both', async () => {
    const { door, host } = await served({ journal: memoryJournal() });
    const first = await door.dial();
    const { session_id } = await first.shake({ extensions: { [RESUME]: {} } });
    let holder: Peer = first;
    for (let round = 0; round < 200; round++) {
      const pair = await Promise.all([door.dial(), door.dial()]);
      const id = `r${round}`;
      holder.send({ type: 'tool/call/req', id, tool_name: 'wait', arguments: { ms: 1 } });
      for (const peer of pair) {
        peer.send({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'], ...resume(session_id, 0) });
      }
      const [winner] = [...host.sessions];
      assert.equal(winner?.id, session_id);
      // Two of the three get an error and are closed; the third one answers.
      const all = [holder, ...pair];
      await until(() => all.filter((peer) => peer.over).length === 2, 'two connections are closed');
      const left = all.filter((peer) => !peer.over);
      assert.equal(left.length, 1, `round ${round}: ${left.length} connections hold one session`);
      holder = left[0] as Peer;
      holder.send({ type: 'tool/call/req', id: `${id}-after`, tool_name: 'echo', arguments: { n: round } });
      assert.equal((await holder.answer(`${id}-after`)).data.data.n, round);
      const got = all.filter((peer) => peer.messages.some(({ req_id }) => req_id === `${id}-after`));
      assert.equal(got.length, 1);
    }
  });
});
