/**
 * The requests of one connection to a server over streamable HTTP, and what is known of it by its responses: whether it was reached,
 * refused the token, or forgot the session. The transport of the official client sends them by this `fetch`.
 *
 * Used by `connection.ts`.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { backoffMs } from '../base/backoff.ts';
import { httpFetch } from '../base/http/http-fetch.ts';
import { MAX_REPLY_VALUES } from '../wire/depth.ts';
import type { McpAuthorization } from './authorization.ts';
import { challengeOf } from './challenge.ts';
import { cutOff, isCutOff, isRefusedLink, watched } from './cut-off.ts';
import type { McpAddress } from './definition.ts';
import { errorBody, readMessages } from './http-messages.ts';
import { forgetsSession, messageForgetsSession } from './http-problem.ts';
import type { Message, MessageReader } from './read-message.ts';
import { unreadable } from './read-message.ts';
import type { AuthProvider, McpSdk, Transport } from './sdk.ts';
import { MAX_MESSAGE, tooLong } from './too-long.ts';

type Id = string | number;
type Init = Parameters<typeof httpFetch>[1];
const NOT_FOUND = 404;
const ACCEPTED = 202;
const NOT_ALLOWED = 405;
/** Least wait before a stream is opened again, also where the server wishes a shorter one. */
const MIN_REOPEN_MS = 250;
/** Waits before a stream of notifications is opened again that ends at once, each time. */
const REOPEN = { firstDelayMs: 1_000, maxDelayMs: 60_000 };
/** A stream that lived so long did not end at once. */
const LIVED_MS = 10_000;

export interface OverHttpOptions {
  readonly sdk: McpSdk;
  readonly address: NonNullable<McpAddress['http']>;
  readonly authorization: McpAuthorization | undefined;
  readonly reader: MessageReader;
  /** A stream was cut off: the server may have ended. */
  readonly onDoubt: () => void;
}

export class OverHttp {
  readonly transport: InstanceType<McpSdk['StreamableHTTPClientTransport']>;
  /** The server sent any response. */
  answered = false;
  /** It refused the last message for lack of a token. */
  unauthorized = false;
  /** It no longer knows the session. */
  expired = false;
  readonly #options: OverHttpOptions;
  readonly #end = new AbortController();
  /** The request whose message is sent. */
  readonly #sending = new AsyncLocalStorage<Id | undefined>();
  /** The tokens that were refused, by the responses that say so. */
  readonly #refused = new WeakMap<Response, string | undefined>();
  /** Requests that got no response, by their errors: true where the server may have received it. */
  readonly #unanswered = new WeakMap<object, boolean>();
  /** Streams of notifications that are open, or asked for. */
  #streams = 0;
  /** When the last of them was opened, in monotonic milliseconds, and how many before it ended at once. */
  #opened = 0;
  #ended = 0;

