/**
 * Peculiarities of TCP and Unix sockets: addresses, foreign clients, socket files, and failures to connect.
 */
import assert from 'node:assert/strict';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Link } from '../../src/transport/link.ts';
import {
  connectTcp,
  connectUnix,
  listenTcp,
  listenUnix,
  parseTcpAddress,
  parseUnixAddress,
} from '../../src/transport/socket.ts';
import { Recorder, turns, within } from '../contract/recorder.ts';

/** Containers and some machines have none. */
const ipv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));

const noLink = (): never => assert.fail('no client should be accepted');

describe('TCP links', () => {
  test('addresses of IPv4, IPv6 and names are read, anything else is a wrong use', () => {
    assert.deepEqual(parseTcpAddress('tcp://127.0.0.1:4701'), { host: '127.0.0.1', port: 4701 });
    assert.deepEqual(parseTcpAddress('tcp://[::1]:80/'), { host: '::1', port: 80 });
    assert.deepEqual(parseTcpAddress('tcp://my-host.local:65535'), { host: 'my-host.local', port: 65_535 });
    for (const wrong of [
      'tcp://host',
      'tcp://host:0',
      'tcp://host:65536',
      'tcp://::1:80',
      'http://h:80',
      'tcp://u@h:80',
      '',
    ]) {
      assert.throws(() => parseTcpAddress(wrong), { code: 'usage' }, wrong);
    }
  });

  test('a listener on IPv6 has an address that can be dialled', { skip: !ipv6 && 'no IPv6 here' }, async () => {
    const accepted: Link[] = [];
    const listener = await listenTcp({ host: '::1', port: 0 }, (link) => accepted.push(link));
    assert.match(listener.address, /^tcp:\/\/\[::1\]:\d+$/);
    const link = await connectTcp(listener.address);
    assert.equal(link.peer, listener.address);
    link.destroy();
    for (const other of accepted) other.destroy();
    await listener.close();
  });

  test('a closed listener refuses, and its links continue', async () => {
    const { promise, resolve } = Promise.withResolvers<Link>();
    const listener = await listenTcp({ port: 0 }, resolve);
    const client = await connectTcp(listener.address);
    const server = await within(promise, 'the link');
    const closing = listener.close();
    assert.equal(listener.close(), closing);
    await closing;
    await assert.rejects(connectTcp(listener.address), { code: 'unreachable', retryable: true });
    const recorder = Recorder.on(server);
    client.send('{"still":"here"}');
    await recorder.count(1);
    client.destroy();
    await recorder.end();
  });

  test('a port that is taken is refused with its reason', async () => {
    const listener = await listenTcp({ port: 0 }, noLink);
    const { port } = parseTcpAddress(listener.address);
    await assert.rejects(listenTcp({ port }, noLink), {
      code: 'runtime_error',
      detail: { address: listener.address, reason: 'EADDRINUSE' },
    });
    await listener.close();
  });

  test('an attempt ends when its time is up or its signal aborts', async () => {
    const options = { timeoutMs: 30 };
    // A missing host: no reply arrives, neither positive nor negative (or the network reports it at once, which is
    // equivalent).
    await assert.rejects(connectTcp('tcp://192.0.2.1:9', options), { code: 'unreachable' });
    const aborted = AbortSignal.abort();
    await assert.rejects(connectTcp('tcp://127.0.0.1:9', { signal: aborted }), { code: 'cancelled' });
    const controller = new AbortController();
    const dialling = connectTcp('tcp://192.0.2.1:9', { signal: controller.signal });
    controller.abort();
    await assert.rejects(dialling, (error: { code: string }) => ['cancelled', 'unreachable'].includes(error.code));
  });

  describe('refuse HTTP and TLS clients at their first bytes', () => {
    const smuggled = '\n{"type":"handshake/req"}\n';

    /** Returns the messages of a link for bytes that arrived in the given pieces. */
    async function hears(pieces: string[]): Promise<{ recorder: Recorder; answer: Buffer; socket: Socket }> {
      const { promise, resolve } = Promise.withResolvers<Link>();
      const listener = await listenTcp({ port: 0 }, resolve);
      const socket = connect({ ...parseTcpAddress(listener.address), noDelay: true });
      const answer: Buffer[] = [];
      socket.on('data', (chunk: Buffer) => answer.push(chunk));
      socket.on('error', () => {});
      const recorder = Recorder.on(await within(promise, 'the link'));
      for (const piece of pieces) {
        socket.write(piece, 'latin1');
        await turns(3);
      }
      await listener.close();
      return { recorder, answer: Buffer.concat(answer), socket };
    }

    const foreign = [
      'GET ',
      'POST ',
      'PUT ',
      'HEAD ',
      'OPTIONS ',
      'DELETE ',
      'PATCH ',
      'CONNECT ',
      'TRACE ',
      'PRI * HTTP/2',
      '\x16\x03\x01',
    ];
    for (const start of foreign) {
      test(`whole or in pieces: ${JSON.stringify(start)}`, async () => {
        const text = `${start}/ HTTP/1.1\r\nHost: x\r\n\r\n${smuggled}`;
        for (const pieces of [[text], [...start, text.slice(start.length)], [text.slice(0, 2), text.slice(2)]]) {
          const { recorder, answer, socket } = await hears(pieces);
          const cause = await recorder.end();
          assert.equal(cause.clean, false);
          assert.match(cause.reason, /HTTP or TLS/);
          assert.deepEqual(recorder.messages, []);
          assert.deepEqual(recorder.problems, []);
          assert.equal(answer.length, 0);
          socket.destroy();
        }
      });
    }

    test('and let everything else pass to the layer that checks messages', async () => {
      for (const line of ['{"n":1}', ' {"n":1}', '\ufeff{"n":1}', 'GETTING "odd"', 'P', '\x16 x']) {
        const bytes = Buffer.from(`${line}\n`).toString('latin1');
        const { recorder, socket } = await hears([...bytes]);
        await recorder.count(1);
        assert.deepEqual(recorder.causes, []);
        socket.destroy();
      }
    });
  });
});

