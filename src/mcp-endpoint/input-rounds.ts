/**
 * Questions to clients whose requests stand alone. The server cannot send a request to such a client: the reply to its
 * request lists the open questions (`input_required`), and the client sends the request again with the answers.
 * Meanwhile the call waits here.
 *
 * Each call that may ask has an agent session to itself, because a question does not name its call.
 * @see docs/mcp-server.md#questions
 */
import { randomBytes } from 'node:crypto';
import { asError, fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { Cancellation } from './cancellation.ts';
import { invalidParams, type Params } from './protocol.ts';
import { type Asker, checkAnswer, type Question, requireCapability } from './questions.ts';
import type { Exchange, ServedRequest } from './served-request.ts';

/** Serves the calls of one agent session. */
export interface CallServer {
  /** Serves a request to its reply. */
  run(request: ServedRequest): void;
  /** Replies with the open questions. */
  askBack(request: ServedRequest, questions: Params, state: string): void;
  close(): void;
}

/** Agent sessions for calls that may ask, of one principal. */
const MAX_SESSIONS = 16;
/** Sessions that stay open for the next call. */
const MAX_IDLE = 4;
/** Time for which a question waits for others, so that the client gets both at once, milliseconds. */
const GATHER_MS = 20;
/** Time that a call waits for its client, milliseconds. The deadlines of its questions are shorter. */
const MAX_WAIT_MS = 10 * 60_000;

/** Methods whose reply may list open questions. */
const MAY_ASK: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);
export const mayAsk = (method: string): boolean => MAY_ASK.has(method);

export class InputRounds {
  readonly #open: (ask: Asker) => CallServer;
  /** The calls that wait for their clients, by the state that was sent last. */
  readonly #waiting = new Map<string, RoundedCall>();
  readonly #idle: AskingSession[] = [];
  #sessions = 0;

  /** @param open opens an agent session whose questions go to `ask` */
  constructor(open: (ask: Asker) => CallServer) {
    this.#open = open;
  }

  /**
   * Serves a request of a client that can be asked, or one that has answers. False: no session is left for it, and it is to be served
   * where nothing can be asked. Throws `RpcError` for answers that do not fit.
   */
  serve(request: ServedRequest): boolean {
    const { inputResponses, requestState } = request.params;
    const answers = answersIn(inputResponses);
    if (requestState !== undefined) {
      const call = this.#waiting.get(requestState as string);
      if (call === undefined || !call.isOf(request)) {
        throw invalidParams('params.requestState is not one that waits for this request; call again without it');
      }
      call.resume(request, answers);
      return true;
    }
    const session = this.#session();
    if (session === undefined) return false;
    const call = new RoundedCall(request, answers, session, {
      waits: (state, before) => {
        if (before !== undefined) this.#waiting.delete(before);
        if (state !== undefined) this.#waiting.set(state, call);
      },
      ended: (isClean) => this.#release(session, isClean),
    });
    call.start();
    return true;
  }

  close(): void {
    for (const call of [...this.#waiting.values()]) call.abort();
    for (const { server } of this.#idle) server.close();
    this.#idle.length = 0;
  }

  #session(): AskingSession | undefined {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    if (this.#sessions >= MAX_SESSIONS) return undefined;
    this.#sessions += 1;
    const session: AskingSession = {
      call: undefined,
      wasAsked: false,
      server: this.#open(async (question, signal) => {
        session.wasAsked = true;
        if (session.call === undefined) throw fail('cancelled', 'the call that asked has ended');
        return session.call.ask(question, signal);
      }),
    };
    return session;
  }

  /**
   * Releases a session. The questions of servers are limited for each session: one in which a question was asked is not
   * used again.
   */
  #release(session: AskingSession, isClean: boolean): void {
    session.call = undefined;
    if (isClean && !session.wasAsked && this.#idle.length < MAX_IDLE) {
      this.#idle.push(session);
      return;
    }
    this.#sessions -= 1;
    session.server.close();
  }
}

interface AskingSession {
  call: RoundedCall | undefined;
  wasAsked: boolean;
  readonly server: CallServer;
}

interface Pending {
  readonly question: Question;
  answer(answer: unknown): void;
}

interface RoundedCallEvents {
  /** Called when the call waits under another state, or no longer waits. */
  waits(state: string | undefined, before: string | undefined): void;
  /** Called when the session is free. `isClean`: no part of the call runs in it any more. */
  ended(isClean: boolean): void;
}

/** One call, over all requests of its client that belong to it. Its handlers see the request that is current. */
class RoundedCall implements ServedRequest {
  readonly method: string;
  readonly exchange: Exchange;
  readonly #what: string;
  readonly #session: AskingSession;
  readonly #events: RoundedCallEvents;
  readonly cancellation = new Cancellation();
  readonly #pending = new Map<string, Pending>();
  /** Sent before they were asked for, or again with an answer. */
  #answers: Params;
  #latest: ServedRequest;
  /** The latest request has no reply yet. */
  #isCurrent = true;
  /** The reply of a call that ended while nothing waited for it. */
  #reply: { readonly text: string; readonly status: number | undefined } | undefined;
  #state: string | undefined;
  #gathering: NodeJS.Timeout | undefined;
  #expiry: NodeJS.Timeout | undefined;
  #questions = 0;
  #hasEnded = false;

