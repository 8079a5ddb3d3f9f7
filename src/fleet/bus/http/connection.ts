/**
 * The calls an orchestrator makes to one receiver: with the token, within their bounds, and with failures that say whether
 * the receiver may have got it.
 *
 * Used by `peer.ts` and `inbound.ts`.
 */
import type { Log } from '../../../base/log.ts';
import { FLEET_EXTENSION } from '../../../protocol/fleet.ts';
import type { HttpResponse } from '../../../transport/http/http-response.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { type Endpoint, endpointBelow, type HttpClient } from '../plain/http-client.ts';
import { type TokenSource, withToken } from '../plain/token.ts';
import { type HttpReplyBody, MAX_BODY_BYTES, RPC_PATH, readAnswer } from './messages.ts';

export interface ReceiverCallsOptions {
  readonly peer: string;
  readonly base: URL;
  readonly token: TokenSource | undefined;
  readonly client: HttpClient;
  readonly log: Log;
  /** Longest wait for anything but the end of a task, milliseconds. */
  readonly callTimeoutMs: number;
}

/** How a request is sent. */
export interface PostOptions {
  /** Our extension is named. */
  readonly fleet: boolean;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** It has left this machine; called again when it was sent again with another token. */
  readonly onSent?: () => void;
}

const EXTENSION: readonly string[] = ['A2A-Extensions', FLEET_EXTENSION];

export class ReceiverCalls {
  readonly #options: ReceiverCallsOptions;
  readonly #rpc: Endpoint;

  constructor(options: ReceiverCallsOptions) {
    this.#options = options;
    this.#rpc = endpointBelow(options.base, RPC_PATH);
  }

  /** Reads a page anybody may read. */
  get(path: string, headers?: readonly string[]): Promise<HttpResponse> {
    const { client, base, callTimeoutMs: timeoutMs } = this.#options;
    const to = endpointBelow(base, path);
    return client.exchange({ method: 'GET', to, headers, timeoutMs, maxBytes: MAX_BODY_BYTES });
  }

  /** Reads a page that asks for the token. */
  getWithToken(path: string): Promise<HttpResponse> {
    return withToken(this.#options.token, this.#options, (headers) => this.get(path, headers));
  }

  /** Sends a message and resolves with its answer, whatever that says. */
  post(body: string, { fleet, timeoutMs, signal, onSent }: PostOptions): Promise<HttpResponse> {
    const { client, token, callTimeoutMs } = this.#options;
    return withToken(token, this.#options, (shown) =>
      client.exchange({
        method: 'POST',
        to: this.#rpc,
        headers: fleet ? [...shown, ...EXTENSION] : shown,
        body,
        timeoutMs: timeoutMs ?? callTimeoutMs,
        maxBytes: MAX_BODY_BYTES,
        signal,
        onSent,
      }),
    );
  }

  /** What an answer says. Fails as `FleetPeer.send` does where the status already says all. */
  read({ status, body }: HttpResponse): HttpReplyBody {
    if (status === 200) return readAnswer(body);
    const { peer } = this.#options;
    const where = { peer, status };
    if (status === 413) throw fail('too_large', `${peer} takes no request of this length`, where);
    // Nothing was run: it does not know who asks, is stopping, or is no receiver at all.
    if (NOTHING_RUN.has(status)) throw fail('unreachable', `${peer} answered ${status}`, where);
    const said = readAnswer(body);
    if (said.kind !== 'unreadable') return said;
    throw fail('connection_lost', `${peer} answered ${status}`, where);
  }
}

const NOTHING_RUN: ReadonlySet<number> = new Set([403, 404, 405, 415, 503]);

/** A failure to send, out of what the receiver said. */
export function refusalOf(said: Exclude<HttpReplyBody, { kind: 'message' }>, peer: string): HandfastError {
  switch (said.kind) {
    case 'busy': {
      const reason = said.inFlight ? 'in_flight' : 'context';
      return fail('over_capacity', `${peer} is busy`, { reason, retry_after_ms: (said.retryAfterS ?? 30) * 1000 });
    }
    case 'error':
      return fail('invalid_message', `${peer} refused the request: ${said.text}`, { code: said.code });
    case 'unreadable':
      return fail('connection_lost', `${peer} answered what is no answer: ${said.why}`);
  }
}
