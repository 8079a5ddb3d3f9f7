/**
 * One MCP client with a connection or an HTTP session: its terms, its running requests, the notifications that belong
 * to no request.
 *
 * A client on pipes may also send requests that stand alone; each then has separate terms.
 */
import { OpenById } from '../connection/open-by-id.ts';
import { Cancellation, NO_CANCELLATION } from './cancellation.ts';
import { ClientQuestions } from './client-questions.ts';
import { mayAsk } from './input-rounds.ts';
import {
  errorText,
  INVALID_REQUEST,
  invalidParams,
  isLogLevel,
  META_VERSION,
  metaOf,
  notificationText,
  type Params,
  type Received,
  type RequestId,
  RpcError,
  resultText,
  SERVER_ERROR,
  SESSION_VERSIONS,
} from './protocol.ts';
import { cannotAnswer, requireCapability } from './questions.ts';
import { changeNotification, isAtLeast, logText, type McpRequests, termsOf } from './requests.ts';
import type { Exchange, ServedRequest, Terms } from './served-request.ts';

/** Requests of one client that run at once. */
export const MAX_RUNNING = 1_024;

/** A request under way. */
class Running implements ServedRequest, Exchange {
  readonly id: RequestId;
  readonly method: string;
  readonly params: Params;
  readonly terms: Terms;
  readonly cancellation = new Cancellation();
  /** Grows with each request of the client. */
  readonly number: number;
  readonly #all: OpenById<Running>;
  readonly #back: Exchange;

  constructor(
    all: OpenById<Running>,
    number: number,
    id: RequestId,
    method: string,
    params: Params,
    terms: Terms,
    back: Exchange,
  ) {
    this.#all = all;
    this.number = number;
    this.id = id;
    this.method = method;
    this.params = params;
    this.terms = terms;
    this.#back = back;
  }

  get exchange(): Exchange {
    return this;
  }

  reply(text: string, status?: number): void {
    this.#all.delete(this.id);
    this.#back.reply(text, status);
  }

  notify(text: string): void {
    this.#back.notify(text);
  }

  ask(text: string): void {
    this.#back.ask(text);
  }

  end(): void {
    this.#back.end();
  }
}

export class McpSession {
  readonly #requests: McpRequests;
  readonly #unasked: (text: string) => void;
  /** By the ids as they are: `1` and `"1"` are two. */
  #running = new OpenById<Running>();
  #requestCount = 0;
  readonly #questions = new ClientQuestions();
  #terms: Terms | undefined;
  #endChanges: (() => void) | undefined;

