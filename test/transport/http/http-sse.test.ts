/**
 * The server side of the HTTP + SSE binding, with plain HTTP requests: the guarantees for any client of the binding,
 * refusals, and the fate of messages when streams open and close.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import type { Link } from '../../../src/transport/link.ts';
import { ask, newSession, openStream, serve, until, within } from './http-fixtures.ts';

/** Far above the duration of any of these; only present so that a lost wake-up fails instead of hanging. */
const TIMEOUT = { timeout: 300_000 };
/** A close that is to end in good order has all the time it needs. */
const GRACE_MS = 60_000;
const plain = (session: string) => ({ 'X-Session-Id': session, 'Content-Type': 'text/plain' });

/** Sends bodies to a session as a client that numbers them. */
function numbered(address: string, session: string) {
  let sequence = 0;
  return (body: string | Buffer, headers = {}) => {
    sequence += 1;
    const counted = { ...plain(session), ...headers, 'X-Send-Sequence': String(sequence) };
    return ask(address, 'POST', '/send', counted, body);
  };
}

const detailOf = (body: string) => (JSON.parse(body) as { detail: string }).detail;

describe('the binding as a plain client uses it', TIMEOUT, () => {
  test('session, stream, one message a POST, answers on the stream, and a reconnect that loses and repeats nothing', async (t) => {
    const { listener, peers } = await serve(t, {
      onMessage: (link, text) => link.send(`{"answer":${text}}`),
    });
    const { address } = listener;
    const session = await newSession(address);
    assert.match(session, /^[0-9a-f]{32}$/);

    const first = await openStream(address, session);
    assert.equal(first.response.headers['content-type'], 'text/event-stream; charset=utf-8');
    assert.equal(first.response.headers['cache-control'], 'no-cache');
    assert.equal(first.response.headers['transfer-encoding'], 'chunked');
    const sent = await ask(address, 'POST', '/send', plain(session), '{"n":1}');
    assert.deepEqual([sent.status, sent.body], [200, '{"ok":true}']);
    await first.count(1);
    assert.deepEqual(first.data, ['{"answer":{"n":1}}']);

    first.drop();
    await until(() => peers[0]!.messages.length === 1, 'the server heard the message');
    for (const n of [2, 3])
      assert.equal((await ask(address, 'POST', '/send', plain(session), `{"n":${n}}`)).status, 200);
    const second = await openStream(address, session);
    await second.count(2);
    assert.deepEqual(second.data, ['{"answer":{"n":2}}', '{"answer":{"n":3}}']);
    assert.doesNotMatch(second.text, /^event:/m, 'a reader without ids would take typed events for messages');
  });

  test('messages produced before the first stream wait for it', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    for (let n = 1; n <= 3; n++) peers[0]!.link.send(`{"n":${n}}`);
    assert.equal(peers[0]!.link.buffered, 3 * '{"n":1}'.length);
    const stream = await openStream(listener.address, session);
    await stream.count(3);
    assert.deepEqual(stream.data, ['{"n":1}', '{"n":2}', '{"n":3}']);
    await within(peers[0]!.link.drained(), 'the link to be drained');
    assert.equal(peers[0]!.link.buffered, 0);
  });

  test('a text that holds line breaks, fields of an event, or anything beyond ASCII stays one event', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    const stream = await openStream(listener.address, session);
    const hostile = JSON.stringify({
      text: '\r\ndata: {"forged":true}\r\n\r\n \u2028\u2029\u0085 <img onerror> é😀\ud800',
    });
    peers[0]!.link.send(hostile);
    peers[0]!.link.send('{\r\ndata: "a":\n\nevent: end\n1}');
    peers[0]!.link.send('{}');
    await stream.count(3);
    assert.equal(stream.events.length, 3);
    assert.match(stream.text, /^[\n\x20-\x7e]*$/);
    assert.deepEqual(JSON.parse(stream.data[0]!), JSON.parse(hostile));
    assert.equal(stream.data[2], '{}');
  });

  test('DELETE /session ends the link in good order; the id is unknown afterwards', async (t) => {
    const { listener, peers, endpoint } = await serve(t);
    const session = await newSession(listener.address);
    const stream = await openStream(listener.address, session);
    const { status } = await ask(listener.address, 'DELETE', '/session', { 'X-Session-Id': session });
    assert.equal(status, 200);
    assert.equal((await peers[0]!.over).clean, true);
    await stream.end();
    assert.equal(endpoint.size, 0);
    assert.equal((await ask(listener.address, 'POST', '/send', plain(session), '{}')).status, 404);
  });
});

