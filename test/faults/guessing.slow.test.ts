import assert from 'node:assert/strict';
import { connect, type NetConnectOpts, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { dialHttp, dialSocket, dialWebSocket } from '../support/carriers.ts';
import type { Peer } from '../support/peer.ts';
import { type ServerChild, startServer } from '../support/serve-child.ts';

/** The goal is two seconds. A place that is not given up before its deadline takes far more than that. */
const MAX_MS = 9_000;
/** More than the places on each address. */
const SILENT = 300;
const GUESSERS = 12;

let server: ServerChild;
const held: Socket[] = [];
let over = false;
const guessing: Promise<void>[] = [];
let guesses = 0;

before(async () => {
  // So long that nothing can wait for a deadline.
  server = await startServer('limits: { handshake_timeout_ms: 600000 }\n');
});
after(async () => {
  over = true;
  for (const socket of held) socket.destroy();
  await Promise.all(guessing);
  await server.stop();
});

const httpPort = (): { port: number; host: string } => ({ port: Number(new URL(server.http).port), host: '127.0.0.1' });

/** Connections that send `head` and nothing more. */
async function holdPlaces(where: NetConnectOpts, head = ''): Promise<void> {
  for (let at = 0; at < SILENT; at++) {
    const socket = connect(where);
    socket.on('error', () => {});
    socket.write(head);
    held.push(socket);
    if (at % 50 === 49) await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  }
}

/** Sends a wrong token again and again, and waits for no answer longer than a guesser would. */
function guess(dial: () => Promise<Peer>, message: (token: string) => object): void {
  guessing.push(
    (async () => {
      while (!over) {
        const peer = await dial().catch(() => undefined);
        peer?.send(message(`guess ${++guesses}`) as Record<string, unknown>);
        await peer?.until(() => peer.over || peer.messages.length > 0, 'an answer', 50).catch(() => {});
        peer?.cut();
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })(),
  );
}

const a2e = (token: string): object => ({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'], auth_token: token });
const rpc = (token: string): object => ({ jsonrpc: '2.0', id: 0, method: 'rpc.handshake', params: { token } });

const tcp = (): Promise<Peer> => dialSocket(parseTcpAddress(server.tcp));
const unix = (): Promise<Peer> => dialSocket({ path: server.unix });

async function within(what: () => Promise<void>): Promise<number> {
  const from = performance.now();
  await what();
  return performance.now() - from;
}

async function enters(dial: () => Promise<Peer>): Promise<void> {
  const peer = await dial();
  assert.equal((await peer.shake({ auth_token: server.token })).ok, true);
  peer.cut();
}

const status = (token: string): Promise<Response> =>
  fetch(`${server.http}/status`, { headers: { Authorization: `Bearer ${token}`, Connection: 'close' } });

describe('F-98: wrong guesses and silent connections hold every place, and right tokens enter', () => {
  before(async () => {
    const { port, host } = httpPort();
    await Promise.all([
      holdPlaces({ ...parseTcpAddress(server.tcp) }),
      holdPlaces({ path: server.unix }),
      holdPlaces({ port, host }),
      holdPlaces({ port, host }, 'GET /status HTTP/1.1\r\nHost: '),
      holdPlaces(
        { port, host },
        `GET /ws HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
          'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
      ),
      holdPlaces({ port, host }, `POST /session HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Length: 0\r\n\r\n`),
    ]);
    for (let at = 0; at < GUESSERS; at++) {
      guess(tcp, a2e);
      guess(unix, at % 2 === 0 ? a2e : rpc);
      guess(() => dialWebSocket(server.rpc), rpc);
    }
    for (let at = 0; at < GUESSERS; at++) {
      guessing.push(
        (async () => {
          while (!over) await Promise.race([status(`guess ${++guesses}`).catch(() => {}), sleep(50)]);
        })(),
      );
    }
    const until = performance.now() + 60_000;
    while (guesses < 500 && performance.now() < until) await sleep(20);
  });

  const ways: Record<string, () => Promise<void>> = {
    'over TCP': () => enters(tcp),
    'over a Unix socket': () => enters(unix),
    'over WebSocket': () => enters(() => dialWebSocket(server.ws)),
    'over HTTP': () => enters(() => dialHttp(server.http)),
    'to session RPC': async () => {
      const peer = await dialWebSocket(server.rpc);
      peer.send(rpc(server.token) as Record<string, unknown>);
      assert.notEqual((await peer.next()).result, undefined);
      peer.cut();
    },
    'to the routes of operators': async () => assert.equal((await status(server.token)).status, 200),
    'and /health answers everybody': async () => {
      const response = await fetch(`${server.http}/health`, { headers: { Connection: 'close' } });
      assert.deepEqual(await response.json(), { status: 'ok' });
    },
  };
  for (const [name, enter] of Object.entries(ways)) {
    test(name, async (t) => {
      const times: number[] = [];
      for (let round = 0; round < 5; round++) times.push(await within(enter));
      t.diagnostic(`${Math.max(...times).toFixed(0)} ms at most, beside ${guesses} guesses`);
      assert.ok(Math.max(...times) < MAX_MS, `${times.map((ms) => ms.toFixed(0))} ms`);
    });
  }
});

test('F-98: wrong tokens are refused ever more slowly on every address, a Unix socket included', async () => {
  const other = await startServer();
  try {
    const tries: Record<string, () => Promise<unknown>> = {
      unix: async () => {
        const peer = await dialSocket({ path: other.unix });
        assert.equal((await peer.shake({ auth_token: 'wrong' })).reason, 'auth_failed');
        peer.cut();
      },
      http: () => fetch(`${other.http}/sessions`, { headers: { Authorization: 'Bearer wrong' } }),
    };
    for (const [name, guessOnce] of Object.entries(tries)) {
      for (let at = 0; at < 5; at++) await guessOnce();
      assert.ok((await within(async () => void (await guessOnce()))) > 200, `${name}: the sixth waits`);
    }
    // Another address counts by itself, and has used up nothing; this one continues to count over all of its kinds of link.
    const peer = await dialSocket(parseTcpAddress(other.tcp));
    const took = await within(async () => void (await peer.shake({ auth_token: 'wrong' })));
    assert.ok(took > 400, 'the seventh failure of this address, although the first over TCP');
    peer.cut();
  } finally {
    await other.stop();
  }
});

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
