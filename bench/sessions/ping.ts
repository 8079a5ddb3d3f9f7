/**
 * `rpc-ping1`, `rpc-ping64`: how many `system.ping` are answered in a second with 1 and with 64 under way, after the
 * handshake. The client is the same for everybody: it writes the texts of requests and counts answers, and never parses
 * one while the clock runs. What is compared is therefore the server.
 */
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';
import { lineScanner } from '../contenders/carriers.ts';
import { LOOPBACK } from '../contenders/contender.ts';
import { bounded } from '../control.ts';
import { RPC_ARGS, type Scratch, startOnPipes, stopOnPipes } from './processes.ts';
import { ANSWER_WAIT_MS, HANDSHAKE, type Measurement, type Settings, type Workload } from './workload.ts';

const PING_PROCESS = fileURLToPath(new URL('./ping-process.ts', import.meta.url));

/** Every reply has it once, in every framing. */
const MARK = Buffer.from('"jsonrpc":"2.0"');

/** Moves the texts of messages to a server, and bytes back. */
interface Pipe {
  send(texts: readonly string[]): void;
  onData(take: (chunk: Buffer) => void): void;
  close(): Promise<void>;
}

type Framing = (texts: readonly string[]) => string;
const lines: Framing = (texts) => texts.map((text) => `${text}\n`).join('');
const headers: Framing = (texts) => texts.map((text) => `Content-Length: ${text.length}\r\n\r\n${text}`).join('');

/** Counts the answers in what comes. */
class AnswerCounter {
  #tail: Buffer = Buffer.alloc(0);

  count(chunk: Buffer): number {
    const bytes = this.#tail.length === 0 ? chunk : Buffer.concat([this.#tail, chunk]);
    let found = 0;
    let end = 0;
    for (let at = bytes.indexOf(MARK); at !== -1; at = bytes.indexOf(MARK, end)) {
      found++;
      end = at + MARK.length;
    }
    // The beginning of a mark may be all that has come of it.
    this.#tail = bytes.subarray(Math.max(end, bytes.length - MARK.length + 1));
    return found;
  }
}

class PingClient {
  readonly #pipe: Pipe;
  readonly #counter = new AnswerCounter();
  /** As many digits for every id: all requests are equally long. */
  #lastId = 1_000_000;
  #answered: (answers: number, chunk: Buffer) => void = () => {};

  constructor(pipe: Pipe) {
    this.#pipe = pipe;
    pipe.onData((chunk) => this.#answered(this.#counter.count(chunk), chunk));
  }

  /** The handshake, and one ping whose answer is looked at. */
  async greet(): Promise<void> {
    await this.#one('rpc.handshake', HANDSHAKE, '"result":{');
    await this.#one('system.ping', undefined, '"ok":true');
  }

  /** Pings until the time is over and every answer is there. Answers in a second. */
  async pings(inFlight: number, durationMs: number): Promise<number> {
    let answers = 0;
    let open = 0;
    const send = (count: number): void => {
      open += count;
      this.#pipe.send(Array.from({ length: count }, () => this.#request('system.ping', undefined)));
    };
    const start = performance.now();
    let end = start;
    const done = new Promise<void>((resolve, reject) => {
      this.#answered = (count) => {
        answers += count;
        open -= count;
        end = performance.now();
        if (open < 0) reject(new Error('more answers than requests'));
        else if (end - start < durationMs) send(count);
        else if (open === 0) resolve();
      };
    });
    send(inFlight);
    await bounded(done, 'not every ping was answered', durationMs + ANSWER_WAIT_MS);
    return (answers / (end - start)) * 1000;
  }

  #request(method: string, params: object | undefined): string {
    return JSON.stringify({ jsonrpc: '2.0', id: ++this.#lastId, method, params });
  }

  async #one(method: string, params: object | undefined, expected: string): Promise<void> {
    let seen = '';
    const answered = new Promise<void>((resolve) => {
      this.#answered = (_count, chunk) => {
        seen += chunk.toString();
        if (seen.includes(expected) && seen.trimEnd().endsWith('}')) resolve();
      };
    });
    this.#pipe.send([this.#request(method, params)]);
    await bounded(answered, `no good answer to ${method}`, ANSWER_WAIT_MS);
  }
}

function onPipes(args: readonly string[], home: string, framing: Framing): Pipe {
  const child = startOnPipes(args, home);
  child.stdin.on('error', () => {});
  return {
    send: (texts) => child.stdin.write(framing(texts)),
    onData: (take) => child.stdout.on('data', take),
    close: () => stopOnPipes(child),
  };
}

async function onWebSocket(url: string, packs: boolean, close: () => Promise<void>): Promise<Pipe> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  await bounded(once(socket, 'open'), `${url} did not open`, ANSWER_WAIT_MS);
  return {
    send: (texts) => {
      if (packs) socket.send(texts.join('\n'));
      else for (const text of texts) socket.send(text);
    },
    onData: (take) => socket.on('message', take),
    async close() {
      socket.terminate();
      await close();
    },
  };
}

/** A server of `ping-process.ts` on a WebSocket. */
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
      const client = new PingClient(pipe);
      await client.greet();
      const measure = async ({ durationMs }: Settings): Promise<Measurement> => ({
        [name]: await client.pings(inFlight, durationMs),
      });
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
    // With one call at a time there is nothing to put together: it would be `bare` again.
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