describe('what is refused', TIMEOUT, () => {
  test('a request without, with an unknown, or with a foreign looking session id reaches no session', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    for (const [method, path] of [
      ['POST', '/send'],
      ['GET', '/stream'],
      ['DELETE', '/session'],
    ] as const) {
      const missing = await ask(listener.address, method, path);
      assert.equal(missing.status, 400, `${method} ${path}`);
      assert.match(detailOf(missing.body), /X-Session-Id/);
      for (const id of ['0'.repeat(32), '__proto__', 'constructor', `${session}, ${session}`, session.toUpperCase()]) {
        const unknown = await ask(listener.address, method, path, { 'X-Session-Id': id });
        assert.equal(unknown.status, 404, `${method} ${path} ${id}`);
        assert.equal(detailOf(unknown.body), 'no such session');
      }
    }
    assert.deepEqual(peers[0]!.messages, []);
    assert.equal(peers[0]!.closures, 0);
  });

  test('a form, a multipart body, an encoded body and an unheard-of type are 415; JSON, NDJSON, text and none are fine', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    const send = (headers: Record<string, string>) =>
      ask(listener.address, 'POST', '/send', { 'X-Session-Id': session, ...headers }, '{}');
    for (const type of [
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'text/html',
      'text/plainx',
    ]) {
      assert.equal((await send({ 'Content-Type': type })).status, 415, type);
      assert.equal((await ask(listener.address, 'POST', '/session', { 'Content-Type': type })).status, 415, type);
    }
    assert.equal((await send({ 'Content-Encoding': 'gzip' })).status, 415);
    assert.equal(peers.length, 1);
    assert.deepEqual(peers[0]!.messages, []);
    for (const type of ['text/plain', 'Text/Plain; charset=utf-8', 'application/json', 'application/x-ndjson']) {
      assert.equal((await send({ 'Content-Type': type })).status, 200, type);
    }
    assert.equal((await send({})).status, 200);
    assert.equal(peers[0]!.messages.length, 5);
  });

  test('a session is asked for without a body or with JSON; anything else is 415, and so is a page that says neither', async (t) => {
    const { listener, peers } = await serve(t);
    const create = async (headers: Record<string, string>, body = '') =>
      (await ask(listener.address, 'POST', '/session', headers, body)).status;
    for (const type of ['text/plain', 'application/x-ndjson', 'application/jsonx', 'multipart/form-data; boundary=x']) {
      assert.equal(await create({ 'Content-Type': type }), 415, type);
    }
    assert.equal(await create({}, '{}'), 415, 'a body that does not say what it is');
    assert.equal(await create({ Origin: listener.address }), 415, 'what a page can send unasked');
    assert.equal(peers.length, 0);
    assert.equal(await create({}), 200);
    assert.equal(await create({ 'Content-Type': 'application/json; charset=utf-8' }, '{}'), 200);
    assert.equal(await create({ 'Content-Type': 'application/json', Origin: listener.address }), 200);
    assert.equal(peers.length, 3);
  });

  test('a message over the limit is 413 for a client that numbers bodies, the receiver is notified, and the session continues', async (t) => {
    const { listener, peers } = await serve(t, { maxMessageBytes: 100_000 });
    const session = await newSession(listener.address);
    const send = numbered(listener.address, session);
    const fits = `{"x":"${'x'.repeat(100_000 - 8)}"}`;
    assert.equal((await send(fits)).status, 200);
    const { status, body } = await send(`${fits} `);
    assert.equal(status, 413);
    assert.equal((JSON.parse(body) as { error: { code: string } }).error.code, 'too_large');
    assert.equal((await send('y'.repeat(3_000_000), { 'Transfer-Encoding': 'chunked' })).status, 413);
    assert.deepEqual(peers[0]!.problems, Array(2).fill({ reason: 'too_large', limit: 100_000 }));
    peers[0]!.link.setMaxMessageBytes(4_000_000);
    assert.equal((await send(`"${'z'.repeat(3_000_000)}"`)).status, 200);
    assert.equal((await send('{"n":1}')).status, 200);
    assert.deepEqual(
      peers[0]!.messages.map((text) => text.length),
      [100_000, 3_000_002, 7],
    );
  });

  test('before the limit is raised a session takes 64 KiB and no more', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    const send = numbered(listener.address, session);
    assert.equal((await send('x'.repeat(65_536))).status, 200);
    assert.equal((await send('x'.repeat(65_537))).status, 413);
    assert.deepEqual(peers[0]!.problems, [{ reason: 'too_large', limit: 65_536 }]);
  });

  test('a body that is not UTF-8 is 400 and reported; among other lines only the bad ones are', async (t) => {
    const { listener, peers } = await serve(t, { maxMessageBytes: 20 });
    const session = await newSession(listener.address);
    const sendBytes = numbered(listener.address, session);
    const send = (...parts: (string | number[])[]) =>
      sendBytes(Buffer.concat(parts.map((part) => Buffer.from(part as string))));
    assert.equal((await send('{"a":"', [0xff], '"}')).status, 400);
    assert.equal(
      (await send('{"a":1}\r\n', [0xed, 0xa0, 0x80], '\n\n \n"', 'x'.repeat(30), '"\n{"b":"é"}')).status,
      200,
    );
    assert.deepEqual(peers[0]!.messages, ['{"a":1}', '{"b":"é"}']);
    assert.deepEqual(
      peers[0]!.problems.map(({ reason }) => reason),
      ['bad_utf8', 'bad_utf8', 'too_large'],
    );
  });

  test('a body in which the receiver finds no message is refused with its reason, one with any message is not', async (t) => {
    const heard: string[] = [];
    const codes: Record<string, string> = { what: 'parse_error', '[]': 'invalid_message', '[[': 'too_large' };
    const { listener } = await serve(t, {
      accept: (link: Link) => {
        t.after(() => link.destroy());
        link.open({
          message(text) {
            heard.push(text as string);
            return codes[text as string];
          },
          malformed: ({ reason }) => void heard.push(reason),
          ended() {},
          closed() {},
        });
      },
    });
    const session = await newSession(listener.address);
    const sendNumbered = numbered(listener.address, session);
    const send = async (body: string | Buffer) => {
      const answer = await sendNumbered(body);
      const { ok, detail, error } = JSON.parse(answer.body);
      if (answer.status !== 200) assert.deepEqual([ok, detail], [false, error.message]);
      return [answer.status, error?.code];
    };
    assert.deepEqual(await send('what'), [400, 'parse_error']);
    assert.deepEqual(await send('[]'), [400, 'invalid_message']);
    assert.deepEqual(await send('[['), [413, 'too_large']);
    // The first reason counts.
    assert.deepEqual(await send('[]\nwhat\n'), [400, 'invalid_message']);
    assert.deepEqual(await send(Buffer.from([0xff, 0x0a, 0x5b, 0x5b])), [400, 'parse_error']);
    assert.deepEqual(await send('what\n{"n":1}\n[]'), [200, undefined]);
    assert.deepEqual(await send('{"n":2}'), [200, undefined]);
    assert.deepEqual(heard, ['what', '[]', '[[', '[]', 'what', 'bad_utf8', '[[', 'what', '{"n":1}', '[]', '{"n":2}']);
  });

  test('a client that does not number its bodies gets 200 for a body without a message: it reads errors on its stream', async (t) => {
    const { listener, peers } = await serve(t, { maxMessageBytes: 100 });
    const session = await newSession(listener.address);
    for (const body of [Buffer.from([0xff]), Buffer.from('x'.repeat(70_000))]) {
      const { status, body: reply } = await ask(listener.address, 'POST', '/send', plain(session), body);
      assert.deepEqual([status, JSON.parse(reply)], [200, { ok: true }]);
    }
    assert.deepEqual(
      peers[0]!.problems.map(({ reason }) => reason),
      ['bad_utf8', 'too_large'],
    );
  });

  test('sessions past the limit, sessions that are not accepted, and sessions of a closing endpoint get no id', async (t) => {
    let refuse = false;
    const { listener, endpoint } = await serve(t, {
      maxSessions: 2,
      accept: (link: Link) => {
        if (refuse) link.destroy('no room');
      },
    });
    const open = [await newSession(listener.address), await newSession(listener.address)];
    const full = await ask(listener.address, 'POST', '/session');
    assert.deepEqual([full.status, full.headers['retry-after']], [429, '5']);
    await ask(listener.address, 'DELETE', '/session', { 'X-Session-Id': open[0]! });
    refuse = true;
    assert.equal((await ask(listener.address, 'POST', '/session')).status, 503);
    assert.equal(endpoint.size, 1);
    const closed = endpoint.close();
    refuse = false;
    assert.equal((await ask(listener.address, 'POST', '/session')).status, 503);
    await ask(listener.address, 'DELETE', '/session', { 'X-Session-Id': open[1]! });
    await within(closed, 'the endpoint to close');
  });
});

