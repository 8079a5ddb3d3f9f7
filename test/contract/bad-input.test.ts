/**
 * Bad input over every text transport: exactly the reply that the contract names, the connection usable or closed as
 * written, no other client disturbed, no request executed, and no private data reported.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { connect as netConnect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { DEFAULT_MAX_MESSAGE_BYTES } from '../../src/transport/link.ts';
import { root } from '../rules/scan.ts';
import { SECRET_FAILURE, TOKEN } from '../support/contract-host.ts';
import type { Peer } from '../support/peer.ts';
import { type Message, type RawAgent, rawAgent } from '../support/raw-agent.ts';
import { Site, textTransports } from '../support/sites.ts';
import { type Expected, farewells, fixtures } from './bad-input.ts';

/** Most bytes a connection without a handshake may draw out of a host. */
const MAX_FAREWELL_BYTES = 1024;
/** Longest piece of bad input an answer may hold, in bytes. */
const MAX_ECHOED = 256;

const call = (id: string, tool_name: string, args: object = {}, extra: object = {}): Message => ({
  type: 'tool/call/req',
  id,
  tool_name,
  arguments: args,
  ...extra,
});

function assertError(answer: Message, expected: Expected): void {
  const { code, reason, path, ...fields } = expected;
  assert.equal(answer.type, 'error', JSON.stringify(answer));
  assert.equal(answer.code, code, JSON.stringify(answer));
  if (reason !== undefined) assert.equal(answer.detail.reason, reason, JSON.stringify(answer));
  if (path !== undefined) assert.equal(answer.detail.path, path, JSON.stringify(answer));
  for (const [name, value] of Object.entries(fields))
    assert.equal(answer[name], value, `${name}: ${JSON.stringify(answer)}`);
}

