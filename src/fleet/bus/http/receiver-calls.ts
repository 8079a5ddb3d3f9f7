/**
 * The calls an orchestrator makes to one receiver: with the token, within their bounds, and with failures that say whether
 * the receiver may have got it.
 *
 * Used by `http-peer.ts`.
 */
import type { Log } from '../../../host/context.ts';
import { FLEET_EXTENSION } from '../../../protocol/fleet.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { type HttpReplyBody, MAX_BODY_BYTES, RPC_PATH, readAnswer } from './dialect.ts';
import { below, type Exchange, type HttpAnswer, type HttpClient } from './exchange.ts';
import { type TokenSource, withToken } from './token.ts';

export interface ReceiverCallsOptions {
  readonly peer: string;
  readonly base: URL;
  readonly token: TokenSource | undefined;
  readonly client: HttpClient;
  readonly log: Log;
  /** Longest wait for anything but the end of a task, milliseconds. */
  readonly callTimeoutMs: number;
  readonly stopping: AbortSignal;
}

export class ReceiverCalls {
  readonly #options: ReceiverCallsOptions;

  constructor(options: ReceiverCallsOptions) {
    this.#options = options;
  }

  /** Reads a page anybody may read. */
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<HttpAnswer> {
    const { client, base, callTimeoutMs: timeoutMs, stopping: signal } = this.#options;
    return client.exchange({
      method: 'GET',
      url: below(base, path),
      headers,
      timeoutMs,
      maxBytes: MAX_BODY_BYTES,
      signal,
    });
  }

  /** Reads a page that asks for the token. */
  getWithToken(path: string): Promise<HttpAnswer> {
    return withToken(this.#options.token, this.#options, (headers) => this.get(path, headers));
  }

  /** Sends a request; `sent` resolves when it has left this machine for the first time. */
  post(
    body: string,
    how: { readonly fleet: boolean; readonly timeoutMs?: number; readonly signal?: AbortSignal },
  ): Exchange {
    const { client, base, token, callTimeoutMs } = this.#options;
    const { fleet, timeoutMs = callTimeoutMs, signal } = how;
    const sent = Promise.withResolvers<void>();
    const extension: Record<string, string> = fleet ? { 'A2A-Extensions': FLEET_EXTENSION } : {};
    const answer = withToken(token, this.#options, (shown) => {
      const headers = { ...shown, ...extension };
      const url = below(base, RPC_PATH);
      const begun = client.begin({ method: 'POST', url, headers, body, timeoutMs, maxBytes: MAX_BODY_BYTES, signal });
      void begun.sent.then(sent.resolve);
      return begun.answer;
    });
    answer.catch(() => {}).finally(() => sent.resolve());
    return { sent: sent.promise, answer };
  }

  /** What an answer says. Fails as `FleetPeer.send` does where the status already says all. */
  read({ status, body }: HttpAnswer): HttpReplyBody {
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
