/**
 * Sends the requests of one connection to a server over streamable HTTP, and records whether the server responded, refused the token,
 * or forgot the session. The transport of the official client sends by this `fetch`.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { backoffMs } from '../base/backoff.ts';
import { httpFetch } from '../base/http/http-fetch.ts';
import { isEventStream } from '../base/http/sse-reader.ts';
import { MAX_REPLY_VALUES } from '../wire/depth.ts';
import type { McpAuthorization } from './authorization.ts';
import { challengeOf } from './challenge.ts';
import { cutOff, isCutOff, isRefusedLink, watched } from './cut-off.ts';
import type { McpAddress } from './definition.ts';
import { errorBody, nothingFor, readMessages } from './http-messages.ts';
import { forgetsSession, messageForgetsSession } from './http-problem.ts';
import type { Id, Message, MessageReader } from './read-message.ts';
import type { AuthProvider, McpSdk, Transport } from './sdk.ts';
import { MAX_MESSAGE, tooLong } from './too-long.ts';

type Init = Parameters<typeof httpFetch>[1];
const NOT_FOUND = 404;
const ACCEPTED = 202;
/** The data of an error that reports an unknown session. */
const FORGOTTEN = 'the server does not know the session';
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
  /** Called when a stream was cut off: the server may have ended. */
  readonly onDoubt: () => void;
}

export class OverHttp {
  readonly transport: InstanceType<McpSdk['StreamableHTTPClientTransport']>;
  /** The server sent any response. */
  answered = false;
  /** True if the server refused the last message for lack of a token. */
  unauthorized = false;
  /** True if the server no longer knows the session. */
  expired = false;
  readonly #options: OverHttpOptions;
  readonly #end = new AbortController();
  /** The request that the transport sends now. */
  readonly #sending = new AsyncLocalStorage<Id | undefined>();
  /** The tokens that were refused, by the responses that report it. */
  readonly #refused = new WeakMap<Response, string | undefined>();
  /** Requests that got no response, by their errors: true where the server may have received it. */
  readonly #unanswered = new WeakMap<object, boolean>();
  /** Streams of notifications that are open, or asked for. */
  #streams = 0;
  /**
   * Time at which the last of them was opened, in monotonic milliseconds, and the number of earlier ones that ended at
   * once.
   */
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

  /** Returns true if the server may have received a request that got no response; undefined for another failure. */
  mayHaveReceived(thrown: object): boolean | undefined {
    return isCutOff(thrown) || this.#unanswered.get(thrown);
  }

  /** Returns true if the server refused a request because it does not know the session: it did not run the request. */
  forgot(thrown: unknown): boolean {
    const { status, data } = (thrown ?? {}) as { readonly status?: unknown; readonly data?: unknown };
    return this.expired && (status === NOT_FOUND || data === FORGOTTEN);
  }

  /** Ends the waits for tokens. */
  end(): void {
    this.#end.abort();
  }

  /**
   * Returns the milliseconds to wait before a stream is opened again: a server that ends each at once would get one
   * request after the other.
   */
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
    if (isStream && this.#sending.getStore() === undefined) this.#opened = performance.now();
    const isOpen = isStream && response.ok && isEventStream(response.headers.get('content-type'));
    if (isStream && !isOpen) this.#streams -= 1;
    if (isStream && response.ok && !isOpen) {
      await response.body?.cancel();
      // The server has no stream, and the client would ask for one again and again.
      return new Response(null, { status: NOT_ALLOWED });
    }
    let tooMuch: 'bytes' | 'values' | undefined;
    const limited = watched(response, {
      maxBytes: MAX_MESSAGE,
      maxValues: MAX_REPLY_VALUES,
      onEnd: isOpen ? streamEnded : undefined,
      onTooLong: (unit) => {
        tooMuch = unit;
      },
    });
    if (response.status >= 400) return this.#failed(limited, init);
    if (init?.method === 'POST') this.unauthorized = false;
    if (!response.ok || init?.method === 'DELETE') return limited;
    // Without a stream nothing can bring the response later.
    if (response.status === ACCEPTED) return own === undefined || this.#streams > 0 ? limited : nothingFor(own);
    return readMessages(limited, this.#options.reader, own, {
      onLost: (thrown) => {
        if (tooMuch === undefined && init?.signal?.aborted !== true) this.#unanswered.set(thrown, true);
      },
      tooLong: () => (own === undefined || tooMuch === undefined ? undefined : tooLong(own, tooMuch)),
      received: (message) => this.#received(message),
    });
  }

  /** Marks an error of JSON-RPC that reports an unknown session. */
  #received(message: Message): Message {
    if (this.transport.sessionId === undefined || !('error' in message)) return message;
    if (!messageForgetsSession(message.error.message)) return message;
    this.expired = true;
    return { ...message, error: { ...message.error, data: FORGOTTEN } };
  }

  /** Returns an error response, with a part of its body. */
  async #failed(response: Response, init: Init): Promise<Response> {
    const { status, statusText, headers } = response;
    const body = await errorBody(response).catch(() => '');
    const isForgotten = this.transport.sessionId !== undefined && forgetsSession(status, body);
    if (isForgotten) this.expired = true;
    if (isForgotten && init?.method === 'GET') this.#options.onDoubt();
    // Of the last request: a refused token may have been renewed since.
    if (init?.method === 'POST') this.unauthorized = !isForgotten && (status === 401 || status === 403);
    const failed = new Response(body, { status: isForgotten ? NOT_FOUND : status, statusText, headers });
    if (this.unauthorized) this.#refused.set(failed, bearerOf(init?.headers));
    return failed;
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

/** Returns the token that a request was sent with. */
const bearerOf = (headers: unknown): string | undefined =>
  new Headers(headers as ConstructorParameters<typeof Headers>[0]).get('authorization')?.replace(/^Bearer /, '');
