/**
 * `rpc-ping1`, `rpc-ping64`: the replies to `system.ping` in a second with 1 and with 64 in flight, after the
 * handshake, with the client of `raw-client.ts`, which is the same for all servers.
 */
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';
import { lineScanner } from '../contenders/carriers.ts';
import { LOOPBACK } from '../contenders/contender.ts';
import { bounded } from '../control.ts';
import { RPC_ARGS, type Scratch, startOnPipes, stopOnPipes } from './processes.ts';
import { AnswerCounter, type Framing, jsonRequest, lines, onPipes, type Pipe, RawClient } from './raw-client.ts';
import { ANSWER_WAIT_MS, HANDSHAKE, type Measurement, type Settings, type Workload } from './workload.ts';

const PING_PROCESS = fileURLToPath(new URL('./ping-process.ts', import.meta.url));

const headers: Framing = (texts) => texts.map((text) => `Content-Length: ${text.length}\r\n\r\n${text}`).join('');

const PING = jsonRequest('system.ping');

async function onWebSocket(url: string, packs: boolean, close: () => Promise<void>): Promise<Pipe> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  await bounded(once(socket, 'open'), `${url} did not open`, ANSWER_WAIT_MS);
  const counter = new AnswerCounter();
  return {
    send: (texts) => {
      if (packs) socket.send(texts.join('\n'));
      else for (const text of texts) socket.send(text);
    },
    onAnswers: (take) => socket.on('message', (chunk: Buffer) => take(counter.count(chunk), chunk)),
    async close() {
      socket.terminate();
      await close();
    },
  };
}

/** Starts a server of `ping-process.ts` on a WebSocket. */
async function startLoop(name: string, home: string): Promise<Pipe> {
  const child = startOnPipes([PING_PROCESS, name, 'websocket'], home);
  const port = new Promise<string>((resolve) => child.stdout.on('data', lineScanner(resolve)));
  const url = `ws://${LOOPBACK}:${await bounded(port, 'a ping server was not ready', ANSWER_WAIT_MS)}`;
  return onWebSocket(url, name === 'limit', () => stopOnPipes(child));
}

async function workloadOf(
  name: string,
  transport: 'stdio' | 'websocket',
  inFlight: number,
  pipes: Readonly<Record<string, Pipe | Promise<Pipe>>>,
): Promise<Workload> {
  const opened = await Promise.all(Object.entries(pipes).map(async ([who, pipe]) => [who, await pipe] as const));
  const contenders = await Promise.all(
    opened.map(async ([who, pipe]) => {
      const client = new RawClient(pipe);
      await client.ask(jsonRequest('rpc.handshake', HANDSHAKE), '"result":{');
      await client.ask(PING, '"ok":true');
      const measure = async ({ durationMs }: Settings): Promise<Measurement> => {
        const { answers, seconds } = await client.repeat(PING, inFlight, durationMs);
        return { [name]: answers / seconds };
      };
      return { name: who, measure };
    }),
  );
  return {
    name,
    transport,
    figures: [{ name, unit: 'calls/s', lowerIsBetter: false }],
    contenders,
    close: async () => void (await Promise.all(opened.map(([, pipe]) => pipe.close()))),
  };
}

/** Pings over the pipes of a child. */
export function pingsOnPipes(scratch: Scratch, inFlight: number): Promise<Workload> {
  const loop = (name: string): Pipe => onPipes([PING_PROCESS, name, 'stdio'], scratch.make(), lines);
  return workloadOf(`rpc-ping${inFlight}`, 'stdio', inFlight, {
    bare: loop('bare'),
    // With one call at a time no messages can be joined: it would be `bare` again.
    ...(inFlight > 1 && { limit: loop('limit') }),
    handfast: onPipes(RPC_ARGS, scratch.make(), lines),
    'vscode-jsonrpc': onPipes([PING_PROCESS, 'vscode-jsonrpc', 'stdio'], scratch.make(), headers),
  });
}

/** Pings over `/rpc` of a server that runs already, one frame a request as a browser sends them. */
export function pingsOnWebSocket(scratch: Scratch, inFlight: number, url: string): Promise<Workload> {
  return workloadOf(`rpc-ping${inFlight}`, 'websocket', inFlight, {
    bare: startLoop('bare', scratch.make()),
    ...(inFlight > 1 && { limit: startLoop('limit', scratch.make()) }),
    handfast: onWebSocket(url, false, async () => {}),
  });
}
