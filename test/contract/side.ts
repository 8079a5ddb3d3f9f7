/**
 * A side of a connection as the connection suite drives it, and the facts about a dialect that the suite uses.
 *
 * `dialects.ts` has the dialects; `connection.test.ts` runs on each of them.
 */
import type { Call } from '../../src/connection/call.ts';
import { Connection, type ConnectionLimits, type ConnectionOwner } from '../../src/connection/connection.ts';
import type { CallLimits } from '../../src/connection/outgoing-calls.ts';
import type { Route, RunningRequest } from '../../src/connection/running-request.ts';
import type { Method } from '../../src/protocol/method.ts';
import type { CloseInfo, Link } from '../../src/transport/link.ts';
import type { Codec, Incoming, Message } from '../../src/wire/codec.ts';
import { asError, type HandfastError } from '../../src/wire/errors.ts';
import { within } from './recorder.ts';

/** Features that a dialect may lack by its specification. */
export type Feature =
  /** Requests that the connection itself serves: with a limit, a queue, deadlines, events, one reply or error. */
  | 'requests'
  /** Events that name the request they belong to. */
  | 'events of requests'
  /** Withdrawing a request. */
  | 'cancel'
  /** Cancel that has to be agreed. */
  | 'agreed cancel'
  /** A reply to input that is no message. */
  | 'refusals';

export interface DialectFactory {
  readonly name: string;
  /** Features that the dialect lacks, with the reason: tests that need one are not registered. */
  readonly lacks: Readonly<Partial<Record<Feature, string>>>;
  /** Returns a codec of a side that calls and serves, or of one that only serves and is as strict as the dialect demands. */
  codec(role: 'both' | 'serves'): Codec;
  side(options?: SideOptions): Side;
  /** Returns the method that the suite calls `name`. */
  method(name: string): Method;
  /** Returns the type of a notice of this name. */
  notice(name: string): string;
  /** Lines that are no messages, each with the code of the error that reports it. */
  readonly malformed: readonly (readonly [line: string, code: string])[];
  /** Results as the caller gets them: the reply's own fields. */
  resultOf(reply: unknown): unknown;
}

export interface SideOptions {
  readonly role?: 'both' | 'serves';
  readonly limits?: Partial<ConnectionLimits>;
}

/** Limits that no test of the suite reaches unless it sets them. */
const limits: ConnectionLimits = {
  maxParallel: 64,
  queueLimit: 64,
  maxDepth: 64,
  maxMessageBytes: 1024 * 1024,
  sendBufferBytes: 4 * 1024 * 1024,
  slowConsumerMs: 30_000,
  writeStallMs: 30_000,
};

/** A handler of the suite; `body` is the caller's argument. */
export type Work = (body: Message, request: RunningRequest) => unknown;

/** Requests that run until the test lets them go. */
export class Held {
  readonly started: string[] = [];
  /** `name:code` of those that were aborted, in order. */
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

/** One side of a connection: serves the methods that a test gives it, and records its input. */
export class Side implements ConnectionOwner {
  readonly connection: Connection;
  readonly dialect: DialectFactory;
  readonly notices: Incoming[] = [];
  readonly refusals: HandfastError[] = [];
  readonly malformedInput: HandfastError[] = [];
  readonly losses: CloseInfo[] = [];
  /** Handlers that were abandoned and still run. */
  stillRunning = 0;
  /** A promise that the handling of a notice awaits. */
  holdNotices: Promise<void> | undefined;
  /** True if a lost link ends everything; a test may change it. */
  settlesWhenLost = true;
  readonly routes = new Map<string, Route>();
  readonly #watchers = new Set<() => void>();

  constructor(dialect: DialectFactory, options: SideOptions = {}) {
    this.dialect = dialect;
    this.connection = new Connection(this, dialect.codec(options.role ?? 'both'), { ...limits, ...options.limits });
    this.connection.cancels = dialect.lacks.cancel === undefined;
  }

  /** Serves `name`; `exempt` = also where the concurrency limit is reached. */
  serve(name: string, work: Work, exempt = false): void {
    const method = this.dialect.method(name);
    const run = (body: unknown, request: RunningRequest): unknown =>
      work(this.dialect.resultOf(body) as Message, request);
    this.routes.set(method.request, { method, exempt, run });
  }

  /** Serves `name` until a test releases each request by the `name` in its body; records started and stopped ones. */
  serveHeld(name: string): Held {
    const held = new Held();
    this.serve(name, (body, request) => held.run(String(body.name), request));
    return held;
  }

  /** Calls `name`. The limits of the first call of a side count. */
  call(name: string, body: object = {}, options: object = {}, callLimits?: CallLimits): Call<unknown> {
    const calls = this.connection.calls(callLimits);
    return calls.call(this.dialect.method(name), body, options, (reply) => this.dialect.resultOf(reply));
  }

  /** Sends a message that belongs to no request. */
  notify(name: string, body: object): void {
    this.connection.notify(this.dialect.notice(name), body);
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

  protected look(): void {
    for (const check of this.#watchers) check();
  }

  // ConnectionOwner.

  route({ type }: Incoming): Route | undefined {
    return this.routes.get(type);
  }

  notice(incoming: Incoming): Promise<unknown> | undefined {
    this.notices.push(incoming);
    this.look();
    return this.holdNotices;
  }

  refused(error: HandfastError): void {
    this.refusals.push(error);
    this.look();
  }

  malformed(error: HandfastError): void {
    this.malformedInput.push(error);
    this.connection.refuse({ id: this.dialect.name === 'A2E' ? '' : null, idText: '' }, error);
    this.look();
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
    this.look();
  }
}

/** Connects two sides. */
export function connected(near: Side, far: Side, links: { readonly client: Link; readonly server: Link }): void {
  near.connection.attach(links.client);
  far.connection.attach(links.server);
}