describe('backpressure', TIMEOUT, () => {
  test('a paused session holds the answer back and delivers when it continues', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    peers[0]!.link.pause(true);
    let answered = false;
    const held = ask(listener.address, 'POST', '/send', plain(session), '{"n":1}').finally(() => {
      answered = true;
    });
    // A later request on another connection shows that the first one has been handled as far as possible.
    assert.equal((await ask(listener.address, 'GET', '/health')).status, 200);
    assert.deepEqual([answered, peers[0]!.messages], [false, []]);
    peers[0]!.link.pause(false);
    assert.deepEqual(peers[0]!.messages, [], 'nothing is delivered from inside pause()');
    assert.equal((await held).status, 200);
    assert.deepEqual(peers[0]!.messages, ['{"n":1}']);
  });

  test('a body held too long is refused with 429 and was not delivered, so sending it again is right', async (t) => {
    const { listener, peers } = await serve(t, { sendDelayMs: 40 });
    const session = await newSession(listener.address);
    peers[0]!.link.pause(true);
    const { status, headers } = await ask(listener.address, 'POST', '/send', plain(session), '{"n":1}');
    assert.deepEqual([status, headers['retry-after']], [429, '1']);
    peers[0]!.link.pause(false);
    assert.equal((await ask(listener.address, 'POST', '/send', plain(session), '{"n":2}')).status, 200);
    assert.deepEqual(peers[0]!.messages, ['{"n":2}']);
  });

  test('a body whose sender left while it was held is not delivered', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    peers[0]!.link.pause(true);
    const head = `POST /send HTTP/1.1\r\nHost: localhost:${listener.port}\r\nX-Session-Id: ${session}\r\n`;
    const socket = connect(listener.port, '127.0.0.1');
    socket.write(`${head}Content-Length: 3\r\n\r\n"a"`);
    await ask(listener.address, 'GET', '/health');
    socket.destroy();
    // Another connection that was made later shows that the loss of this one has been noticed.
    await ask(listener.address, 'GET', '/health');
    const next = ask(listener.address, 'POST', '/send', plain(session), '"b"');
    await ask(listener.address, 'GET', '/health');
    peers[0]!.link.pause(false);
    assert.equal((await next).status, 200);
    assert.deepEqual(peers[0]!.messages, ['"b"']);
  });

  test('at most eight bodies of a session wait; one more is 429 at once', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    peers[0]!.link.pause(true);
    const waiting = Array.from({ length: 9 }, (_, n) =>
      ask(listener.address, 'POST', '/send', plain(session), `${n}`).then(({ status }) => status),
    );
    assert.equal(await Promise.race(waiting), 429);
    peers[0]!.link.pause(false);
    const statuses = await Promise.all(waiting);
    assert.deepEqual(statuses.sort(), [...Array<number>(8).fill(200), 429]);
    assert.equal(peers[0]!.messages.length, 8);
  });

  test('a pause in the middle of a body stops right there, and the rest follows in order', async (t) => {
    const { listener, peers } = await serve(t, {
      sendDelayMs: 40,
      onMessage: (link, text) => {
        if (text === '2') link.pause(true);
      },
    });
    const session = await newSession(listener.address);
    const { status } = await ask(listener.address, 'POST', '/send', plain(session), '1\n2\n3\n4');
    assert.equal(status, 200, 'what was begun is not refused any more');
    assert.deepEqual(peers[0]!.messages, ['1', '2']);
    peers[0]!.link.pause(false);
    await peers[0]!.count(4);
    assert.deepEqual(peers[0]!.messages, ['1', '2', '3', '4']);
  });

  test('a session that is not read grows until its bound and then closes as slow_consumer', async (t) => {
    const { listener, peers } = await serve(t, { waitingBytes: 10_000 });
    await newSession(listener.address);
    const { link } = peers[0]!;
    const kilobyte = JSON.stringify('x'.repeat(998));
    for (let n = 0; n < 10; n++) link.send(kilobyte);
    assert.equal(link.buffered, 10_000);
    assert.equal(peers[0]!.closures, 0);
    link.send('{}');
    const { clean, reason } = await peers[0]!.over;
    assert.equal(clean, false);
    assert.match(reason, /^slow_consumer/);
    assert.equal(link.buffered, 0);
  });

  test('a stream that is open but not read makes the producer wait, and loses nothing', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    const stream = await openStream(listener.address, session);
    stream.response.pause();
    const { link } = peers[0]!;
    const text = JSON.stringify('x'.repeat(64 * 1024));
    let sent = 0;
    for (; link.buffered < 8 * 1024 * 1024; sent++) link.send(text);
    let drained = false;
    const draining = link.drained(1024 * 1024).then(() => {
      drained = true;
    });
    await ask(listener.address, 'GET', '/health');
    assert.equal(drained, false);
    stream.response.resume();
    await within(draining, 'the link to be drained');
    await stream.count(sent);
    assert.deepEqual(
      stream.events.map(([id]) => id),
      Array.from({ length: sent }, (_, index) => index + 1),
    );
  });
});

