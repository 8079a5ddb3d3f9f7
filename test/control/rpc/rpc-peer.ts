/**
 * A client of session RPC for tests: it sends messages of the test, valid or not, over any link, and records all that it
 * receives.
 */
import type { RpcServer } from '../../../src/control/rpc/rpc-server.ts';
import type { RpcMethod } from '../../../src/protocol/rpc-reader.ts';
import type { Link, Message } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { Recorder, within } from '../../contract/recorder.ts';

export interface RpcErrorMessage {
  readonly code: number;
  readonly message: string;
  readonly data: Record<string, unknown>;
}

export interface RpcAnswer {
  readonly id: string | number | null;
  readonly result?: unknown;
  readonly error?: RpcErrorMessage;
}

export interface RpcEvent {
  readonly type: string;
  readonly timestamp: string;
  readonly payload: Record<string, unknown>;
  readonly seq?: number;
}

export class RpcPeer {
  readonly link: Link;
  readonly recorder: Recorder;
  #nextId = 1;

  constructor(link: Link) {
    this.link = link;
    this.recorder = Recorder.on(link);
    this.recorder.onEnded = () => void link.close();
  }

  get messages(): readonly Message[] {
    return this.recorder.messages;
  }

  /** `params` of all events so far. */
  get events(): RpcEvent[] {
    return this.messages.filter(({ method }) => method === 'event').map(({ params }) => params as RpcEvent);
  }

  /** Returns the sequence numbers of all events of a session so far, in the order they came. */
  seqs(session: string): (number | undefined)[] {
    return this.events.filter(({ payload }) => payload.session_id === session).map(({ seq }) => seq);
  }

  /** Sends any message: an object, or text as it stands. */
  send(message: object | string): void {
    if (!this.link.text) this.link.send(message as Message);
    else this.link.send(typeof message === 'string' ? message : JSON.stringify(message));
  }

  /** Sends a request and returns its id. */
  begin(method: string | Pick<RpcMethod, 'name'>, params?: unknown): number {
    const id = this.#nextId++;
    this.send({ jsonrpc: '2.0', id, method: typeof method === 'string' ? method : method.name, params });
    return id;
  }

  cancel(id: unknown): void {
    this.send({ jsonrpc: '2.0', method: '$/cancel_request', params: { id } });
  }

  /** Returns the answer to a request, result or error. */
  async answer(id: string | number | null): Promise<RpcAnswer> {
    const find = () => this.messages.find((message) => message.method === undefined && message.id === id);
    await this.recorder.until(() => find() !== undefined, `the answer to ${JSON.stringify(id)}`);
    return find() as unknown as RpcAnswer;
  }

  /** Returns the result of a request. Throws when it is an error. */
  async call(method: string | Pick<RpcMethod, 'name'>, params?: unknown): Promise<Message> {
    const { result, error } = await this.answer(this.begin(method, params));
    if (error !== undefined) throw new Error(`${error.code} ${error.message} ${JSON.stringify(error.data)}`);
    return result as Message;
  }

  /** Returns the error of a request. Throws when it is a result. */
  async refusal(method: string | Pick<RpcMethod, 'name'>, params?: unknown): Promise<RpcErrorMessage> {
    const { result, error } = await this.answer(this.begin(method, params));
    if (error === undefined) throw new Error(`expected an error, got ${JSON.stringify(result)}`);
    return error;
  }

  /** Waits for an event of this type; with `count`, for the so-manieth. */
  async event(type: string, count = 1): Promise<RpcEvent> {
    const find = () => this.events.filter((event) => event.type === type)[count - 1];
    await this.recorder.until(() => find() !== undefined, `event ${count} of type ${type}`);
    return find() as RpcEvent;
  }

  /** Waits until `count` events of a session came. */
  until(session: string, count: number): Promise<void> {
    return this.recorder.until(() => this.seqs(session).length >= count, `${count} events`);
  }

  /** Pings the server: the messages before the answer prove that nothing else was on its way. */
  async quiet(): Promise<void> {
    await this.call('system.ping');
  }

  close(): Promise<void> {
    return within(this.link.close(), 'the link to close');
  }
}

/** Makes a peer of a server of this process, over the in-memory pair. */
export function peerOf(server: Pick<RpcServer, 'accept'>): RpcPeer {
  const [ours, theirs] = memoryPair();
  server.accept(theirs);
  return new RpcPeer(ours);
}
