/**
 * A peer that follows a test's script over any link: it sends exactly the given messages, well-formed or not, and stores
 * those that arrive. It uses the link of the project but none of its protocol code, so a fault there cannot hide in both
 * ends.
 *
 * @see docs/protocol/a2e.md, docs/protocol/session-rpc.md, docs/protocol/fleet.md for the messages of each protocol
 */
import type { CloseInfo, Link, Malformed } from '../transport/link.ts';
import { memoryPair } from '../transport/memory.ts';
import { fail } from '../wire/errors.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape
export type ScriptedMessage = Record<string, any>;

/** The protocols a peer can open a session in. */
export type ScriptedDialect = 'a2e' | 'session-rpc' | 'fleet';

export interface ScriptedPeerOptions {
  /** Longest wait for a message or an end, milliseconds. Default 60,000: only a lost message reaches it. */
  readonly patienceMs?: number;
  /** Called for each message; the returned message is sent back at once. `next` still gives the message. */
  readonly onMessage?: (message: ScriptedMessage) => ScriptedMessage | readonly ScriptedMessage[] | undefined;
}

/** The message that opens a session in each dialect, and the message that completes it. */
const openings: Record<
  ScriptedDialect,
  { readonly request: ScriptedMessage; readonly isReply: (message: ScriptedMessage) => boolean }
> = {
  a2e: {
    request: {
      type: 'handshake/req',
      id: 'hs',
      a2e: '1.0',
      agent_id: 'scripted',
      agent_caps: ['tools'],
      auth_token: '',
    },
    isReply: ({ req_id, type }) => req_id === 'hs' && !String(type).endsWith('/event'),
  },
  'session-rpc': {
    request: {
      jsonrpc: '2.0',
      id: 'hs',
      method: 'rpc.handshake',
      params: { client_name: 'scripted', protocol_version: '1.0.0' },
    },
    isReply: ({ id, method }) => id === 'hs' && method === undefined,
  },
  fleet: {
    request: { type: 'SESSION_ANNOUNCE', version: '2.0' },
    isReply: ({ type }) => type !== 'SESSION_HEARTBEAT',
  },
};

export class ScriptedPeer {
  readonly link: Link;
  /** Everything that arrived, in order. */
  readonly received: ScriptedMessage[] = [];
  /** Input that was no message. */
  readonly malformed: Malformed[] = [];
  /** The end of the link; undefined while it is open. */
  closedWith: CloseInfo | undefined;
  readonly #patienceMs: number;
  #next = 0;
  #wake: (() => void)[] = [];

  constructor(link: Link, { patienceMs = 60_000, onMessage }: ScriptedPeerOptions = {}) {
    this.link = link;
    this.#patienceMs = patienceMs;
    link.open({
      message: (raw) => {
        const message: ScriptedMessage = typeof raw === 'string' ? JSON.parse(raw) : structuredClone(raw);
        this.received.push(message);
        for (const reply of [onMessage?.(message) ?? []].flat()) this.send(reply);
        this.#notify();
      },
      malformed: (problem) => {
        this.malformed.push(problem);
        this.#notify();
      },
      ended: () => void link.close(),
      closed: (cause) => {
        this.closedWith = cause;
        this.#notify();
      },
    });
  }

  /** Sends an object, or unchanged text. */
  send(message: ScriptedMessage | string): void {
    this.link.send(typeof message === 'object' && this.link.text ? JSON.stringify(message) : message);
  }

  /** Sends several unchanged texts. */
  play(...messages: readonly (ScriptedMessage | string)[]): void {
    for (const message of messages) this.send(message);
  }

  /** Returns the next message that was not returned yet. Fails with `timeout`, or with `interrupted` when the link ended. */
  async next(): Promise<ScriptedMessage> {
    await this.#until(() => this.received.length > this.#next || this.closedWith !== undefined, 'a message');
    const message = this.received[this.#next];
    if (message === undefined) throw fail('interrupted', `no message: the link closed (${this.closedWith?.reason})`);
    this.#next++;
    return message;
  }

  /** Returns the next message that `matches`, skipping others. */
  async find(matches: (message: ScriptedMessage) => boolean): Promise<ScriptedMessage> {
    for (;;) {
      const message = await this.next();
      if (matches(message)) return message;
    }
  }

  /** Returns the reply to the request `id`, in A2E (`req_id`) or JSON-RPC (`id`), skipping other messages and events. */
  reply(id: string): Promise<ScriptedMessage> {
    return this.find(
      (message) =>
        (message.req_id === id && !String(message.type).endsWith('/event')) ||
        (message.id === id && message.jsonrpc !== undefined && message.method === undefined),
    );
  }

  /** Opens a session: sends the first message of the dialect, with `body` over its members, and gives the reply. */
  handshake(dialect: ScriptedDialect = 'a2e', body: ScriptedMessage = {}): Promise<ScriptedMessage> {
    const { request, isReply } = openings[dialect];
    this.send({ ...request, ...body });
    return this.find(isReply);
  }

  /** Messages that arrived after the returned ones. */
  get rest(): readonly ScriptedMessage[] {
    return this.received.slice(this.#next);
  }

  /** Waits for the end of the link. */
  async closed(): Promise<CloseInfo> {
    await this.#until(() => this.closedWith !== undefined, 'the end of the link');
    return this.closedWith as CloseInfo;
  }

  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  async #until(done: () => boolean, what: string): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        const last = JSON.stringify(this.received.slice(-3)).slice(0, 600);
        reject(fail('timeout', `waited ${this.#patienceMs} ms for ${what}; the last messages: ${last}`));
      }, this.#patienceMs);
    });
    try {
      while (!done()) await Promise.race([new Promise<void>((resolve) => this.#wake.push(resolve)), late]);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** A host, an RPC server or the bus of a fleet, which takes over a link. */
export interface AcceptsLinks {
  accept(link: Link): void;
}

/** Returns a peer of a server in this process, over an in-memory pair. */
export function scriptedPeer(server: AcceptsLinks, options?: ScriptedPeerOptions): ScriptedPeer {
  const [ours, theirs] = memoryPair();
  server.accept(theirs);
  return new ScriptedPeer(ours, options);
}

/**
 * Returns a server that follows a script, for tests of clients: `connect(scriptedServer(…))` connects to it. Each link
 * gets a {@link ScriptedPeer}; `peers` has them in the order of their arrival.
 */
export function scriptedServer(options: ScriptedPeerOptions = {}): AcceptsLinks & { readonly peers: ScriptedPeer[] } {
  const peers: ScriptedPeer[] = [];
  return { peers, accept: (link) => void peers.push(new ScriptedPeer(link, options)) };
}
