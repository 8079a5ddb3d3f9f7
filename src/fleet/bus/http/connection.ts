/**
 * The calls an orchestrator makes to one receiver: with the token, within their bounds, and with failures that say whether
 * the receiver may have received it.
 */
import type { Log } from '../../../base/log.ts';
import type { TokenSource } from '../../../connection/token.ts';
import { FLEET_EXTENSION } from '../../../protocol/fleet.ts';
import type { HttpResponse } from '../../../transport/http/http-response.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { type Endpoint, endpointBelow, type HttpClient } from '../plain/http-client.ts';
import { MAX_BODY_BYTES } from '../plain/http-server.ts';
import { busyFailure } from '../plain/rpc.ts';
import { withToken } from '../plain/token.ts';
import { type HttpReplyBody, RPC_PATH, readReply } from './messages.ts';

export interface HttpConnectionOptions {
  readonly peer: string;
  readonly base: URL;
  readonly token: TokenSource | undefined;
  readonly client: HttpClient;
  readonly log: Log;
  /** Longest wait for anything but the end of a task, milliseconds. */
  readonly callTimeoutMs: number;
}

export interface PostOptions {
  /** The request names the fleet extension. */
  readonly fleet: boolean;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** The request was given to the system; called again when it is sent again with another token. */
  readonly onSent?: () => void;
}

const EXTENSION: readonly string[] = ['A2A-Extensions', FLEET_EXTENSION];

export class HttpConnection {
  readonly #options: HttpConnectionOptions;
  readonly #rpc: Endpoint;

  constructor(options: HttpConnectionOptions) {
    this.#options = options;
    this.#rpc = endpointBelow(options.base, RPC_PATH);
  }

  /** Reads a page that needs no token. */
  get(path: string, headers?: readonly string[]): Promise<HttpResponse> {
    const { client, base, callTimeoutMs: timeoutMs } = this.#options;
    const to = endpointBelow(base, path);
    return client.exchange({ method: 'GET', to, headers, timeoutMs, maxBytes: MAX_BODY_BYTES });
  }

  /** Reads a page that needs the token. */
  getWithToken(path: string): Promise<HttpResponse> {
    return withToken(this.#options.token, this.#options, (headers) => this.get(path, headers));
  }

  /** Sends a message and resolves with its response, success or error. */
  post(body: string, { fleet, timeoutMs, signal, onSent }: PostOptions): Promise<HttpResponse> {
    const { client, token, callTimeoutMs } = this.#options;
    return withToken(token, this.#options, (headers) =>
      client.exchange({
        method: 'POST',
        to: this.#rpc,
        headers: fleet ? [...headers, ...EXTENSION] : headers,
        body,
        timeoutMs: timeoutMs ?? callTimeoutMs,
        maxBytes: MAX_BODY_BYTES,
        signal,
        onSent,
      }),
    );
  }

  /** Reads a response. Fails as `FleetPeer.send` does where its status decides. */
  read({ status, body }: HttpResponse): HttpReplyBody {
    if (status === 200) return readReply(body);
    const { peer } = this.#options;
    const where = { peer, status };
    if (status === 413) throw fail('too_large', `${peer} refuses a request of this length`, where);
    // Nothing was run: the caller is unknown there, it is stopping, or it is not a receiver.
    if (NOTHING_RUN.has(status)) throw fail('unreachable', `${peer} responded with status ${status}`, where);
    const reply = readReply(body);
    if (reply.kind !== 'malformed') return reply;
    throw fail('connection_lost', `${peer} responded with status ${status}`, where);
  }
}

const NOTHING_RUN: ReadonlySet<number> = new Set([403, 404, 405, 415, 503]);

/** Returns the failure to send that a receiver's reply means. */
export function refusalOf(reply: Exclude<HttpReplyBody, { kind: 'message' }>, peer: string): HandfastError {
  switch (reply.kind) {
    case 'busy':
      return busyFailure(peer, reply.text, reply.data);
    case 'error':
      return fail('invalid_message', `${peer} refused the request: ${reply.text}`, { code: reply.code });
    case 'malformed':
      return fail('connection_lost', `${peer} sent an invalid response: ${reply.reason}`);
  }
}
