/**
 * The dialects the connection suite runs on, and a side of a connection as the suite drives it. To add a dialect, write a
 * `DialectFactory` and put it into `dialects` below.
 */
import { Connection, type ConnectionLimits, type ConnectionOwner } from '../../src/connection/connection.ts';
import type { CallLimits } from '../../src/connection/outgoing-calls.ts';
import type { Route, RunningRequest } from '../../src/connection/running-request.ts';
import { type Method, untyped } from '../../src/protocol/method.ts';
import type { CloseInfo, Link } from '../../src/transport/link.ts';
import { A2ECodec } from '../../src/wire/a2e.ts';
import type { Codec, Incoming, Message } from '../../src/wire/codec.ts';
import { asError, type HandfastError } from '../../src/wire/errors.ts';
import { JsonRpcCodec } from '../../src/wire/jsonrpc.ts';
import { within } from './recorder.ts';

export interface DialectFactory {
  readonly name: string;
  /** A codec of a side that calls and serves, or of one that only serves and is as strict as the dialect wants it. */
  codec(role: 'both' | 'serves'): Codec;
  /** The method the suite calls `name`. */
  method(name: string): Method;
  /** The type of a notice of this name. */
  notice(name: string): string;
  /** True where events name their request; else they arrive as notices. */
  readonly eventsNameTheirRequest: boolean;
  /** Lines that are no messages, each with the code of the error they get as their reply. */
  readonly malformed: readonly (readonly [line: string, code: string])[];
  /** Results as the caller gets them: the reply's own fields. */
  resultOf(reply: unknown): unknown;
}

const a2e: DialectFactory = {
  name: 'A2E',
  codec: () => new A2ECodec(),
  method: (name) => ({ ...untyped(`${name}/req`), reply: `${name}/resp`, event: `${name}/event` }),
  notice: (name) => `${name}/push`,
  eventsNameTheirRequest: true,
  malformed: [
    ['{', 'parse_error'],
    ['[]', 'invalid_message'],
    ['null', 'invalid_message'],
    [`{"type":"x/req","id":"1","deep":${'['.repeat(65)}${']'.repeat(65)}}`, 'too_large'],
    ['{"id":"untyped"}', 'invalid_message'],
  ],
  resultOf(reply) {
    const { type, id, req_id, cursor, ts, a2e: _a2e, version, ...own } = reply as Message;
    return own;
  },
};

const jsonRpc: DialectFactory = {
  name: 'JSON-RPC',
  codec: (role) => new JsonRpcCodec({ calls: role === 'both' }),
  method: (name) => ({ ...untyped(name), event: 'event' }),
  notice: (name) => name,
  eventsNameTheirRequest: false,
  malformed: [
    ['{', 'parse_error'],
    ['[]', 'batch_not_supported'],
    ['null', 'invalid_message'],
    [`{"jsonrpc":"2.0","id":1,"method":"m","params":${'['.repeat(65)}${']'.repeat(65)}}`, 'too_large'],
    ['{"jsonrpc":"2.0","id":1}', 'invalid_message'],
  ],
  resultOf: (reply) => reply,
};

export const dialects: readonly DialectFactory[] = [a2e, jsonRpc];

/** Limits that nothing in the suite reaches unless a test says so. */
const limits: ConnectionLimits = {
  maxParallel: 64,
  queueLimit: 64,
  maxDepth: 64,
  maxMessageBytes: 1024 * 1024,
  sendBufferBytes: 4 * 1024 * 1024,
  slowConsumerMs: 30_000,
  writeStallMs: 30_000,
};

/** A handler of the suite; `body` is what the caller gave. */
export type Work = (body: Message, request: RunningRequest) => unknown;

/** Requests that run until the test lets them go. */
export class Held {
  readonly started: string[] = [];
  /** `name:code` of those that were told to stop, in order. */
  readonly stopped: string[] = [];
  readonly #running = new Map<string, PromiseWithResolvers<unknown>>();

  run(name: string, { signal }: RunningRequest): Promise<unknown> {
    const running = Promise.withResolvers<unknown>();
    this.#running.set(name, running);
    this.started.push(name);
    signal.addEventListener('abort', () => this.stopped.push(`${name}:${(signal.reason as HandfastError).code}`));
    return running.promise;
  }

