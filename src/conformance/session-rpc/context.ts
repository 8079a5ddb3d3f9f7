/**
 * The context of every session RPC case: connections to the target, and one for each conversation, on which its
 * messages are played in their order.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HandfastError } from '../../wire/errors.ts';
import { bindingOf } from '../carriers.ts';
import { type Case, expect, Mismatch, Skip, unanswered } from '../case.ts';
import { type Fields, LinePeer, Transcript } from '../line-peer.ts';
import type { CaseRun } from '../run.ts';
import { Player, type Vector, vectorsOf } from './player.ts';

/** The user's description of the target. */
export interface RpcTarget {
  readonly address: string;
  /** Sent in the handshake; empty: no handshake is sent where none is asked for. */
  readonly token: string;
  /** Longest wait for one answer, in milliseconds. */
  readonly patienceMs: number;
}

export type RpcCase = Case<RpcContext>;

export class RpcContext {
  readonly transcript: Transcript;
  readonly #run: RpcRun;
  readonly #opened: LinePeer[] = [];
  #count = 0;

  constructor(run: RpcRun) {
    this.#run = run;
    this.transcript = new Transcript(run.target.token);
  }

  /** True if each conversation has a separate server, without earlier data. */
  get fresh(): boolean {
    return this.#run.fresh;
  }

  /** Opens a connection of this case alone, with its handshake done if it has a token. */
  async open(): Promise<LinePeer> {
    const peer = await this.#run.open(this.transcript);
    this.#opened.push(peer);
    return peer;
  }

  /** Sends a request and waits for its response. */
  async request(peer: LinePeer, method: string, params?: unknown, more: Fields = {}): Promise<Fields> {
    this.#count += 1;
    const id = `conformance ${this.#count}`;
    peer.line({ jsonrpc: '2.0', id, method, ...(params !== undefined && { params }), ...more });
    return response(peer, id);
  }

  /** Plays one message of a conversation, and before it those that were not played. */
  async play(conversation: string, vector: Vector): Promise<void> {
    const { outcome, why = '' } = await this.#run.conversation(conversation).play(vector.name, this.transcript);
    if (outcome === 'skipped') throw new Skip(why);
    if (outcome === 'failed') throw new Mismatch(shownExpectation(vector), why);
  }

  async end(): Promise<void> {
    await Promise.all(this.#opened.map((peer) => peer.close()));
  }
}

/** Resolves with the response to a request. */
export const response = (peer: LinePeer, id: unknown): Promise<Fields> =>
  peer.find((message) => message.id === id && message.method === undefined, `a response with id ${JSON.stringify(id)}`);

/** Makes the first exchange: a child replies once it has started, and later waits are short. */
async function begin(peer: LinePeer, token: string): Promise<void> {
  const method = token === '' ? 'system.ping' : 'rpc.handshake';
  const params = { client_name: 'conformance', protocol_version: '1.0.0', token };
  peer.line({ jsonrpc: '2.0', id: 'conformance begins', method, ...(token !== '' && { params }) });
  const { error } = await response(peer, 'conformance begins');
  if (error === undefined) return;
  const { message = 'no message' } = error as { message?: string };
  throw new HandfastError('auth_failed', `the target refused the handshake: ${message}`);
}

const shownExpectation = ({ expect: answer, events = [] }: Vector): string =>
  [
    answer === undefined || answer === null ? 'no answer' : `the answer ${JSON.stringify(answer)}`,
    ...(events.length === 0 ? [] : [`the events ${JSON.stringify(events)}`]),
  ].join(', ');

/** One conversation on a separate connection. */
class Conversation {
  readonly #vectors: readonly Vector[];
  readonly #open: () => Promise<LinePeer>;
  readonly #patienceMs: number;
  readonly #leftOut: (vector: Vector) => string | undefined;
  readonly #outcomes = new Map<string, ReturnType<Player['play']>>();
  #peer: Promise<LinePeer> | undefined;
  #player: Player | undefined;

  constructor(
    name: string,
    open: () => Promise<LinePeer>,
    patienceMs: number,
    leftOut: (vector: Vector) => string | undefined,
  ) {
    this.#vectors = vectorsOf(name);
    this.#open = open;
    this.#patienceMs = patienceMs;
    this.#leftOut = leftOut;
  }

