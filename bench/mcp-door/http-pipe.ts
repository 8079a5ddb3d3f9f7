/**
 * Requests over kept-alive HTTP connections, one at a time on each, as texts written to sockets: `node:http` as a client costs more
 * than most of the servers measured. Knows bodies with a length, and chunked ones by their end.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Pipe } from '../sessions/raw-client.ts';

const HEAD_END = Buffer.from('\r\n\r\n');
const CHUNKS_END = Buffer.from('0\r\n\r\n');

/**
 * Sends requests over this number of connections. `headers` go with every request; a response whose status is not 200
 * is a failure.
 */
export function httpPipe(url: URL, connections: number, headers: Readonly<Record<string, string>>): Pipe {
  const head = [
    `POST ${url.pathname} HTTP/1.1`,
    `Host: ${url.host}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ].join('\r\n');
  let take: (answers: number, chunk: Buffer) => void = () => {};
  let fail: (error: Error) => void = () => {};
  let all: Socket[] = [];
  let idle: Socket[] = [];
  const open = async (): Promise<Socket> => {
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
    await once(socket, 'connect');
    let pending: Buffer | undefined;
    socket.on('error', fail);
    socket.on('data', (chunk: Buffer) => {
      pending = pending === undefined ? chunk : Buffer.concat([pending, chunk]);
      const body = bodyOf(pending);
      if (body === undefined) return;
      if (pending.indexOf('HTTP/1.1 200') !== 0) return fail(new Error(`refused: ${pending.toString()}`));
      pending = undefined;
      idle.push(socket);
      take(1, body);
    });
    return socket;
  };
  const end = (): void => {
    for (const socket of all) socket.destroy();
  };
  return {
    // Servers close connections that are idle for some seconds, as between two rounds.
    async ready() {
      end();
      all = await Promise.all(Array.from({ length: connections }, open));
      idle = [...all];
    },
    send(texts) {
      for (const text of texts) {
        const socket = idle.pop();
        if (socket === undefined) throw new Error('more requests than connections');
        socket.write(`${head}\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
      }
    },
    onAnswers(onAnswer, onFailure) {
      take = onAnswer;
      if (onFailure !== undefined) fail = onFailure;
    },
    close: async () => end(),
  };
}

/** Returns the body of a whole response; undefined until it is complete. */
function bodyOf(bytes: Buffer): Buffer | undefined {
  const end = bytes.indexOf(HEAD_END);
  if (end === -1) return undefined;
  const head = bytes.toString('latin1', 0, end);
  const body = bytes.subarray(end + HEAD_END.length);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined) return body.length >= Number(length) ? body : undefined;
  const whole = body.length >= CHUNKS_END.length && body.subarray(-CHUNKS_END.length).equals(CHUNKS_END);
  return whole ? body.subarray(0, -CHUNKS_END.length) : undefined;
}