describe('numbered bodies', TIMEOUT, () => {
  test('a body sent again is acknowledged and not delivered again; a hole is 409', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    const send = async (sequence: string, body: string) => {
      const headers = { ...plain(session), 'X-Send-Sequence': sequence };
      return (await ask(listener.address, 'POST', '/send', headers, body)).status;
    };
    assert.equal(await send('1', '"a"\n"b"'), 200);
    assert.equal(await send('1', '"a"\n"b"'), 200);
    assert.equal(await send('3', '"d"'), 409);
    assert.equal(await send('2', '"c"'), 200);
    for (const bad of ['0', '-1', '1.5', 'x', '9'.repeat(20)]) assert.equal(await send(bad, '"x"'), 400, bad);
    assert.deepEqual(peers[0]!.messages, ['"a"', '"b"', '"c"']);
  });

  test('a body refused with 429 has not used its number up', async (t) => {
    const { listener, peers } = await serve(t, { sendDelayMs: 40 });
    const session = await newSession(listener.address);
    const headers = { ...plain(session), 'X-Send-Sequence': '1' };
    peers[0]!.link.pause(true);
    assert.equal((await ask(listener.address, 'POST', '/send', headers, '"a"')).status, 429);
    peers[0]!.link.pause(false);
    assert.equal((await ask(listener.address, 'POST', '/send', headers, '"a"')).status, 200);
    assert.deepEqual(peers[0]!.messages, ['"a"']);
  });
});

