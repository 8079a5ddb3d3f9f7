/**
 * An agent that speaks raw messages over one end of an in-memory pair, as text so that everything passes the codec: what
 * a peer of another implementation, or a hostile one, would do.
 */
import assert from 'node:assert/strict';
import type { Host } from '../../src/host/host.ts';
import type { CloseInfo, Link, Malformed } from '../../src/transport/link.ts';
import { memoryPair } from '../../src/transport/memory.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
export type Message = Record<string, any>;

/** Longest wait for anything in a test. Far above what it takes; only there so that a lost wake-up fails. */
const PATIENCE_MS = 60_000;

export class RawAgent {
  readonly link: Link;
  readonly received: Message[] = [];
  closedWith: CloseInfo | undefined;
  #next = 0;
  #wake: (() => void)[] = [];

  constructor(link: Link) {
    this.link = link;
    link.open({
      message: (message) => {
        this.received.push(typeof message === 'string' ? JSON.parse(message) : structuredClone(message));
        this.#stir();
      },
      malformed: (_problem: Malformed) => {},
      ended: () => void link.close(),
      closed: (cause) => {
        this.closedWith = cause;
        this.#stir();
      },
    });
  }

  /** Sends an object, or text as it stands. */
  send(message: Message | string): void {
    this.link.send(message as Message);
  }

  /** The next message not yet taken. */
  async next(): Promise<Message> {
    await this.#until(() => this.received.length > this.#next || this.closedWith !== undefined, 'a message');
    const message = this.received[this.#next];
    assert.ok(message !== undefined, `expected a message, but the link closed: ${this.closedWith?.reason}`);
    this.#next++;
    return message;
  }

  /** The next message that answers `id`, skipping others. */
  async answer(id: string): Promise<Message> {
    for (;;) {
      const message = await this.next();
      if (message.req_id === id && !String(message.type).endsWith('/event')) return message;
    }
  }

  /** Waits for the end of the link. */
  async closed(): Promise<CloseInfo> {
    await this.#until(() => this.closedWith !== undefined, 'the end of the link');
    return this.closedWith as CloseInfo;
  }

  /** What came beyond what was taken. */
  get rest(): Message[] {
    return this.received.slice(this.#next);
  }

  /** Shakes hands and returns the answer. */
  async shake(body: Message = {}): Promise<Message> {
    this.send({
      type: 'handshake/req',
      id: 'hs',
      a2e: '1.0',
      agent_id: 'test',
      agent_caps: ['tools'],
      auth_token: '',
      ...body,
    });
    return this.answer('hs');
  }

  #stir(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  async #until(done: () => boolean, what: string): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(
        () => reject(new Error(`waited too long for ${what}; got ${JSON.stringify(this.received)}`)),
        PATIENCE_MS,
      );
    });
    try {
      while (!done()) await Promise.race([new Promise<void>((resolve) => this.#wake.push(resolve)), late]);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Connects a raw agent to a host. */
export function rawAgent(host: Pick<Host, 'accept'>): RawAgent {
  const [ours, theirs] = memoryPair();
  host.accept(theirs);
  return new RawAgent(ours);
}
