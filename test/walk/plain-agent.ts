/**
 * An agent, client or worker in the form of a program without this library: lines of JSON over TCP.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

export type Message = Readonly<Record<string, unknown>>;

/** Replaces a reply that did not arrive. */
export const SILENCE: Message = Object.freeze({ type: 'silence' });
export const CLOSED: Message = Object.freeze({ type: 'closed' });

export class PlainAgent {
  readonly #socket: Socket;
  readonly #waiting = new Map<unknown, (reply: Message) => void>();
  /** Requests of the host, and other messages that reply to no request of the agent. */
  readonly others: Message[] = [];
  #count = 0;
  closed = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    const lines = createInterface({ input: socket });
    lines.on('line', (line) => this.#line(JSON.parse(line) as Message)).on('error', () => {});
    socket.on('error', () => {});
    socket.on('close', () => {
      this.closed = true;
      for (const settle of this.#waiting.values()) settle(CLOSED);
      this.#waiting.clear();
    });
  }

  /** Dials an address `tcp://…`, and opens nothing on it. */
  static async dial(address: string): Promise<PlainAgent> {
    const { hostname, port } = new URL(address);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    await once(socket, 'connect');
    return new PlainAgent(socket);
  }

  /** Dials, and opens an A2E session. */
  static async open(address: string, token: string, capabilities: readonly string[]): Promise<PlainAgent> {
    const agent = await PlainAgent.dial(address);
    const reply = await agent.ask({
      type: 'handshake/req',
      agent_id: 'walker',
      agent_caps: capabilities,
      auth_token: token,
      extensions: { 'handfast/cancel': {}, 'handfast/capabilities': {}, 'handfast/journal': {} },
    });
    if (reply.ok !== true) throw new Error(`no session: ${JSON.stringify(reply)}`);
    return agent;
  }

  #line(message: Message): void {
    const id = message.req_id ?? (message.method === undefined ? message.id : undefined);
    const isReply = !/event$/i.test(String(message.type ?? ''));
    const settle = isReply ? this.#waiting.get(id) : undefined;
    if (settle !== undefined) settle(message);
    else if (message.type === 'error' || (message.error !== undefined && message.id === null)) this.#refused(message);
    else if (this.others.push(message) > 100) this.others.shift();
  }

  /** Handles a refusal that names no request: it is for the one that waits longest. */
  #refused(message: Message): void {
    this.#waiting.values().next().value?.(message);
  }

  write(text: string): void {
    this.#socket.write(text);
  }

  id(): string {
    return `w${++this.#count}`;
  }

  /** Sends a text that has `id` in it, and waits for its reply for at most `ms`. */
  send(text: string, id: unknown, ms = 10_000): Promise<Message> {
    if (this.closed) return Promise.resolve(CLOSED);
    return new Promise((resolve) => {
      const settle = (reply: Message): void => {
        clearTimeout(timer);
        this.#waiting.delete(id);
        resolve(reply);
      };
      const timer = setTimeout(settle, ms, SILENCE);
      this.#waiting.set(id, settle);
      this.#socket.write(`${text}\n`);
    });
  }

  /** Sends a message with a fresh id and waits for its reply. */
  ask(message: Message, ms?: number): Promise<Message> {
    const id = this.id();
    return this.send(JSON.stringify({ ...message, id }), id, ms);
  }

  /** Sends a request of JSON-RPC with a fresh id and waits for its reply. */
  call(method: string, params: unknown, ms?: number): Promise<Message> {
    return this.ask({ jsonrpc: '2.0', method, params }, ms);
  }

  close(): void {
    this.#socket.destroy();
  }
}
