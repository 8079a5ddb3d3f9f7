/**
 * Peculiarities of WebSocket links: frames, close codes, hostile peers, liveness, and failures to connect.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, createServer as createNetServer, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { type RawData, WebSocket } from 'ws';
import type { Link } from '../../src/transport/link.ts';
import { connectWebSocket, type WebSocketAcceptorOptions, webSocketAcceptor } from '../../src/transport/websocket.ts';
import { PATIENCE_MS, Recorder, turns, within } from '../contract/recorder.ts';

const MIB = 1024 * 1024;

describe('WebSocket links', () => {
  let http: Server;
  let address = '';
  let options: WebSocketAcceptorOptions = {};
  let accepted: (link: Link) => void = () => {};

  before(async () => {
    http = createServer((_request, response) => response.writeHead(404).end());
    http.on('upgrade', (request, socket, head) => {
      const status = /^\/status\/(\d+)/.exec(request.url ?? '')?.[1];
      if (status !== undefined) socket.end(`HTTP/1.1 ${status} No\r\nContent-Length: 0\r\n\r\n`);
      else webSocketAcceptor(options).handle(request, socket, head, (link) => accepted(link));
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    address = `ws://127.0.0.1:${(http.address() as AddressInfo).port}`;
  });
  after(() => http.close());

  /** Runs with a link of Handfast and a foreign socket at its other end. */
  async function withStranger(
    run: (link: Link, stranger: WebSocket, frames: string[]) => Promise<void>,
    acceptorOptions: WebSocketAcceptorOptions = {},
  ): Promise<void> {
    options = acceptorOptions;
    const { promise, resolve } = Promise.withResolvers<Link>();
    accepted = resolve;
    const stranger = new WebSocket(`${address}/ws`);
    const frames: string[] = [];
    stranger.on('message', (data: RawData) => frames.push(data.toString()));
    stranger.on('error', () => {});
    const link = await within(promise, 'the link');
    if (stranger.readyState !== WebSocket.OPEN) await new Promise((opened) => stranger.once('open', opened));
    try {
      await run(link, stranger, frames);
    } finally {
      stranger.terminate();
      link.destroy();
    }
  }

  const closeOf = (socket: WebSocket): Promise<{ code: number; reason: string }> =>
    within(
      new Promise((resolve) => socket.once('close', (code, reason) => resolve({ code, reason: reason.toString() }))),
      'the stranger to be closed',
    );

  test('a frame carries one or several messages, in text or in bytes', () =>
    withStranger(async (link, stranger) => {
      const recorder = Recorder.on(link);
      stranger.send('{"n":1}');
      stranger.send('{"n":2}\n{"n":3}\r\n\n{"n":4}\n');
      stranger.send(Buffer.from('{"n":5}\n{"n":6}'));
      stranger.send('');
      stranger.send('{"n":7}');
      await recorder.count(7);
      assert.deepEqual(
        recorder.messages.map(({ n }) => n),
        [1, 2, 3, 4, 5, 6, 7],
      );
    }));

  test('the messages of one turn leave in one frame, many in frames of a bounded size', () =>
    withStranger(async (link, stranger, frames) => {
      Recorder.on(link);
      for (let n = 0; n < 3; n++) link.send(`{"n":${n}}`);
      await within(new Promise((resolve) => stranger.once('message', resolve)), 'a frame');
      assert.deepEqual(frames, ['{"n":0}\n{"n":1}\n{"n":2}']);
      stranger.pause();
      for (let n = 0; n < 8000; n++) link.send(`{"n":${n},"pad":"${'x'.repeat(1000)}"}`);
      stranger.resume();
      while (!frames.at(-1)?.includes('{"n":7999,')) {
        await within(new Promise((resolve) => stranger.once('message', resolve)), 'a frame');
      }
      assert.equal(frames.slice(1).join('\n').split('\n').length, 8000);
      assert.ok(Math.max(...frames.map(({ length }) => length)) < 300 * 1024);
    }));

  test('a message over the limit inside a frame is reported and the next one arrives', () =>
    withStranger(
      async (link, stranger) => {
        const recorder = Recorder.on(link);
        stranger.send(`{"n":1}\n${'x'.repeat(3 * MIB)}\n{"n":2}`);
        await recorder.count(2);
        assert.deepEqual(recorder.problems, [{ reason: 'too_large', limit: 1000 }]);
      },
      { maxMessageBytes: 1000 },
    ));

  test('a frame of more than 4 MiB, or four times the limit, closes with 1009', () =>
    withStranger(async (link, stranger) => {
      const recorder = Recorder.on(link);
      stranger.send('x'.repeat(4 * MIB + 1));
      assert.equal((await closeOf(stranger)).code, 1009);
      assert.equal((await recorder.end()).clean, false);
      assert.deepEqual(recorder.messages, []);
    }));

  test('a text frame that is no UTF-8 closes with 1007; in a binary frame only its line is refused', () =>
    withStranger(async (link, stranger) => {
      const recorder = Recorder.on(link);
      const bad = Buffer.concat([Buffer.from('{"a":"'), Buffer.of(0xff), Buffer.from('"}\n{"n":1}')]);
      stranger.send(bad);
      await recorder.count(1);
      assert.deepEqual(recorder.problems, [{ reason: 'bad_utf8' }]);
      stranger.send(bad, { binary: false });
      assert.equal((await closeOf(stranger)).code, 1007);
      assert.equal((await recorder.end()).clean, false);
    }));

  test('compression is not agreed to', () =>
    withStranger(async (_link, stranger) => {
      assert.equal(stranger.extensions, '');
    }));

  test('closing says why, and a peer that closes is heard', async () => {
    await withStranger(async (link, stranger) => {
      const closed = closeOf(stranger);
      await within(link.close('session_expired', PATIENCE_MS), 'the close');
      assert.deepEqual(await closed, { code: 1000, reason: 'session_expired' });
    });
    await withStranger(async (link, stranger) => {
      const recorder = Recorder.on(link);
      stranger.close(1001, 'going home');
      assert.deepEqual(await recorder.end(), { clean: true, reason: 'going home' });
    });
    await withStranger(async (link, stranger) => {
      const recorder = Recorder.on(link);
      stranger.close(4000);
      assert.equal((await recorder.end()).clean, false);
    });
  });

  test('a long reason beyond ASCII does not break the close', () =>
    withStranger(async (link, stranger) => {
      const closed = closeOf(stranger);
      await within(link.close('漢'.repeat(500), PATIENCE_MS), 'the close');
      assert.equal((await closed).reason, '漢'.repeat(40));
    }));

  test('before the handshake no peer can make us buffer a large frame', () =>
    withStranger(async (link, stranger) => {
      link.setMaxMessageBytes(64 * 1024);
      const recorder = Recorder.on(link);
      stranger.send('{"n":1}');
      await recorder.count(1);
      stranger.send('x'.repeat(2 * MIB));
      const cause = await recorder.end();
      assert.match(cause.reason, /before the handshake/);
      assert.deepEqual(recorder.problems, []);
    }));

  test('after the handshake the same frame is read', () =>
    withStranger(async (link, stranger) => {
      link.setMaxMessageBytes(64 * 1024);
      link.setMaxMessageBytes(2 * MIB);
      const recorder = Recorder.on(link);
      stranger.send(JSON.stringify({ pad: 'x'.repeat(MIB) }));
      await recorder.count(1);
    }));

  test('a ping frame is answered by itself and counts as received, also as a part of a frame; not while paused', () =>
    withStranger(async (link, stranger) => {
      const recorder = Recorder.on(link);
      const before = link.received ?? Number.NaN;
      const asked = once(stranger, 'ping');
      link.probe?.();
      await within(asked, 'a ping');
      while ((link.received ?? 0) <= before) await turns();
      const answered = link.received ?? 0;
      // A frame of which only the head has arrived.
      (stranger as unknown as { _socket: Socket })._socket.write(Buffer.from([0x81, 0xfe, 0x10]));
      while ((link.received ?? 0) <= answered) await turns();
      link.pause(true);
      assert.equal(link.received, undefined);
      link.pause(false);
      assert.deepEqual([recorder.messages, recorder.causes, link.isClosed], [[], [], false]);
      link.destroy('the test is over');
      await recorder.end();
      assert.equal(link.isClosed, true);
    }));

  test('a request that is no proper upgrade gets 400', async () => {
    const socket = connect(Number(new URL(address).port), '127.0.0.1');
    socket.write('GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
    const answer = await within(new Promise<Buffer>((resolve) => socket.once('data', resolve)), 'the answer');
    assert.match(answer.toString(), /^HTTP\/1\.1 400 /);
    socket.destroy();
  });

  describe('dialling', () => {
    test('names the peer without query and credentials', async () => {
      const link = await connectWebSocket(address.replace('://', '://user:secret@').concat('/ws?token=secret'));
      assert.equal(link.peer, `${address}/ws`);
      link.destroy();
    });

    test('sends the given headers', async () => {
      const seen = new Promise((resolve) => http.once('upgrade', (request) => resolve(request.headers.authorization)));
      const link = await connectWebSocket(`${address}/ws`, { headers: { authorization: 'Bearer t' } });
      assert.equal(await seen, 'Bearer t');
      link.destroy();
    });

    test('tells refusals apart', async () => {
      await assert.rejects(connectWebSocket(`${address}/status/401`), { code: 'auth_failed' });
      await assert.rejects(connectWebSocket(`${address}/status/403`), { code: 'unauthorized' });
      await assert.rejects(connectWebSocket(`${address}/status/503`), {
        code: 'unreachable',
        detail: { address: `${address}/status/503`, status: 503 },
      });
      await assert.rejects(connectWebSocket('http://127.0.0.1/'), { code: 'usage' });
      await assert.rejects(connectWebSocket('nonsense'), { code: 'usage' });
    });

    test('ends when no host is there, the time is up, or the signal aborts', async () => {
      const deaf = createNetServer((socket) => socket.on('error', () => {}).resume());
      await new Promise<void>((resolve) => deaf.listen(0, '127.0.0.1', resolve));
      const url = `ws://127.0.0.1:${(deaf.address() as AddressInfo).port}`;
      await assert.rejects(connectWebSocket(url, { timeoutMs: 30 }), { code: 'unreachable', message: /in 30 ms/ });
      const controller = new AbortController();
      const dialling = connectWebSocket(url, { signal: controller.signal });
      await turns(2);
      controller.abort();
      await assert.rejects(dialling, { code: 'cancelled' });
      await assert.rejects(connectWebSocket(url, { signal: AbortSignal.abort() }), { code: 'cancelled' });
      await new Promise((resolve) => deaf.close(resolve));
      await assert.rejects(connectWebSocket(url), { code: 'unreachable' });
    });
  });
});