  constructor(options: OverHttpOptions) {
    this.#options = options;
    const { sdk, address, authorization, reader } = options;
    this.transport = new sdk.StreamableHTTPClientTransport(new URL(address.url), {
      requestInit: address.headers === undefined ? {} : { headers: address.headers },
      ...(authorization && { authProvider: this.#bearer(authorization) }),
      fetch: (to, init) => this.#fetch(to, init),
      reconnectionScheduler: (reopen, wished) => {
        const timer = setTimeout(reopen, this.#reopensIn(wished));
        return () => clearTimeout(timer);
      },
    });
    const { transport } = this;
    const send = transport.send.bind(transport);
    transport.send = (message: Message, settings?: Parameters<Transport['send']>[1]) => {
      reader.sent(message);
      const id = 'id' in message && 'method' in message ? message.id : undefined;
      const onRequestStreamEnd = (): void => {
        settings?.onRequestStreamEnd?.();
        // To a request that had its response this is a second one, which is ignored.
        if (id !== undefined) transport.onmessage?.(cutOff(id));
      };
      return this.#sending.run(id, () => send(message, { ...settings, onRequestStreamEnd }));
    };
  }

  /** Whether the server may have received a request that got no response; undefined for another failure. */
  mayHaveReceived(thrown: object): boolean | undefined {
    return isCutOff(thrown) || this.#unanswered.get(thrown);
  }

  /** Whether a request was refused because the session is not known: it was not done. */
  forgot(thrown: unknown): boolean {
    return this.expired && (thrown as { readonly status?: unknown } | null)?.status === NOT_FOUND;
  }

  /** No token is waited for any more. */
  end(): void {
    this.#end.abort();
  }

  /** How long to wait before a stream is opened again: a server that ends each at once would get one request after the other. */
  #reopensIn(wished: number): number {
    const least = Math.max(wished, MIN_REOPEN_MS);
    // The rest of a response is waited for within the time of its call.
    if (this.#sending.getStore() !== undefined) return least;
    if (performance.now() - this.#opened >= LIVED_MS) this.#ended = 0;
    const wait = this.#ended === 0 ? least : Math.max(least, backoffMs(this.#ended, REOPEN));
    this.#ended += 1;
    return wait;
  }

  async #fetch(to: string | URL, init: Init): Promise<Response> {
    const isStream = init?.method === 'GET';
    const own = init?.method === 'POST' ? this.#sending.getStore() : undefined;
    const streamEnded = (): void => {
      this.#streams -= 1;
      this.#options.onDoubt();
    };
    if (isStream) this.#streams += 1;
    // Its signal aborts when the transport is closed.
    const response = await httpFetch(to, init, MAX_MESSAGE).catch((thrown: unknown) => {
      if (init?.signal?.aborted !== true) this.#unanswered.set(thrown as object, !isRefusedLink(thrown));
      if (isStream) streamEnded();
      throw thrown;
    });
    this.answered = true;
    const isResumed = this.#sending.getStore() !== undefined;
    if (isStream && !isResumed) this.#opened = performance.now();
    if (isStream && response.ok && !isEventStream(response)) {
      this.#streams -= 1;
      await response.body?.cancel();
      // The server has none: it would be asked for again and again.
      return new Response(null, { status: NOT_ALLOWED });
    }
    let tooMuch: 'bytes' | 'values' | undefined;
    const limited = watched(response, {
      maxBytes: MAX_MESSAGE,
      maxValues: MAX_REPLY_VALUES,
      onEnd: isStream && response.ok ? streamEnded : undefined,
      onTooLong: (unit) => {
        tooMuch = unit;
      },
    });
    if (response.status >= 400) {
      if (isStream) this.#streams -= 1;
      return this.#failed(limited, init);
    }
    if (init?.method === 'POST') this.unauthorized = false;
    if (!response.ok || init?.method === 'DELETE') return limited;
    // Without a stream nothing can bring the response later.
    if (response.status === ACCEPTED) return own === undefined || this.#streams > 0 ? limited : this.#nothing(own);
    return readMessages(limited, this.#options.reader, own, {
      onLost: (thrown) => {
        if (tooMuch === undefined && init?.signal?.aborted !== true) this.#unanswered.set(thrown, true);
      },
      tooLong: () => (own === undefined || tooMuch === undefined ? undefined : tooLong(own, tooMuch)),
      isForgotten: (message) => this.transport.sessionId !== undefined && messageForgetsSession(message),
      forgotten: () => this.#forgotten(),
    });
  }

  /** An error response, with a part of its body. */
  async #failed(response: Response, init: Init): Promise<Response> {
    const { status, statusText, headers } = response;
    const body = await errorBody(response).catch(() => '');
    const isForgotten = this.transport.sessionId !== undefined && forgetsSession(status, body);
    if (isForgotten) this.#forgotten();
    if (isForgotten && init?.method === 'GET') this.#options.onDoubt();
    // Of the last request: a refused token may have been renewed since.
    if (init?.method === 'POST') this.unauthorized = !isForgotten && (status === 401 || status === 403);
    const failed = new Response(body, { status: isForgotten ? NOT_FOUND : status, statusText, headers });
    if (this.unauthorized) this.#refused.set(failed, bearerOf(init?.headers));
    return failed;
  }

  #forgotten(): void {
    this.expired = true;
  }

  #nothing(own: Id): Response {
    const messages = [unreadable(own, 'the server accepted the request and sent nothing')];
    const headers = { 'content-type': 'application/json' };
    return Object.assign(new Response(null, { status: 200, headers }), { json: async () => messages });
  }

  /** Adds the token of the sign-in to each request, and renews it when it is refused. */
  #bearer(authorization: McpAuthorization): AuthProvider {
    const { signal } = this.#end;
    return {
      token: () => authorization.token(signal),
      onUnauthorized: ({ response }) =>
        authorization.refused(this.#refused.get(response), challengeOf(response), signal),
    };
  }
}

const isEventStream = ({ headers }: Response): boolean =>
  /^text\/event-stream\b/i.test(headers.get('content-type') ?? '');

/** The token that a request was sent with. */
const bearerOf = (headers: unknown): string | undefined =>
  new Headers(headers as ConstructorParameters<typeof Headers>[0]).get('authorization')?.replace(/^Bearer /, '');
