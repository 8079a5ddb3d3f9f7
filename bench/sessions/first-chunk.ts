/**
 * `first-chunk`: the time from the provider's write of the first chunk of its answer until a client has it,
 * milliseconds: over session RPC on a Unix socket of `handfast up`, and for `bare` with `fetch` from the provider
 * itself. The difference is the cost of Handfast. This process receives both, so an error of its clock is in both.
 *
 * `turn-request` is the opposite direction: from sending the prompt until the provider has the request.
 */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect as openSocket } from 'node:net';
import { join } from 'node:path';
import { bounded } from '../control.ts';
import { median } from '../workloads/workload.ts';
import { LineClient } from './line-client.ts';
import { Forked, type Scratch, startUp, type Up } from './processes.ts';
import { ANSWER_WAIT_MS, type Contender, HANDSHAKE, type Measurement, type Workload } from './workload.ts';

export interface ProviderHello {
  readonly url: string;
}

const CHUNK = 'first-chunk';
const REQUEST = 'turn-request';

const now = (): number => performance.timeOrigin + performance.now();

/** One answer: the arrival of its first chunk, and the times in that chunk. */
interface FirstChunk {
  readonly sentAt: number;
  readonly seenAt: number;
  readonly text: string;
}

function measurementOf(chunks: readonly FirstChunk[]): Measurement {
  const numbers = chunks.map(({ sentAt, seenAt, text }) => {
    const [arrived, written] = text.split(' ').map(Number) as [number, number];
    return { chunk: seenAt - written, request: arrived - sentAt };
  });
  return {
    [CHUNK]: median(numbers.map(({ chunk }) => chunk)),
    [REQUEST]: median(numbers.map(({ request }) => request)),
  };
}

function bareReader(url: string): Contender {
  const body = JSON.stringify({ model: 'bench', stream: true, messages: [{ role: 'user', content: 'continue' }] });
  const headers = { 'content-type': 'application/json' };
  const once = async (): Promise<FirstChunk> => {
    const sentAt = now();
    const response = await fetch(`${url}/chat/completions`, { method: 'POST', body, headers });
    const decoder = new TextDecoder();
    let first: FirstChunk | undefined;
    for await (const bytes of response.body as ReadableStream<Uint8Array>) {
      const data = decoder.decode(bytes, { stream: true });
      if (first !== undefined || !data.startsWith('data: {')) continue;
      const { choices } = JSON.parse(data.slice(6, data.indexOf('\n')));
      first = { sentAt, seenAt: now(), text: choices[0].delta.content as string };
    }
    if (first === undefined) throw new Error('the provider said nothing');
    return first;
  };
  return {
    name: 'bare',
    async measure({ firstChunks }) {
      const chunks: FirstChunk[] = [];
      while (chunks.length < firstChunks) chunks.push(await bounded(once(), 'no answer', ANSWER_WAIT_MS));
      return measurementOf(chunks);
    },
  };
}

function sessionReader(client: LineClient): Contender {
  const turn = async (session_id: string): Promise<FirstChunk> => {
    let first: Omit<FirstChunk, 'sentAt'> | undefined;
    const ended = new Promise<void>((resolve, reject) => {
      client.onEvent = ({ type, payload }) => {
        if (type === 'session.stream.chunk') first ??= { seenAt: now(), text: payload.chunk.answerText as string };
        if (type === 'session.completed') resolve();
        if (type === 'session.error') reject(new Error(`the turn failed: ${JSON.stringify(payload)}`));
      };
    });
    ended.catch(() => {});
    const sentAt = now();
    await client.call('session.send', { session_id, text: 'continue' });
    await bounded(ended, 'the turn did not end', ANSWER_WAIT_MS);
    if (first === undefined) throw new Error('the turn said nothing');
    return { sentAt, ...first };
  };
  return {
    name: 'handfast',
    async measure({ firstChunks }) {
      // A new session each time: the conversation would grow from round to round.
      const { session_id } = await client.call('session.create');
      const { subscription_id } = await client.call('events.subscribe', { session_id });
      const chunks: FirstChunk[] = [];
      while (chunks.length < firstChunks) chunks.push(await turn(session_id));
      await client.call('events.unsubscribe', { subscription_id });
      await client.call('session.delete', { session_id });
      return measurementOf(chunks);
    },
  };
}

/** A server as its users run it, with a provider; other workloads use its `/rpc`. */
export interface ServedUp extends AsyncDisposable {
  readonly providerUrl: string;
  readonly socketPath: string;
  readonly rpcUrl: string;
}

/** Starts the provider, and `handfast up` on a Unix socket and on HTTP. */
export async function serveUp(scratch: Scratch): Promise<ServedUp> {
  const provider = await Forked.start<ProviderHello, never, never>('./provider-process.ts', []);
  let up: Up | undefined;
  const stop = async (): Promise<void> => {
    await up?.stop();
    await provider.stop();
  };
  try {
    const home = scratch.make();
    const socketPath = join(home, 'rpc.sock');
    const config = join(home, 'handfast.yaml');
    writeFileSync(
      config,
      `listen:
  - http://127.0.0.1:0
  - unix://${socketPath}
auth:
  required: false
providers:
  compatible:
    base_url: ${provider.hello.url}
    models: [bench]
`,
    );
    up = await startUp(home, config);
    const http = up.listeners.find((address) => address.startsWith('http:'));
    if (http === undefined) throw new Error('handfast up has no HTTP address');
    const rpcUrl = new URL('/rpc', http.replace(/^http/, 'ws')).href;
    return { providerUrl: provider.hello.url, socketPath, rpcUrl, [Symbol.asyncDispose]: stop };
  } catch (thrown) {
    await stop();
    throw thrown;
  }
}

/** Measures first chunks through a server that runs. */
export async function firstChunks({ providerUrl, socketPath }: ServedUp): Promise<Workload> {
  const socket = openSocket(socketPath);
  await bounded(once(socket, 'connect'), 'no connection', ANSWER_WAIT_MS);
  const client = new LineClient(socket, socket);
  await client.call('rpc.handshake', HANDSHAKE);
  await client.call('model.select', { provider: 'compatible', model_id: 'bench', thinking_level: 'OFF' });
  return {
    name: CHUNK,
    transport: 'unix',
    figures: [CHUNK, REQUEST].map((name) => ({ name, unit: 'ms', lowerIsBetter: true })),
    contenders: [bareReader(providerUrl), sessionReader(client)],
    async close() {
      const closed = once(socket, 'close');
      socket.end();
      await bounded(closed, 'a connection did not close', ANSWER_WAIT_MS);
    },
  };
}