  async play(name: string, transcript: Transcript): ReturnType<Player['play']> {
    this.#peer ??= this.#open().catch((thrown) => {
      this.#peer = undefined;
      throw thrown;
    });
    const peer = await this.#peer;
    peer.transcript = transcript;
    this.#player ??= this.#begin(peer);
    for (const vector of this.#vectors) {
      if (!this.#outcomes.has(vector.name)) this.#outcomes.set(vector.name, this.#player.play(vector));
      const outcome = await (this.#outcomes.get(vector.name) as ReturnType<Player['play']>);
      if (vector.name === name) return outcome;
    }
    throw new Skip(`there is no ${name}`);
  }

  #begin(peer: LinePeer): Player {
    const connection = {
      write: (text: string) => peer.line(text),
      listen: (onLine: (line: string) => void) => peer.hear(onLine),
      close: () => peer.close(),
    };
    return new Player(connection, { level: 'wire', patienceMs: this.#patienceMs, skip: this.#leftOut });
  }

  async close(): Promise<void> {
    await (await this.#peer?.catch(() => undefined))?.close();
  }
}

/** A run of session RPC cases. */
export class RpcRun implements CaseRun<RpcContext> {
  readonly target: RpcTarget;
  readonly fresh: boolean;
  readonly #leftOut: (vector: Vector) => string | undefined;
  readonly #conversations = new Map<string, Conversation>();
  readonly #homes: string[] = [];

  /** @param leftOut why a message must not be sent to a target that is not fresh; undefined if it may be */
  constructor(target: RpcTarget, leftOut: (vector: Vector) => string | undefined) {
    this.target = target;
    this.fresh = bindingOf(target.address) === 'stdio';
    this.#leftOut = this.fresh ? () => undefined : leftOut;
  }

  begin(): RpcContext {
    return new RpcContext(this);
  }

  transcript({ transcript }: RpcContext): Transcript['lines'] {
    return transcript.lines;
  }

  end(context: RpcContext): Promise<void> {
    return context.end();
  }

  conversation(name: string): Conversation {
    let found = this.#conversations.get(name);
    if (found === undefined) {
      const open = (): Promise<LinePeer> => this.open(new Transcript(this.target.token));
      found = new Conversation(name, open, this.target.patienceMs, this.#leftOut);
      this.#conversations.set(name, found);
    }
    return found;
  }

  /** Connects, with a handshake if the target has a token. A child gets an empty home. */
  async open(transcript: Transcript): Promise<LinePeer> {
    const { address, patienceMs, token } = this.target;
    const env = this.fresh ? await this.#emptyHome() : undefined;
    const peer = await LinePeer.open({ address, patienceMs, transcript, ...(env && { env }) });
    if (token === '' && !this.fresh) return peer;
    try {
      await begin(peer, token);
      return peer;
    } catch (thrown) {
      await peer.close();
      throw thrown;
    }
  }

  /** Fails where the target is not there, refuses the token or does not answer. */
  async first(): Promise<void> {
    const context = this.begin();
    try {
      const pong = await context.request(await context.open(), 'system.ping');
      expect(pong.result !== undefined, 'an answer to system.ping', pong);
    } catch (thrown) {
      throw thrown instanceof Mismatch ? unanswered(this.target.address, thrown) : thrown;
    } finally {
      await context.end();
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#conversations.values()].map((conversation) => conversation.close()));
    await Promise.all(this.#homes.map((home) => rm(home, { recursive: true, force: true, maxRetries: 5 })));
  }

  async #emptyHome(): Promise<Readonly<Record<string, string>>> {
    const home = await mkdtemp(join(tmpdir(), 'handfast-conformance-'));
    this.#homes.push(home);
    const below = {
      XDG_CONFIG_HOME: 'config',
      XDG_DATA_HOME: 'data',
      XDG_STATE_HOME: 'state',
      XDG_CACHE_HOME: 'cache',
    };
    const folders = Object.entries(below).map(([name, folder]) => [name, join(home, folder)] as const);
    return { HOME: home, USERPROFILE: home, HANDFAST_HOME: join(home, '.handfast'), ...Object.fromEntries(folders) };
  }
}