  /** Ends the request of this name with a result, or with an error. */
  release(name: string, error?: Error): void {
    if (error === undefined) this.#running.get(name)?.resolve({ name });
    else this.#running.get(name)?.reject(error);
  }
}

/** One side of a connection: serves what a test gives it, and writes down what it hears. */
export class Side implements ConnectionOwner {
  readonly connection: Connection;
  readonly dialect: DialectFactory;
  readonly notices: Incoming[] = [];
  readonly refusals: HandfastError[] = [];
  readonly malformedInput: HandfastError[] = [];
  readonly losses: CloseInfo[] = [];
  /** Handlers that were abandoned and still run. */
  stillRunning = 0;
  /** What handling a notice waits for. */
  holdNotices: Promise<void> | undefined;
  /** What a lost link means: everything ends, unless a test says otherwise. */
  settlesWhenLost = true;
  readonly #routes = new Map<string, Route>();
  readonly #watchers = new Set<() => void>();

  constructor(
    dialect: DialectFactory,
    options: {
      readonly role?: 'both' | 'serves';
      readonly limits?: Partial<ConnectionLimits>;
    } = {},
  ) {
    this.dialect = dialect;
    this.connection = new Connection(this, dialect.codec(options.role ?? 'both'), { ...limits, ...options.limits });
    this.connection.cancels = true;
  }

  /** Serves `name`; `exempt` = also where the concurrency limit is reached. */
  serve(name: string, work: Work, exempt = false): void {
    const method = this.dialect.method(name);
    const run = (body: unknown, request: RunningRequest): unknown =>
      work(this.dialect.resultOf(body) as Message, request);
    this.#routes.set(method.request, { method, exempt, run });
  }

  /** Serves `name` until a test lets each request go by the `name` in its body; notes what started and what was stopped. */
  serveHeld(name: string): Held {
    const held = new Held();
    this.serve(name, (body, request) => held.run(String(body.name), request));
    return held;
  }

  /** Calls `name`. The limits of the first call of a side count. */
  call(name: string, body: object = {}, options: object = {}, callLimits?: CallLimits) {
    const calls = this.connection.calls(callLimits);
    return calls.call(this.dialect.method(name), body, options, (reply) => this.dialect.resultOf(reply));
  }

  /** Resolves when `done` is true; looks after everything that arrives. */
  async until(done: () => boolean, what: string): Promise<void> {
    const waiting = Promise.withResolvers<void>();
    const check = (): void => {
      if (done()) waiting.resolve();
    };
    this.#watchers.add(check);
    const timer = setInterval(check, 5);
    check();
    await within(waiting.promise, what, 20_000).finally(() => {
      clearInterval(timer);
      this.#watchers.delete(check);
    });
  }

  #look(): void {
    for (const check of this.#watchers) check();
  }

  // ConnectionOwner.

  route({ type }: Incoming): Route | undefined {
    return this.#routes.get(type);
  }

  notice(incoming: Incoming): Promise<unknown> | undefined {
    this.notices.push(incoming);
    this.#look();
    return this.holdNotices;
  }

  refused(error: HandfastError): void {
    this.refusals.push(error);
    this.#look();
  }

  malformed(error: HandfastError): void {
    this.malformedInput.push(error);
    this.connection.refuse({ id: this.dialect.name === 'A2E' ? '' : null, idText: '' }, error);
    this.#look();
  }

  failed(_request: RunningRequest, thrown: unknown): HandfastError {
    return asError(thrown);
  }

  abandoned(change: 1 | -1): void {
    this.stillRunning += change;
  }

  ended(): void {
    void this.connection.link?.close('ended');
  }

  linkLost(cause: CloseInfo): void {
    this.losses.push(cause);
    if (this.settlesWhenLost) this.connection.settle(() => asError(new Error(cause.reason), 'connection_lost'));
    this.#look();
  }
}

/** Two sides of one connection. */
export function connected(near: Side, far: Side, links: { readonly client: Link; readonly server: Link }): void {
  near.connection.attach(links.client);
  far.connection.attach(links.server);
}
