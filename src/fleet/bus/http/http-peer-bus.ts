/**
 * The bus to deployed receivers of the upstream dialect, v0.5 to v0.8, and to our own: each is found by its address, looked
 * after by its health, and called; replies that come later are taken by `handle`.
 *
 * @see docs/protocol/fleet.md#http
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Authenticator, createAuthenticator } from '../../../host/auth.ts';
import { FailureBackoff } from '../../../host/backoff.ts';
import type { Log } from '../../../host/context.ts';
import type { ReplySchema } from '../../../protocol/fleet.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { OrchestratorBus, PeerEvents } from '../peer.ts';
import { pause } from '../retry-delay.ts';
import { HttpClient } from './exchange.ts';
import { HttpPeer, type HttpPeerOptions, type HttpPeerOwner } from './http-peer.ts';
import { ReplyReceiver } from './replies.ts';

/** A task that a reply may belong to, for an orchestrator that has restarted since it was sent. */
export interface RecalledTask {
  readonly taskId: string;
  readonly attempt: number;
  readonly replySchema: ReplySchema;
}

export interface HttpPeerBusOptions {
  /** What the card calls this orchestrator. */
  readonly name: string;
  readonly peers: readonly HttpPeerOptions[];
  /** Whose token is this? For replies: a principal's name is the name of its peer. Default: no token. */
  readonly auth?: Authenticator;
  readonly requireToken?: boolean;
  readonly backoff?: FailureBackoff;
  readonly log: Log;
  /** Address others reach `handle` at, for the card. */
  readonly url?: () => string;
  readonly version?: string;
  /** The open task of a peer in a context, out of the task store; asked when a reply comes that nothing here belongs to. */
  readonly recall?: (peerId: string, contextId: string) => Promise<RecalledTask | undefined>;
  /** Between two looks at a receiver, milliseconds. Default 30,000. */
  readonly healthIntervalMs?: number;
  /** Between two announces of a receiver that can be asked, milliseconds. Default 300,000. */
  readonly announceIntervalMs?: number;
  /** After so long without an answer the receiver counts as having the task, milliseconds. Default 2,500. */
  readonly takenAfterMs?: number;
  /** Longest wait for the end of a task over one request, milliseconds. Default 3,600,000. */
  readonly replyTimeoutMs?: number;
  /** Longest wait for anything else, milliseconds. Default 10,000. */
  readonly callTimeoutMs?: number;
  /** First delay between polls of a task whose connection was lost, milliseconds. Default 1,000. */
  readonly pollDelayMs?: number;
  readonly random?: () => number;
  readonly monotonic?: () => number;
  readonly newId?: () => string;
}

export interface HttpPeerBus extends OrchestratorBus {
  /** Takes replies of managed receivers, and says how this orchestrator is. For `node:http`. Never throws, never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): void;
}

/** Looks that must fail in a row before a receiver counts as gone: one may be lost to a moment of load. */
const FAILED_LOOKS = 2;
/** The card is read again after this, however well everything goes. */
const CARD_AGE_MS = 24 * 3_600_000;

/** Makes the bus. Fails with `config_invalid` for two peers of one name, or an address that is none. */
export function httpPeerBus(options: HttpPeerBusOptions): HttpPeerBus {
  const names = new Set<string>();
  for (const { name } of options.peers) {
    if (names.has(name)) throw fail('config_invalid', `two peers are named ${name}`, { name });
    names.add(name);
  }
  return new ReceiversBus(options);
}

class ReceiversBus implements HttpPeerBus, HttpPeerOwner {
  readonly binding = 'http';
  readonly client = new HttpClient();
  readonly log: Log;
  readonly takenAfterMs: number;
  readonly replyTimeoutMs: number;
  readonly callTimeoutMs: number;
  readonly pollDelayMs: number;
  readonly newId: () => string;
  readonly #options: HttpPeerBusOptions;
  readonly #peers: readonly HttpPeer[];
  readonly #replies: ReplyReceiver;
  readonly #stopping = new AbortController();
  /** Wakes the watch over a peer before its time. */
  readonly #wakes = new Map<HttpPeer, () => void>();
  #watches: readonly Promise<void>[] = [];
  #events: PeerEvents | undefined;

