/**
 * One A2E connection to a target: messages with their base fields, replies by `req_id`, and the rules that every reply
 * must meet.
 */
import { capabilityNames } from '../../protocol/a2e.ts';
import type { Check } from '../../wire/check.ts';
import { expect, Mismatch } from '../case.ts';
import { type Fields, LinePeer, type PeerOptions } from '../line-peer.ts';
import { checksByType, problemOf } from '../published.ts';

let checks: ReadonlyMap<string, Check> | undefined;

/** Returns the problem of a message of A2E, by the published schema of its type. */
export function a2eProblem(message: Fields): string | undefined {
  checks ??= checksByType();
  return problemOf(checks.get(String(message.type)), message);
}

/** Number of opened peers: makes the ids of messages differ between connections. */
let opened = 0;

/** Returns true for messages that are sent while a request runs. */
const isEvent = ({ type }: Fields): boolean => /\/event$/.test(String(type));

export class A2eConnection {
  readonly peer: LinePeer;
  /** The reply to the handshake, once it has arrived. */
  terms: Fields | undefined;
  readonly #name: string;
  #count = 0;

  private constructor(peer: LinePeer) {
    this.peer = peer;
    opened += 1;
    this.#name = `conformance${opened}`;
  }

  static async open(options: PeerOptions): Promise<A2eConnection> {
    return new A2eConnection(await LinePeer.open(options));
  }

  /** Returns a fresh id. */
  id(): string {
    this.#count += 1;
    return `${this.#name}n${this.#count}`;
  }

  /** Returns a message with its base fields; `body` may replace any of them, and leaves one out with `undefined`. */
  message(type: string, body: Fields = {}): Fields & { readonly id: string } {
    return { type, id: this.id(), a2e: '1.0', version: '1.0', ts: Date.now() / 1000, ...body } as Fields & {
      readonly id: string;
    };
  }

  /** Sends a message and returns its id. */
  send(type: string, body: Fields = {}): string {
    const message = this.message(type, body);
    this.peer.line(message);
    return message.id;
  }

  /** Resolves with the reply to a request: the first message with its id that is no event. */
  answer(id: string, what = `an answer with req_id ${JSON.stringify(id)}`): Promise<Fields> {
    return this.peer.find((message) => message.req_id === id && !isEvent(message), what);
  }

  /** Sends a request and waits for its answer, which must fit its schema. */
  async request(type: string, body: Fields = {}): Promise<Fields> {
    const id = this.send(type, body);
    const answer = await this.answer(id, `an answer to ${type} with req_id ${JSON.stringify(id)}`);
    fits(answer);
    return answer;
  }

  /** Works as {@link request}; the reply must be of this type. */
  async result(type: string, body: Fields, answerType: string): Promise<Fields> {
    const answer = await this.request(type, body);
    expect(answer.type === answerType, `${answerType} as the answer to ${type}`, answer);
    return answer;
  }

  /** Works as {@link request}; the reply must be `error`, with one of these codes if some are given. */
  async refused(type: string, body: Fields, ...codes: readonly string[]): Promise<Fields> {
    const answer = await this.request(type, body);
    expectError(answer, ...codes);
    return answer;
  }

  /** Returns the events of a request so far. */
  events(id: string): readonly Fields[] {
    return this.peer.messages.filter((message) => message.req_id === id && isEvent(message));
  }

  /** Returns all replies to a request so far. */
  answers(id: string): readonly Fields[] {
    return this.peer.messages.filter((message) => message.req_id === id && !isEvent(message));
  }

  /** Proves that the target still reads and replies. All messages it sent before the reply have arrived by then. */
  async alive(): Promise<Fields> {
    const id = this.send('ping');
    const pong = await this.answer(id, 'a pong: the connection is usable');
    expect(pong.type === 'pong', 'a pong: the connection is usable', pong);
    return pong;
  }

  /** Sends one line, and waits for an `error`; undefined: the target has sent nothing, and is still usable. */
  async complaint(line: string): Promise<Fields | undefined> {
    const from = this.peer.messages.length;
    this.peer.line(line);
    // HTTP acknowledges a body before it has been read.
    await this.alive();
    return this.peer.messages.slice(from).find(({ type }) => type === 'error');
  }

  /** Performs the handshake. The answer must be a `handshake/resp` that fits its schema. */
  async handshake(body: Fields): Promise<Fields> {
    const answer = await this.request('handshake/req', { agent_id: 'conformance', agent_caps: [], ...body });
    expect(answer.type === 'handshake/resp', 'handshake/resp', answer);
    this.terms = answer;
    return answer;
  }

  /** Works as {@link handshake}; the handshake must be accepted. */
  async accepted(body: Fields): Promise<Fields> {
    const answer = await this.handshake(body);
    expect(answer.ok !== false, 'handshake/resp with ok true', answer);
    return answer;
  }

  close(): Promise<void> {
    return this.peer.close();
  }
}

/** Fails the case unless a message fits the published schema of its type. */
export function fits(message: Fields): void {
  const problem = a2eProblem(message);
  if (problem !== undefined) throw new Mismatch(`${String(message.type)} as its schema has it: ${problem}`, message);
}

/** Fails the case unless an answer is `error`, with one of these codes where some are given. */
export function expectError(answer: Fields, ...codes: readonly string[]): void {
  const wanted = codes.length === 0 ? 'error' : `error with code ${codes.join(' or ')}`;
  expect(answer.type === 'error' && (codes.length === 0 || codes.includes(String(answer.code))), wanted, answer);
}

/** Returns the entries of `accepted_caps`. */
export function entriesOf(terms: Fields): readonly Fields[] {
  return Array.isArray(terms.accepted_caps) ? (terms.accepted_caps as Fields[]) : [];
}

/** Returns the capabilities that a handshake granted. */
export function grantedIn(terms: Fields): readonly string[] {
  const granted = entriesOf(terms).filter(({ enabled }) => enabled !== false);
  return [...new Set(granted.map(({ capability }) => String(capability)))];
}

/** All standard names, in the order of the protocol. */
export const STANDARD_NAMES: readonly string[] = capabilityNames;