describe('Unix links', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'handfast-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  test('addresses are paths behind unix://', () => {
    assert.equal(parseUnixAddress('unix:///run/x y.sock'), '/run/x y.sock');
    for (const wrong of ['unix:', 'unix://', '/run/x', 'tcp:///run/x']) {
      assert.throws(() => parseUnixAddress(wrong), { code: 'usage' });
    }
  });

  test('the socket is for its owner only, and so is a folder made for it; closing removes the socket', async () => {
    const path = join(folder, 'made', 'deep', 'socket');
    const mask = process.umask();
    const listener = await listenUnix({ path }, noLink);
    assert.equal(listener.address, `unix://${path}`);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.equal(statSync(join(folder, 'made', 'deep')).mode & 0o777, 0o700);
    assert.equal(statSync(join(folder, 'made')).mode & 0o777, 0o700);
    assert.equal(process.umask(), mask);
    await listener.close();
    assert.equal(existsSync(path), false);
  });

  test('a socket that a dead process left behind is replaced', async () => {
    const path = join(folder, 'stale');
    // Closing a server removes its file, so a second name of it stays behind as after a crash.
    const { linkSync } = await import('node:fs');
    const dead = createServer();
    await new Promise<void>((resolve) => dead.listen(`${path}.0`, resolve));
    linkSync(`${path}.0`, path);
    await new Promise((resolve) => dead.close(resolve));
    assert.equal(statSync(path).isSocket(), true);
    const { promise, resolve } = Promise.withResolvers<Link>();
    const listener = await listenUnix({ path }, resolve);
    const client = await connectUnix(listener.address);
    (await within(promise, 'the link')).destroy();
    client.destroy();
    await listener.close();
  });

  test('a socket with a listener is left alone', async () => {
    const path = join(folder, 'live');
    const accepted: Link[] = [];
    const listener = await listenUnix({ path }, (link) => accepted.push(link));
    await assert.rejects(listenUnix({ path }, noLink), {
      code: 'runtime_error',
      message: /the address is already in use/,
    });
    const client = await connectUnix(listener.address);
    client.destroy();
    await listener.close();
    for (const link of accepted) link.destroy();
  });

  test('a file that is no socket is never removed', async () => {
    const path = join(folder, 'file');
    writeFileSync(path, 'precious');
    await assert.rejects(listenUnix({ path }, noLink), { code: 'runtime_error' });
    assert.equal(statSync(path).size, 8);
    // Nor does it make a folder.
    await assert.rejects(listenUnix({ path: join(path, 'socket') }, noLink), { code: 'runtime_error' });
  });

  test('a path that is too long says so', async () => {
    const path = join(folder, 'x'.repeat(120));
    await assert.rejects(listenUnix({ path }, noLink), { code: 'runtime_error', message: /at most \d+ bytes/ });
  });

  test('a path without a listener is unreachable', async () => {
    await assert.rejects(connectUnix(`unix://${join(folder, 'nobody')}`), { code: 'unreachable' });
  });
});