  constructor(options: HttpPeerBusOptions) {
    this.#options = options;
    this.log = options.log;
    this.takenAfterMs = options.takenAfterMs ?? 2_500;
    this.replyTimeoutMs = options.replyTimeoutMs ?? 3_600_000;
    this.callTimeoutMs = options.callTimeoutMs ?? 10_000;
    this.pollDelayMs = options.pollDelayMs ?? 1_000;
    this.newId = options.newId ?? (() => crypto.randomUUID());
    this.#peers = options.peers.map((peer) => new HttpPeer(peer, this));
    const { name, version, recall, log } = options;
    this.#replies = new ReplyReceiver({
      name,
      version,
      url: options.url ?? (() => ''),
      peers: this.#peers,
      guard: {
        auth: options.auth ?? createAuthenticator([]),
        requireToken: options.requireToken ?? false,
        backoff: options.backoff ?? new FailureBackoff(),
      },
      recall,
      log,
      running: () => this.#events !== undefined && !this.stopping.aborted,
      newId: this.newId,
    });
  }

  get events(): PeerEvents {
    if (this.#events === undefined) throw fail('runtime_error', 'the bus was not started');
    return this.#events;
  }

  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#replies.handle(request, response);
  }

  async start(events: PeerEvents): Promise<void> {
    if (this.#events !== undefined) throw fail('usage', 'this bus was started before');
    this.#events = events;
    this.#watches = this.#peers.map((peer) => this.#watch(peer));
  }

  async stop(): Promise<void> {
    this.#stopping.abort(fail('interrupted', 'the orchestrator is stopping'));
    await Promise.all(this.#watches);
    this.client.close();
  }

  changed(peer: HttpPeer): void {
    this.#wakes.get(peer)?.();
  }

  /** Looks after one receiver until the end. Never rejects. */
  async #watch(peer: HttpPeer): Promise<void> {
    const { healthIntervalMs = 30_000, announceIntervalMs = 300_000, random = Math.random } = this.#options;
    const { monotonic = () => performance.now() } = this.#options;
    // Known before it answers, so that an operator sees what is waited for.
    this.#tell(() => this.events.joined(peer));
    let here = false;
    let failures = 0;
    let cardAt = Number.NEGATIVE_INFINITY;
    let announceAt = Number.NEGATIVE_INFINITY;
    while (!this.stopping.aborted) {
      const ok = await peer.check();
      if (this.stopping.aborted) return;
      failures = ok ? 0 : failures + 1;
      if (ok) {
        const now = monotonic();
        let news = !here;
        if (!here || now - cardAt >= CARD_AGE_MS) {
          cardAt = now;
          news = (await peer.discover()) || news;
        }
        if (this.stopping.aborted) return;
        if (news) this.#tell(() => this.events.joined(peer));
        if (news || now - announceAt >= announceIntervalMs) {
          announceAt = now;
          await peer.askAnnounce();
        }
        here = true;
      } else if (here && failures >= FAILED_LOOKS) {
        here = false;
        this.#tell(() => this.events.left(peer, 'it does not answer', false));
      }
      const wait = here && !ok ? healthIntervalMs / 10 : healthIntervalMs;
      await this.#rest(peer, wait * (0.9 + 0.2 * random()));
    }
  }

  /** Waits for the next look, which something that went wrong may call for sooner. */
  async #rest(peer: HttpPeer, ms: number): Promise<void> {
    const woken = new AbortController();
    this.#wakes.set(peer, () => woken.abort());
    await pause(ms, AbortSignal.any([woken.signal, this.stopping]));
    this.#wakes.delete(peer);
  }

  #tell(what: () => void): void {
    try {
      what();
    } catch (thrown) {
      this.log.error('the orchestrator could not be told', { error: asError(thrown).message });
    }
  }
}
