/**
 * A client that floods a server: `flood-process.ts ADDRESS FLOOD`. It opens its connection, reports that it is ready,
 * and on any message sends the whole flood; then it reports the received amount. It reads everything, so that no output
 * is held up on its side.
 */
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Flood } from './floods.ts';

const [, , address = '', text = '{}'] = process.argv;
const flood = JSON.parse(text) as Flood;
const { packed = 1, opcode = 1 } = flood;

/** Returns a WebSocket frame of a client; a mask of zeros leaves the payload unchanged. */
function frame(payload: string, code = 1): Buffer {
  const { length } = payload;
  const head = length < 126 ? Buffer.alloc(6) : Buffer.alloc(8);
  head[0] = 0x80 | code;
  head[1] = 0x80 | Math.min(length, 126);
  if (length >= 126) head.writeUInt16BE(length, 2);
  return Buffer.concat([head, Buffer.from(payload)]);
}

function dial(): Socket {
  if (flood.transport === 'unix') return connect(address);
  const { hostname, port } = new URL(address);
  return connect(Number(port), hostname);
}

/** Sends `head` and waits for the first answer to it. */
const asked = (socket: Socket, head: string | Buffer): Promise<Buffer> =>
  new Promise((resolve) => {
    socket.once('data', resolve);
    socket.write(head);
  });

const { host } = flood.transport === 'unix' ? { host: '' } : new URL(address);

/** Returns everything to send, in pieces that a socket accepts well. */
function bytes(): Buffer[] {
  const { piece, count } = flood;
  if (flood.transport !== 'websocket') {
    const one = Buffer.from(piece.replace('HOST', host));
    const per = Math.max(1, Math.floor((256 * 1024) / one.length));
    return Array.from({ length: Math.ceil(count / per) }, () => Buffer.concat(Array<Buffer>(per).fill(one)));
  }
  const one = frame(piece.repeat(packed), opcode);
  const frames = Math.ceil(count / packed);
  const per = Math.max(1, Math.floor((256 * 1024) / one.length));
  return Array.from({ length: Math.ceil(frames / per) }, () => Buffer.concat(Array<Buffer>(per).fill(one)));
}

const sent = bytes();
let [repliedBytes, ended, stopped] = [0, false, false];
const report = (): void => {
  if (stopped) return;
  stopped = true;
  process.send?.({ repliedBytes, ended });
};

/** Floods one socket; the last reply shows that everything was read. */
async function overSocket(): Promise<() => void> {
  const socket = dial();
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('connect', resolve));
  if (flood.transport === 'websocket') {
    const { pathname } = new URL(address);
    await asked(
      socket,
      `GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
    );
  }
  const { opening } = flood;
  if (opening !== undefined) await asked(socket, flood.transport === 'websocket' ? frame(opening) : opening);
  socket.on('data', (chunk: Buffer) => {
    repliedBytes += chunk.length;
  });
  socket.on('close', () => {
    ended = true;
    report();
  });
  return () => {
    for (const chunk of sent) socket.write(chunk);
    // The reply to the end of this side arrives when everything before it was read.
    socket.end();
  };
}

/** Floods a session over HTTP, with bodies of the maximum length, eight at a time. */
async function overHttp(): Promise<() => void> {
  const post = (path: string, headers: Record<string, string>, body?: Buffer | string): Promise<string> =>
    new Promise((resolve) => {
      const outgoing = request(`${address}${path}`, { method: 'POST', headers }, (response) => {
        let reply = '';
        response.on('data', (chunk: Buffer) => {
          reply += chunk;
        });
        response.on('end', () => resolve(`${response.statusCode} ${reply}`));
        response.on('error', () => resolve(''));
      });
      outgoing.on('error', () => resolve(''));
      outgoing.end(body);
    });
  const created = await post('/session', {});
  const { session_id: id } = JSON.parse(created.slice(4)) as { session_id: string };
  const headers = { 'X-Session-Id': id, 'Content-Type': 'application/x-ndjson' };
  if (flood.opening !== undefined) await post('/send', headers, flood.opening);
  request(`${address}/stream`, { headers: { 'X-Session-Id': id } }, (response) => {
    response.on('data', (chunk: Buffer) => {
      repliedBytes += chunk.length;
    });
    response.on('error', () => {});
  })
    .on('error', () => {})
    .end();
  const limit = flood.opening === undefined ? 60 * 1024 : 1000 * 1024;
  const all = Buffer.concat(sent);
  const at = flood.piece.length * Math.floor(limit / flood.piece.length);
  const bodies = Array.from({ length: Math.ceil(all.length / at) }, (_, n) => all.subarray(n * at, (n + 1) * at));
  return () => {
    void Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let body = bodies.shift(); body !== undefined; body = bodies.shift()) {
          if ((await post('/send', headers, body)).startsWith('404')) ended = true;
        }
      }),
    ).then(report);
  };
}

const start = flood.transport === 'http' && packed === 0 ? await overHttp() : await overSocket();
process.on('message', (message) => (message === 'stop' ? report() : start()));
process.send?.('ready');
