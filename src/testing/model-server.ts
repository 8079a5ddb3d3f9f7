/**
 * A model provider under the control of a test: it serves the streaming APIs of the real providers on a loopback port
 * and replies with the rounds that the test scripted, one per request, in order.
 *
 * A script is the `model` member of the session vectors (thought, text, tool calls, delay, error), with more ways to
 * fail.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer } from '../base/http/node-http.ts';
import { failureOf, type ModelApi, type ScriptedRound, streamOf } from './model-formats.ts';

export type { ModelApi, ScriptedCall, ScriptedRound } from './model-formats.ts';

/** A request the server was sent. */
export interface ModelRequest {
  readonly api: ModelApi;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of five different APIs.
  readonly body: any;
  /** Resolves when the client went away before the answer was complete. */
  readonly abandoned: Promise<void>;
}

export interface ModelServerOptions {
  /** Answers requests for which no round is scripted. Default: they fail with HTTP 400. */
  readonly otherwise?: (request: ModelRequest) => ScriptedRound | undefined;
  /** Ids answered by `GET …/models`. */
  readonly models?: readonly string[];
  /** The only API key that is accepted; a request with another is answered with 401, which repeats it. Default: any. */
  readonly key?: string;
}

export interface ModelServer extends AsyncDisposable {
  /** `http://127.0.0.1:port`. */
  readonly url: string;
  readonly requests: readonly ModelRequest[];
  /** Address of an API as a client is configured with it. */
  baseUrl(api: ModelApi): string;
  /** Appends rounds to the script. */
  play(rounds: readonly ScriptedRound[]): void;
  /** Rounds that were not asked for yet. */
  readonly left: number;
  /** Resolves with the request of this number, counted from 0, once it has arrived. */
  request(number: number): Promise<ModelRequest>;
}

const PATHS: readonly (readonly [RegExp, ModelApi])[] = [
  [/^\/api\/v1\/chat\/completions$/, 'openrouter'],
  [/\/chat\/completions$/, 'chat'],
  [/\/responses$/, 'responses'],
  [/\/messages$/, 'anthropic'],
  [/\/v1internal:streamGenerateContent$/, 'cloud-code'],
  [/:streamGenerateContent$/, 'google'],
];
const BASES: Readonly<Record<ModelApi, string>> = {
  openrouter: '/api/v1',
  chat: '/v1',
  responses: '/v1',
  anthropic: '/v1',
  google: '/v1beta',
  'cloud-code': '',
};

/** Starts the server on a free loopback port. */
export async function startModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  const script: ScriptedRound[] = [];
  const requests: ModelRequest[] = [];
  const waiting = new Map<number, (request: ModelRequest) => void>();
  const server: Server = createServer((incoming, response) => {
    const path = (incoming.url ?? '').split('?')[0] as string;
    const key = keyOf(incoming);
    if (options.key !== undefined && key !== options.key) {
      response.writeHead(401, { 'content-type': 'application/json' });
      const message = `the API key ${key} is not valid`;
      response.end(JSON.stringify({ type: 'error', error: { type: 'authentication_error', message } }));
      return;
    }
    if (incoming.method === 'GET') {
      const models = (options.models ?? ['scripted']).map((id) => ({ id, object: 'model' }));
      response.writeHead(path.endsWith('/models') ? 200 : 404, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ object: 'list', data: models }));
      return;
    }
    const api = PATHS.find(([pattern]) => pattern.test(path))?.[1];
    readJson(incoming).then(
      (body) => {
        if (api === undefined) {
          response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"message":"no such API"}}');
          return;
        }
        const request: ModelRequest = {
          api,
          path,
          headers: incoming.headers,
          body,
          abandoned: new Promise((resolve) => {
            response.once('close', () => {
              if (!response.writableFinished) resolve();
            });
          }),
        };
        const number = requests.push(request) - 1;
        waiting.get(number)?.(request);
        waiting.delete(number);
        const round = script.shift() ??
          options.otherwise?.(request) ?? { error: 'nothing is scripted for this request' };
        answer(response, request, round, number + 1);
      },
      () => response.destroy(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    requests,
    baseUrl: (api) => url + BASES[api],
    play: (rounds) => script.push(...rounds),
    get left() {
      return script.length;
    },
    request: (number) => {
      const there = requests[number];
      return there !== undefined ? Promise.resolve(there) : new Promise((resolve) => waiting.set(number, resolve));
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** Returns the key that a request has, in the header of any of the APIs. */
function keyOf({ headers }: IncomingMessage): string {
  const named = headers['x-api-key'] ?? headers['x-goog-api-key'];
  return String(named ?? headers.authorization?.replace(/^Bearer /, '') ?? '');
}

async function readJson(incoming: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString('utf8'));
}

function answer(response: ServerResponse, request: ModelRequest, round: ScriptedRound, number: number): void {
  if (round.breaks === 'silence') return;
  if (round.delay_ms) {
    const timer = setTimeout(() => answer(response, request, { ...round, delay_ms: 0 }, number), round.delay_ms);
    response.once('close', () => clearTimeout(timer));
    return;
  }
  if (round.error !== undefined && round.breaks !== 'error') {
    const status = round.status ?? 400;
    response.writeHead(status, { 'content-type': 'application/json', ...round.headers });
    response.end(round.body ?? failureOf(request.api, status, round.error, round.error_code));
    return;
  }
  const model = typeof request.body?.model === 'string' ? request.body.model : 'scripted';
  const { output, end } = streamOf(request.api, round, model, number);
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', ...round.headers });
  // The API's opening events, if any, are part of the output; headers go out at once even without them.
  response.flushHeaders();
  for (const event of output) response.write(event);
  if (round.breaks === 'stall') return;
  if (round.breaks === 'reset') {
    // Destroying at once would drop the bytes just written.
    response.write(': cut\n\n', () => response.socket?.resetAndDestroy());
    return;
  }
  if (round.breaks === undefined) for (const event of end) response.write(event);
  response.end();
}