  /** @param unasked sends a notification that belongs to no request */
  constructor(requests: McpRequests, unasked: (text: string) => void) {
    this.#requests = requests;
    this.#unasked = unasked;
    requests.host.answerBy(async (question, signal) => {
      if (this.#terms === undefined) throw cannotAnswer(question);
      requireCapability(question, this.#terms.capabilities);
      return this.#questions.ask(question, signal, this.#wayBack());
    });
  }

  /** The negotiated revision; undefined before `initialize`. */
  get version(): string | undefined {
    return this.#terms?.version;
  }

  get running(): number {
    return this.#running.size;
  }

  /** Serves a message. A message without a reply leaves the exchange alone. */
  receive(received: Received, exchange: Exchange): void {
    switch (received.kind) {
      case 'request':
        return this.#request(received.id, received.method, received.params, exchange);
      case 'notification':
        if (received.method === 'notifications/cancelled') this.cancel(received.params.requestId)?.exchange.end();
        return;
      case 'response':
        return this.#questions.answered(received.id, received);
      case 'invalid':
        return exchange.reply(errorText(received.id, INVALID_REQUEST, received.reason), 400);
    }
  }

  /** Ends every running request and sends the client nothing more. */
  close(): void {
    this.#endChanges?.();
    this.#questions.close();
    const running = this.#running.values();
    this.#running = new OpenById();
    for (const { cancellation } of running) cancellation.cancel();
  }

  #request(id: RequestId, method: string, params: Params, exchange: Exchange): void {
    if (method === 'initialize' && !(META_VERSION in metaOf(params))) return this.#initialize(id, params, exchange);
    let terms: Terms;
    try {
      terms = this.#termsFor(params);
    } catch (error) {
      return this.#requests.fail({ id, exchange, cancellation: NO_CANCELLATION }, error);
    }
    if (method === 'logging/setLevel' && !terms.stateless) return this.#setLevel(id, params, exchange);
    if (this.#running.get(id) !== undefined) {
      return exchange.reply(errorText(id, INVALID_REQUEST, 'a request with this id is running'), 400);
    }
    if (this.#running.size >= MAX_RUNNING) {
      return exchange.reply(
        errorText(id, SERVER_ERROR, `${MAX_RUNNING} requests are running; wait for one to end`),
        429,
      );
    }
    const running = new Running(this.#running, ++this.#requestCount, id, method, params, terms, exchange);
    this.#running.set(id, running);
    this.#requests.serve(running);
  }

  /**
   * Returns the terms of a request. One with a version in `_meta` stands alone. Throws `RpcError` for one without,
   * before `initialize`.
   */
  #termsFor(params: Params): Terms {
    const meta = metaOf(params);
    if (META_VERSION in meta) return termsOf(meta);
    if (this.#terms === undefined) throw new RpcError(INVALID_REQUEST, 'send initialize first', undefined, 400);
    return this.#terms;
  }

  #initialize(id: RequestId, params: Params, exchange: Exchange): void {
    if (this.#terms !== undefined) {
      return exchange.reply(errorText(id, INVALID_REQUEST, 'the session is initialized already'), 400);
    }
    const { protocolVersion: asked, capabilities } = params;
    // A client with an unsupported revision gets the newest supported one, as the protocol demands.
    const version = SESSION_VERSIONS.find((each) => each === asked) ?? SESSION_VERSIONS[0];
    const terms: Terms = {
      stateless: false,
      version,
      capabilities: (typeof capabilities === 'object' && capabilities !== null ? capabilities : {}) as Params,
      logLevel: 'info',
    };
    this.#terms = terms;
    const { server: serverInfo } = this.#requests;
    Promise.all([this.#requests.capabilities(), this.#requests.instructions()]).then(
      ([offered, instructions]) => {
        this.#followChanges();
        const result = { protocolVersion: version, capabilities: offered, serverInfo, instructions };
        exchange.reply(resultText(id, JSON.stringify(result)));
      },
      (error) => {
        this.#terms = undefined;
        this.#requests.fail({ id, exchange, cancellation: NO_CANCELLATION }, error);
      },
    );
  }

  #setLevel(id: RequestId, { level }: Params, exchange: Exchange): void {
    if (!isLogLevel(level)) {
      const { code, message } = invalidParams('params.level is not a level of log messages');
      return exchange.reply(errorText(id, code, message));
    }
    this.#terms = { ...(this.#terms as Terms), logLevel: level };
    exchange.reply(resultText(id, '{}'));
  }

  /** Cancels a request that runs, and gives it; its handlers do not reply any more. */
  cancel(id: unknown): ServedRequest | undefined {
    const running = this.#running.get(id);
    if (running === undefined) return undefined;
    this.#running.delete(id);
    running.cancellation.cancel();
    return running;
  }

  /**
   * Returns the function that sends a question: on the newest request that may ask, else on the stream of messages that
   * belong to no request.
   */
  #wayBack(): (text: string) => void {
    const [asking] = this.#running
      .values()
      .filter(({ method }) => mayAsk(method))
      .sort((one, other) => other.number - one.number);
    return asking === undefined ? this.#unasked : (text) => asking.ask(text);
  }

  #followChanges(): void {
    this.#endChanges = this.#requests.host.onChange((change) => {
      if (change.kind === 'log') {
        const { level, logger, data } = change;
        const least = this.#terms?.logLevel;
        if (isLogLevel(level) && least !== undefined && isAtLeast(level, least))
          this.#unasked(logText(level, logger, data));
        return;
      }
      // Requests that listen on the same pipes have separate resources.
      const { host } = this.#requests;
      if (change.kind === 'resource' && !host.isSubscribed(host, change.uri)) return;
      const { method, params } = changeNotification(change);
      this.#unasked(notificationText(method, params));
    });
  }
}