describe('a reader that says where it stands', TIMEOUT, () => {
  test('gets exactly what it missed, from any id it may have seen', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    for (let n = 1; n <= 5; n++) peers[0]!.link.send(`"${n}"`);
    const first = await openStream(listener.address, session, '0');
    await first.count(5);
    for (const last of [5, 3, 0, 4]) {
      const stream = await openStream(listener.address, session, String(last));
      const expected = Array.from({ length: 5 - last }, (_, index) => last + 1 + index);
      await stream.count(expected.length);
      assert.deepEqual(
        stream.events,
        expected.map((id) => [id, `"${id}"`]),
      );
    }
  });

  test('receives which messages are no longer stored', async (t) => {
    const { listener, peers } = await serve(t, { replayBytes: 30 });
    const session = await newSession(listener.address);
    for (let n = 1; n <= 9; n++) peers[0]!.link.send(`"message ${n}"`);
    await (await openStream(listener.address, session, '0')).count(9);
    await within(peers[0]!.link.drained(), 'everything to be delivered');
    const stream = await openStream(listener.address, session, '2');
    await stream.count(2);
    assert.match(stream.text, /event: gap\ndata: \{"from":3,"to":7\}\n\n/);
    assert.deepEqual(
      stream.events.map(([id]) => id),
      [8, 9],
    );
  });

  test('and names an event that never was, or nonsense, is refused with 400', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    peers[0]!.link.send('{}');
    for (const id of ['2', '999999999999999', '-1', '1.0', 'abc', '0x1', '1, 1', '9'.repeat(30)]) {
      const headers = { 'X-Session-Id': session, 'Last-Event-ID': id };
      assert.equal((await ask(listener.address, 'GET', '/stream', headers)).status, 400, id);
    }
    assert.equal(peers[0]!.closures, 0);
  });

  test('takes over from an earlier reader, whose stream ends with the reason', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    const first = await openStream(listener.address, session, '0');
    peers[0]!.link.send('"1"');
    await first.count(1);
    const second = await openStream(listener.address, session, '1');
    peers[0]!.link.send('"2"');
    await second.count(1);
    await first.end();
    assert.match(first.text, /event: end\ndata: \{"clean":false,"reason":"another reader took over"\}/);
    assert.deepEqual([first.data, second.data], [['"1"'], ['"2"']]);
  });

  test('that was cut off with messages stuck on the way finds them with the next reader, at most one write twice', async (t) => {
    const { listener, peers } = await serve(t, { replayBytes: 1024 });
    const session = await newSession(listener.address);
    const first = await openStream(listener.address, session, '0');
    first.response.pause();
    const total = 400;
    for (let n = 1; n <= total; n++) peers[0]!.link.send(JSON.stringify({ n, pad: 'x'.repeat(64 * 1024) }));
    await until(() => peers[0]!.link.buffered < total * 64 * 1024, 'something was handed to the operating system');
    assert.ok(peers[0]!.link.buffered > 0);
    const second = await openStream(listener.address, session);
    await until(() => second.events.at(-1)?.[0] === total, 'the last message came');
    const ids = second.events.map(([id]) => id);
    assert.deepEqual(
      ids,
      Array.from({ length: ids.length }, (_, index) => total - ids.length + 1 + index),
      'no hole, nothing twice',
    );
    first.response.resume();
    await first.end();
    // Of the one write that was cut off (256 KiB, four of these) a part had already left.
    const twice = first.events.filter(([id]) => id >= ids[0]!);
    assert.ok(twice.length <= 4, `${twice.length} messages went to both`);
  });
});