  constructor(request: ServedRequest, answers: Params, session: AskingSession, events: RoundedCallEvents) {
    this.method = request.method;
    this.#what = whatOf(request);
    this.#latest = request;
    this.#answers = answers;
    this.#session = session;
    this.#events = events;
    this.exchange = {
      reply: (text, status) => this.#replied(text, status),
      notify: (text) => {
        if (this.#isCurrent) this.#latest.exchange.notify(text);
      },
      ask: (text) => this.#latest.exchange.ask(text),
      end: () => this.#latest.exchange.end(),
    };
  }

  get id() {
    return this.#latest.id;
  }
  get params() {
    return this.#latest.params;
  }
  get terms() {
    return this.#latest.terms;
  }

  start(): void {
    this.#session.call = this;
    this.#follow(this.#latest);
    this.#session.server.run(this);
  }

  /** Returns true for a request that is the same except for the additions of rounds. */
  isOf(request: ServedRequest): boolean {
    return this.#what === whatOf(request);
  }

  resume(request: ServedRequest, answers: Params): void {
    for (const [name, answer] of Object.entries(answers)) {
      const pending = this.#pending.get(name);
      if (pending !== undefined) checked(pending.question, answer);
    }
    this.#wait(undefined);
    this.#latest = request;
    this.#isCurrent = true;
    this.#follow(request);
    if (this.#reply !== undefined) {
      const { text, status } = this.#reply;
      return this.#send(JSON.stringify({ ...JSON.parse(text), id: request.id }), status);
    }
    this.#answers = answers;
    for (const [name, answer] of Object.entries(answers)) this.#pending.get(name)?.answer(answer);
    // Open questions are sent again.
    if (this.#pending.size > 0) this.#gather();
  }

  /** Adds a question of this call. */
  ask(question: Question, signal: AbortSignal): Promise<unknown> {
    requireCapability(question, this.terms.capabilities);
    signal.throwIfAborted();
    const name = this.#nameOf(question);
    if (Object.hasOwn(this.#answers, name)) {
      const answer = this.#answers[name];
      checkAnswer(question, answer);
      return Promise.resolve(answer);
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const withdraw = (): void => {
      if (this.#pending.delete(name)) reject(signal.reason);
    };
    signal.addEventListener('abort', withdraw, { once: true });
    this.#pending.set(name, {
      question,
      answer: (answer) => {
        this.#pending.delete(name);
        signal.removeEventListener('abort', withdraw);
        resolve(answer);
      },
    });
    if (this.#isCurrent) this.#gather();
    return promise;
  }

  /** Ends it without a reply. */
  abort(): void {
    this.cancellation.cancel();
    this.#wait(undefined);
    this.#end(false);
  }

  #nameOf({ name }: Question): string {
    if (name !== undefined && name !== '' && !this.#pending.has(name)) return name;
    this.#questions += 1;
    return `question-${this.#questions}`;
  }

  #gather(): void {
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      if (this.#isCurrent && this.#pending.size > 0 && !this.#hasEnded) this.#askBack();
    }, GATHER_MS);
  }

  #askBack(): void {
    const questions = [...this.#pending].map(([name, { question }]) => {
      const { method, params } = question;
      return [name, { method, params }];
    });
    const state = randomBytes(16).toString('base64url');
    this.#wait(state);
    this.#isCurrent = false;
    this.#session.server.askBack(this.#latest, Object.fromEntries(questions), state);
  }

  #wait(state: string | undefined): void {
    clearTimeout(this.#expiry);
    this.#expiry = state === undefined ? undefined : setTimeout(() => this.abort(), MAX_WAIT_MS).unref();
    this.#events.waits(state, this.#state);
    this.#state = state;
  }

  #follow(request: ServedRequest): void {
    request.cancellation.follow(() => {
      if (this.#isCurrent && this.#latest === request) this.abort();
    });
  }

  #replied(text: string, status: number | undefined): void {
    if (this.#isCurrent) this.#send(text, status);
    // Its questions were withdrawn. The client may still request its result.
    else this.#reply = { text, status };
    this.#end(true);
  }

  #send(text: string, status: number | undefined): void {
    this.#isCurrent = false;
    this.#latest.exchange.reply(text, status);
  }

  #end(isClean: boolean): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#gathering);
    this.#events.ended(isClean);
  }
}

/** Parses the answers. Throws `RpcError` for a value that is no map of answers. */
function answersIn(inputResponses: unknown): Params {
  if (inputResponses === undefined) return {};
  if (!isObject(inputResponses) || !Object.values(inputResponses).every(isObject)) {
    throw invalidParams('params.inputResponses must be an object of objects');
  }
  return inputResponses;
}

function checked(question: Question, answer: unknown): void {
  try {
    checkAnswer(question, answer);
  } catch (thrown) {
    throw invalidParams(asError(thrown).message);
  }
}

/** Returns the subject of a request, without the additions of its rounds. */
function whatOf({ method, params: { name, uri, arguments: args } }: ServedRequest): string {
  return JSON.stringify([method, name, uri, args]);
}