/** Asserts that no private data is in the lines: no stack, no path of this machine, no token. */
function assertDiscreet(lines: readonly string[]): void {
  for (const line of lines) {
    assert.doesNotMatch(line, /\bat \S+ \(|node:internal|\.ts:\d+|\.js:\d+/, 'an answer holds a stack');
    assert.ok(!line.includes(root), 'an answer holds a path of this machine');
    assert.ok(!line.includes(SECRET_FAILURE.slice(-12)), 'an answer holds the message of an error of the host');
    assert.ok(!line.includes(TOKEN), 'an answer holds a token');
  }
}

for (const name of textTransports) {
  describe(`bad input over ${name}`, () => {
    const site = new Site(name);
    /** Sends the fixtures of established sessions, one after the other. */
    let peer: Peer;
    /** Other sessions of the same hosts; undefined if every link has a separate host. */
    const bystanders: RawAgent[] = [];

    before(async () => {
      peer = await site.dial('open');
      const answer = await peer.shake();
      assert.deepEqual([answer.ok, answer.accepted_caps.length], [true, 1]);
      const guarded = await site.dial('guarded');
      assert.equal((await guarded.shake({ auth_token: TOKEN })).ok, true);
      for (const kind of ['open', 'guarded'] as const) {
        const host = site.host(kind);
        if (host === undefined) continue;
        const agent = rawAgent(host);
        await agent.shake({ auth_token: TOKEN });
        bystanders.push(agent);
      }
    });
    after(async () => {
      await site.stop();
    });

    const nobodyElseNoticed = async (): Promise<void> => {
      for (const agent of bystanders) {
        agent.send(call('bystander', 'echo', { text: 'still here' }));
        assert.equal((await agent.next()).data.data.text, 'still here');
      }
      assert.ok(!site.ran.includes('never'), 'something was executed');
    };

    for (const { title, send, expect } of fixtures) {
      test(`is answered, and the session continues: ${title}`, async () => {
        peer.write(typeof send === 'string' ? `${send}\n` : Buffer.concat([send, Buffer.from('\n')]));
        for (const expected of expect ?? []) assertError(await peer.next(), expected);
        if (name === 'http') {
          await peer.acknowledged();
          assert.equal(peer.statuses.at(-1), 200, 'a plain client learns of it on its stream');
        }
        await peer.ping();
        assert.deepEqual(peer.rest, []);
        await nobodyElseNoticed();
      });
    }

    test('a good call works after all of it, and no answer told too much', async () => {
      peer.send(call('good', 'sum', { numbers: [1, 2, 3] }));
      assert.deepEqual((await peer.answer('good')).data.data, { total: 6 });
      assertDiscreet(peer.lines);
    });

    test('F-04, F-09, F-11: what only looks bad is echoed exactly', async () => {
      const odd = {
        text: 'nul \u0000, line \u2028\u2029\u0085, replacement \ufffd, astral \u{1f600}, lone \ud800, ключ',
        constructor: { prototype: { polluted: true } },
        ['__proto__']: { polluted: true },
        type: 'x',
        id: 'y',
        '': 1,
      };
      for (const id of ['12345678901234567890', '"', '\\', '\u2028', '\ud800', '__proto__', '1', 'x'.repeat(5000)]) {
        peer.send(call(id, 'echo', odd));
        const answer = await peer.next();
        assert.equal(answer.req_id, id);
        assert.deepEqual(Object.entries(answer.data.data), Object.entries(odd));
      }
      assert.equal(({} as { polluted?: boolean }).polluted, undefined);
    });

    test('F-07: of two equal keys the last counts, everywhere', async () => {
      peer.write(
        '{"type":"no/such/req","id":"first","tool_name":"fails","type":"tool/call/req","id":"last","tool_name":"echo",' +
          '"arguments":{"text":"first","text":"last"},"arguments":{"text":"one","text":"two"}}\n',
      );
      const answer = await peer.next();
      assert.deepEqual([answer.req_id, answer.data.data], ['last', { text: 'two' }]);
    });

    test('F-11: CRLF ends a line, blank lines are skipped, spaces around a message do not matter', async () => {
      peer.write('\r\n \t \n{"type":"ping","id":"crlf"}\r\n\n  {"type":"ping","id":"spaces"}  \n');
      assert.equal((await peer.answer('crlf')).type, 'pong');
      assert.equal((await peer.answer('spaces')).type, 'pong');
    });

    test('F-28: a bug of a plugin is reported by its correlation id and nothing else', async () => {
      const agent = await site.dial('open');
      await agent.shake({ agent_caps: ['test'] });
      agent.send({ type: 'test/bug/req', id: 'bug' });
      const answer = await agent.answer('bug');
      assertError(answer, { code: 'runtime_error', retryable: false, capability_name: 'test' });
      assert.deepEqual(Object.keys(answer.detail), ['correlation_id']);
      await agent.ping();
      assertDiscreet(agent.lines);
    });

    test('an answer holds little of the input, however much was sent', async () => {
      const much = 'Q'.repeat(20_000);
      const wide = '漢'.repeat(20_000);
      const inputs: Message[] = [much, wide].flatMap((text) => [
        { type: `${text}/req`, id: 'o' },
        { type: `memory/${text}/req`, id: 'o' },
        call('o', text),
        call('o', 'sum', { numbers: [], [text]: 1 }),
        call('o', 'sum', { numbers: [text] }),
        call('o', 'echo', { text: { [text]: text } }),
        call('o', 'echo', {}, { a2e: text }),
        call('o', 'echo', {}, { timeout: text }),
        { type: 'tool/list/req', id: 'o', filter_tags: [{ [text]: 1 }] },
      ]);
      for (const input of inputs) {
        peer.send(input);
        const answer = await peer.answer('o');
        assert.equal(answer.type, 'error');
        const pieces = JSON.stringify(answer).match(/[Q漢]+/g) ?? [];
        const longest = Math.max(0, ...pieces.map((piece) => Buffer.byteLength(piece)));
        assert.ok(longest <= MAX_ECHOED, `${longest} bytes of ${JSON.stringify(input).slice(0, 90)} came back`);
      }
    });

    test('F-31: past max_parallel and the queue a request is refused at once, with the time to retry', async () => {
      const agent = await site.dial('narrow');
      await agent.shake({ extensions: { 'handfast/cancel': {} } });
      for (const id of ['a', 'b', 'c']) agent.send(call(id, 'wait', { ms: 60_000 }, { timeout: 60 }));
      const refused = await agent.next();
      assertError(refused, { code: 'runtime_error', reason: 'over_capacity', req_id: 'c', retryable: true });
      assert.ok(refused.detail.retry_after_ms > 0);
      await agent.ping();
      for (const id of ['b', 'a']) {
        agent.send({ type: 'cancel', id: 'x', req_id: id });
        assertError(await agent.next(), { code: 'runtime_error', reason: 'cancelled', req_id: id });
      }
      agent.send(call('late', 'wait', { ms: 60_000 }, { timeout: 0.05 }));
      const late = await agent.next();
      assertError(late, { code: 'timeout', req_id: 'late', retryable: false });
      assert.equal(late.detail.may_have_run, true);
      await agent.ping();
    });

    test('a cancelled request is answered so, once', async () => {
      const agent = await site.dial('open');
      await agent.shake({ extensions: { 'handfast/cancel': {} } });
      agent.send(call('a', 'wait', { ms: 60_000 }));
      agent.send({ type: 'cancel', id: 'x', req_id: 'a' });
      assertError(await agent.next(), { code: 'runtime_error', reason: 'cancelled', req_id: 'a', retryable: false });
      for (const broken of [{}, { req_id: 5 }, { req_id: '' }]) {
        agent.send({ type: 'cancel', id: 'y', ...broken });
        assertError(await agent.next(), { code: 'schema_violation', path: '/req_id', req_id: 'y' });
      }
      agent.send({ type: 'cancel', id: 'z', req_id: 'nobody' });
      await agent.ping();
      assert.deepEqual(agent.rest, []);
    });

    const answersSeen = new Set<string>();
    for (const { title, send, expect } of farewells(TOKEN)) {
      // A process for each is dear: there, one of each kind of answer.
      const kind = JSON.stringify(expect);
      if (name === 'stdio' && answersSeen.has(kind ?? '')) continue;
      answersSeen.add(kind ?? '');
      test(`before the handshake ends the connection: ${title}`, async () => {
        // Wrong tokens make a host slower with every one; a separate test covers that.
        const guesses = expect !== undefined && 'refused' in expect && expect.refused === 'auth_failed';
        const stranger = await site.dial(guesses ? 'guessed' : 'guarded');
        const behind = [
          call('c', 'mark', { name: 'never' }),
          { type: 'handshake/req', id: 'hs2', agent_caps: ['tools'], auth_token: TOKEN },
          call('d', 'mark', { name: 'never' }),
        ];
        // All in one piece, so that the bytes after the first message have arrived before the host can reply to it.
        stranger.write(
          Buffer.concat([
            Buffer.from(send),
            Buffer.from(`\n${behind.map((each) => JSON.stringify(each)).join('\n')}\n`),
          ]),
        );
        await stranger.closed();
        if (expect === undefined) assert.deepEqual(stranger.messages, []);
        else {
          assert.equal(stranger.messages.length, 1, JSON.stringify(stranger.messages));
          const [answer] = stranger.messages as [Message];
          if ('refused' in expect) {
            assert.deepEqual(
              [answer.type, answer.ok, answer.reason, answer.session_id, answer.accepted_caps],
              ['handshake/resp', false, expect.refused, '', []],
            );
          } else assertError(answer, expect);
        }
        assert.ok(stranger.received <= MAX_FAREWELL_BYTES, `${stranger.received} bytes for nothing`);
        assertDiscreet(stranger.lines);
        await nobodyElseNoticed();
        if (guesses) await site.renew('guessed');
      });
    }

    test('before the handshake of a host without a token a request is not granted, and the handshake still works', async () => {
      const agent = await site.dial('open');
      agent.send(call('early', 'mark', { name: 'never' }));
      assertError(await agent.next(), { code: 'capability_missing', req_id: 'early' });
      agent.write('what?\n');
      assertError(await agent.next(), { code: 'parse_error', req_id: '' });
      if (name === 'http') {
        await agent.acknowledged();
        assert.deepEqual(agent.statuses, [200, 200]);
      }
      await agent.ping();
      assert.equal((await agent.shake()).ok, true);
      agent.send(call('now', 'mark', { name: 'granted' }));
      assert.equal((await agent.answer('now')).data.success, true);
    });

    test('before the handshake pings are checked too', async () => {
      const agent = await site.dial('open');
      agent.send({ type: 'ping', id: 'v', a2e: '2.0' });
      assertError(await agent.next(), { code: 'version_mismatch', req_id: 'v' });
      agent.send({ type: 'ping', id: 5 });
      assertError(await agent.next(), { code: 'invalid_message', req_id: '' });
      agent.send({ type: 'ping', id: 't', ts: 'now' });
      assertError(await agent.next(), { code: 'schema_violation', path: '/ts', req_id: 't' });
      await agent.ping();
    });

    test('F-01: before the handshake of any host a line over 64 KiB ends the connection', async () => {
      const agent = await site.dial('open');
      agent.write(`${'x'.repeat(65 * 1024)}\n${JSON.stringify({ type: 'handshake/req', id: 'hs', agent_caps: [] })}\n`);
      assertError(await agent.next(), { code: 'invalid_message', reason: 'too_large', req_id: '' });
      await agent.closed();
      assert.deepEqual(agent.rest, []);
    });

    test('F-20: capabilities that are unknown, empty, doubled or many', async () => {
      const asked: [string[], unknown[]][] = [
        [[], []],
        [['no such', '__proto__', 'constructor', ''], []],
        [['tools', 'tools', 'tools'], ['tools']],
        [Array.from({ length: 10_000 }, (_, at) => (1_296 + at).toString(36)), []],
      ];
      for (const [agent_caps, granted] of asked) {
        const agent = await site.dial('open');
        const answer = await agent.shake({ agent_caps });
        assert.deepEqual([answer.ok, answer.accepted_caps.map((cap: Message) => cap.capability)], [true, granted]);
        assert.ok(agent.received < 2_048);
        agent.cut();
      }
      const agent = await site.dial('open');
      const answer = await agent.shake({ agent_caps: ['memory', 'proc', 'memory'] });
      assert.deepEqual([answer.ok, answer.reason, answer.accepted_caps.length], [false, 'no_caps', 2]);
      await agent.closed();
    });

    test('replies are ASCII, with any content', async () => {
      peer.send(call('ascii', 'echo', { text: 'größer \u2028 漢 \u{1f600}' }));
      await peer.answer('ascii');
      for (const line of peer.lines) assert.match(line, /^[\x20-\x7e]*$/);
    });

    if (site.isByteStream) {
      test('F-03, F-10: a message in single bytes, and 10,000 messages in odd pieces', async () => {
        const agent = await site.dial('open');
        await agent.shake();
        const text = 'ö漢\u{1f600}'.repeat(20);
        const line = Buffer.from(`${JSON.stringify(call('tiny', 'echo', { text }))}\n`);
        for (const byte of line) agent.write(Buffer.from([byte]));
        assert.equal((await agent.answer('tiny')).data.data.text, text);
        const many = Buffer.from(Array.from({ length: 2_000 }, (_, at) => `{"type":"ping","id":"p${at}"}\n`).join(''));
        for (let at = 0; at < many.length; at += 7) agent.write(many.subarray(at, at + 7));
        await agent.answer('p1999');
        assert.equal(agent.messages.filter(({ type }) => type === 'pong').length, 2_000);
      });
    }

    if (name !== 'stdio') {
      test('logs and audits of all this hold no token, right or nearly right', () => {
        assert.ok(
          site.written.some((line) => line.includes('auth_failed')),
          'nothing was written down',
        );
        // The reason of a bug is there, for the operator only.
        assert.ok(site.written.some((line) => line.includes(SECRET_FAILURE)));
        for (const line of site.written) assert.ok(!line.toLowerCase().includes(TOKEN.slice(0, -1)), line);
      });
    }

    if (site.halfCloses) {
      test('F-12: a last line without a newline is answered, a torn one is refused, and the session is freed', async () => {
        const host = site.host('open');
        for (const [last, type] of [
          [JSON.stringify(call('last', 'echo')), 'tool/call/resp'],
          ['{"type":"tool/call/req","id":"torn', 'error'],
        ] as const) {
          const agent = await site.dial('open');
          const { session_id } = await agent.shake();
          agent.write(last);
          agent.end();
          assert.equal((await agent.next()).type, type);
          await agent.closed();
          for (const session of host?.sessions ?? []) assert.notEqual(session.id, session_id);
        }
      });
    }
  });
}

describe('bytes that are no messages on a socket', () => {
  const site = new Site('tcp');
  after(() => site.stop());

  const handshake = JSON.stringify({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'] });
  for (const [what, first] of Object.entries({
    'an HTTP request with a handshake as its body': `POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n\r\n${handshake}\n`,
    'a GET request': `GET / HTTP/1.1\r\n\r\n${handshake}\n`,
    'a TLS hello': Buffer.concat([Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00]), Buffer.from(`\n${handshake}\n`)]),
    'HTTP/2': `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${handshake}\n`,
  })) {
    test(`F-23: ${what} closes the connection unread`, async () => {
      for (const pieces of [1, 3]) {
        const stranger = await site.dial('open');
        const bytes = Buffer.from(first);
        for (let at = 0; at < pieces; at++) {
          stranger.write(
            bytes.subarray(
              Math.floor((at * 12) / pieces),
              at + 1 === pieces ? undefined : Math.floor(((at + 1) * 12) / pieces),
            ),
          );
        }
        await stranger.closed();
        assert.deepEqual(stranger.messages, []);
      }
      assert.equal(site.host('open')?.health().sessions, 0);
    });
  }
});

describe('the HTTP column of the contract', () => {
  const site = new Site('http');
  let origin = '';
  let port = 0;
  before(async () => {
    const peer = await site.dial('open');
    await peer.shake();
    origin = site.address as string;
    port = Number(new URL(origin).port);
  });
  after(() => site.stop());

  /** Sends one request; returns its status and body. */
  const ask = (
    method: string,
    path: string,
    headers: Record<string, string>,
    body: string | Buffer = '',
  ): Promise<{ status: number; text: string }> =>
    new Promise((resolve, reject) => {
      request(`${origin}${path}`, { method, headers, agent: false }, async (response) => {
        let text = '';
        for await (const chunk of response) text += chunk;
        resolve({ status: response.statusCode ?? 0, text });
      })
        .on('error', reject)
        .end(body);
    });

  const good = JSON.stringify(call('c', 'mark', { name: 'never' }));

  test('no session named is 400, an unknown one 404, and both say nothing of the session or the input', async () => {
    for (const [headers, status] of [
      [{}, 400],
      [{ 'X-Session-Id': '' }, 400],
      [{ 'X-Session-Id': 'f'.repeat(32) }, 404],
      [{ 'X-Session-Id': '__proto__' }, 404],
      [{ 'X-Session-Id': 'Q'.repeat(5_000) }, 404],
    ] as [Record<string, string>, number][]) {
      const answer = await ask('POST', '/send', headers, good);
      assert.equal(answer.status, status);
      assert.doesNotMatch(answer.text, /QQQQ|ffff/);
      assert.ok(answer.text.length < 256);
    }
  });

  test('a foreign Host or Origin is 403 with a body that names it, the same for any request', async () => {
    for (const [headers, named] of [
      [{ Host: 'evil.example' }, '"evil.example"'],
      [{ Host: `127.0.0.1.nip.io:${port}` }, `"127.0.0.1.nip.io:${port}"`],
      [{ Host: `127.0.0.1:${port + 1}` }, `"127.0.0.1:${port + 1}"`],
      [{ Origin: 'https://evil.example' }, '"https://evil.example"'],
      [{ Origin: 'null' }, '"null"'],
      [{ 'Sec-Fetch-Site': 'cross-site' }, 'another site'],
    ] as unknown as [Record<string, string>, string][]) {
      const bodies = new Set<string>();
      for (const [method, path] of [
        ['POST', '/session'],
        ['POST', '/send'],
        ['GET', '/health'],
        ['GET', '/no-such'],
      ] as const) {
        const answer = await ask(method, path, headers, method === 'POST' ? good : '');
        assert.equal(answer.status, 403, `${method} ${path} ${JSON.stringify(headers)}`);
        bodies.add(answer.text);
      }
      assert.equal(bodies.size, 1, 'it does not tell what exists');
      const [body] = [...bodies] as [string];
      assert.ok((JSON.parse(body) as { detail: string }).detail.includes(named), body);
      assert.doesNotMatch(body, /session_id/);
    }
  });

  test('an unknown path is 404, another method 405, a form 415', async () => {
    assert.equal((await ask('GET', '/no-such', {})).status, 404);
    assert.equal((await ask('PUT', '/send', {})).status, 405);
    assert.equal(
      (await ask('POST', '/session', { 'Content-Type': 'application/x-www-form-urlencoded' }, 'a=b')).status,
      415,
    );
  });

  test('a body over the limit is 413 for a client that numbers its bodies, and 200 for a plain one', async () => {
    const long = `{"type":"handshake/req","id":"hs","agent_id":"${'x'.repeat(DEFAULT_MAX_MESSAGE_BYTES)}"}`;
    for (const [numbered, status] of [
      [{ 'X-Send-Sequence': '1' }, 413],
      [{}, 200],
    ] as [Record<string, string>, number][]) {
      const { text } = await ask('POST', '/session', {});
      const headers = { 'X-Session-Id': JSON.parse(text).session_id, ...numbered };
      assert.equal((await ask('POST', '/send', headers, long)).status, status);
    }
  });

  test('a client that numbers its bodies is refused each body without a message, and its session continues', async () => {
    const { text } = await ask('POST', '/session', {});
    let sequence = 0;
    const send = (body: string | Buffer) => {
      sequence += 1;
      const headers = { 'X-Session-Id': JSON.parse(text).session_id, 'X-Send-Sequence': String(sequence) };
      return ask('POST', '/send', headers, body);
    };
    assert.equal((await send('{"type":"handshake/req","id":"hs","agent_caps":[]}')).status, 200);
    for (const { title, send: body, status = 200 } of fixtures) {
      const answer = await send(body);
      assert.equal(answer.status, status, title);
      if (status !== 200) assert.equal((JSON.parse(answer.text) as { ok: boolean }).ok, false, title);
    }
    assert.equal((await send('{"type":"ping","id":"p"}')).status, 200);
  });

  test('what is not HTTP is 400 and closed', async () => {
    const socket = netConnect(port, '127.0.0.1');
    let said = '';
    socket.on('data', (chunk) => {
      said += chunk;
    });
    socket.write(`${good}\n`);
    await new Promise((resolve) => socket.once('close', resolve));
    assert.match(said, /^HTTP\/1\.1 400 /);
  });

  test('none of it was executed', () => assert.deepEqual(site.ran, []));
});