describe('the life of a session', TIMEOUT, () => {
  test('losing the stream does not close it, staying away does', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const { listener, peers } = await serve(t, { reattachMs: 1_000 });
    const session = await newSession(listener.address);
    for (let round = 0; round < 3; round++) {
      const stream = await openStream(listener.address, session);
      stream.drop();
      // A later request on another connection shows that the loss has been noticed.
      await ask(listener.address, 'GET', '/health');
      t.mock.timers.tick(600);
    }
    assert.equal(peers[0]!.closures, 0);
    await until(() => {
      t.mock.timers.tick(1_000);
      return peers[0]!.closures > 0;
    }, 'the session is over');
    const { clean, reason } = await peers[0]!.over;
    assert.deepEqual([clean, reason], [false, 'the event stream was lost and no client resumed it']);
  });

  test('one that is never read nor used closes after its idle time, one with an open stream does not', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const { listener, peers } = await serve(t, { idleMs: 100, reattachMs: 100 });
    await newSession(listener.address);
    const used = await newSession(listener.address);
    await openStream(listener.address, used);
    t.mock.timers.tick(1_000);
    assert.match((await peers[0]!.over).reason, /no client ever read/);
    assert.equal(peers[1]!.closures, 0);
  });

  test('a quiet stream gets comments, which are no events', async (t) => {
    const { listener } = await serve(t, { keepAliveMs: 40 });
    const stream = await openStream(listener.address, await newSession(listener.address));
    await until(() => (stream.text.match(/^: keep-alive\n\n/gm)?.length ?? 0) >= 2, 'two comments came');
    assert.deepEqual(stream.events, []);
  });

  test('closing sends what is queued first, tells the reader, and ends', async (t) => {
    const { listener, peers } = await serve(t);
    const { address } = listener;
    const [plainSession, ours] = [await newSession(address), await newSession(address)];
    const streams = [await openStream(address, plainSession), await openStream(address, ours, '0')];
    for (const { link } of peers) {
      link.send('"last words"');
      const closed = link.close('done', GRACE_MS);
      assert.equal(link.close(), closed);
      link.send('"too late"');
      await within(closed, 'the link to close');
    }
    for (const [index, stream] of streams.entries()) {
      await stream.end();
      assert.deepEqual(stream.data, ['"last words"']);
      assert.equal(stream.text.includes('event: end\ndata: {"clean":true,"reason":"done"}'), index === 1);
    }
    assert.deepEqual(await peers[0]!.over, { clean: true, reason: 'done' });
    assert.equal((await ask(address, 'POST', '/send', plain(ours), '{}')).status, 404);
  });

  test('closing without a reader waits for a reader, but not longer than its grace', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    peers[0]!.link.send('"hello"');
    const closed = peers[0]!.link.close('done', GRACE_MS);
    const stream = await openStream(listener.address, session);
    await within(closed, 'the link to close');
    await stream.end();
    assert.deepEqual(stream.data, ['"hello"']);

    await newSession(listener.address);
    peers[1]!.link.send('"nobody hears this"');
    await within(peers[1]!.link.close('done', 50), 'the grace to pass');
    assert.deepEqual(await peers[1]!.over, { clean: false, reason: 'the peer did not finish within 50 ms' });
  });

  test('a link destroyed before it was opened still says once that it is closed', async (t) => {
    const links: Link[] = [];
    const { listener } = await serve(t, { accept: (link) => links.push(link) });
    await newSession(listener.address);
    const [link] = links;
    link!.destroy('gone');
    let closures = 0;
    link!.open({ message() {}, malformed() {}, ended() {}, closed: () => closures++ });
    assert.equal(closures, 0, 'not from inside open()');
    await until(() => closures > 0, 'closed was called');
    link!.destroy();
    await link!.close();
    await link!.drained();
    assert.equal(closures, 1);
  });

  test('a handed-over link delivers to its new receiver only', async (t) => {
    const { listener, peers } = await serve(t);
    const session = await newSession(listener.address);
    await ask(listener.address, 'POST', '/send', plain(session), '"a"');
    const second: string[] = [];
    peers[0]!.link.open({
      message: (text) => void second.push(text as string),
      malformed() {},
      ended() {},
      closed() {},
    });
    await ask(listener.address, 'POST', '/send', plain(session), '"b"');
    assert.deepEqual([peers[0]!.messages, second], [['"a"'], ['"b"']]);
  });
});
