/**
 * The bus to deployed receivers of the upstream dialect, v0.5 to v0.8, and to our own: each is found by its address, looked
 * after by its health, and called; replies that come later are taken by `handle`.
 *
 * @see docs/protocol/fleet.md#http
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Log } from '../../../base/log.ts';
import type { ReplySchema } from '../../../protocol/fleet.ts';
import { type Authenticator, createAuthenticator } from '../../../session/auth.ts';
import { AuthThrottle } from '../../../session/auth-throttle.ts';
import type { OrchestratorBus, PeerEvents } from '../peer.ts';
import { HttpClient } from '../plain/http-client.ts';
import { PeerHealthChecker, type PeerWatchOptions } from '../plain/peer-health.ts';
import { HttpPeer, type HttpPeerOptions, type HttpPeerOwner } from './peer.ts';
import { ReplyReceiver } from './replies.ts';

/** A task that a reply may belong to, for an orchestrator that has restarted since it was sent. */
export interface RecalledTask {
  readonly taskId: string;
  readonly attempt: number;
  readonly replySchema: ReplySchema;
}

export interface HttpPeerBusOptions extends PeerWatchOptions {
  /** What the card calls this orchestrator. */
  readonly name: string;
  readonly peers: readonly HttpPeerOptions[];
  /** Whose token is this? For replies: a principal's name is the name of its peer. Default: no token. */
  readonly auth?: Authenticator;
  readonly requireToken?: boolean;
  readonly backoff?: AuthThrottle;
  /** Address others reach `handle` at, for the card. */
  readonly url?: () => string;
  readonly version?: string;
  /** The open task of a peer in a context, out of the task store; asked when a reply comes that nothing here belongs to. */
  readonly recall?: (peerId: string, contextId: string) => Promise<RecalledTask | undefined>;
  /** After so long without an answer the receiver counts as having the task, milliseconds. Default 2,500. */
  readonly takenAfterMs?: number;
  /** Longest wait for the end of a task over one request, milliseconds. Default 3,600,000. */
  readonly replyTimeoutMs?: number;
  /** Longest wait for anything else, milliseconds. Default 10,000. */
  readonly callTimeoutMs?: number;
  /** First delay between polls of a task whose connection was lost, milliseconds. Default 1,000. */
  readonly pollDelayMs?: number;
  readonly newId?: () => string;
}

export interface HttpPeerBus extends OrchestratorBus {
  /** Takes replies of managed receivers, and says how this orchestrator is. For `node:http`. Never throws, never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): void;
}

/** Makes the bus. Fails with `config_invalid` for two peers of one name, or an address that is none. */
export function httpPeerBus(options: HttpPeerBusOptions): HttpPeerBus {
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
  readonly monotonic: () => number;
  readonly #replies: ReplyReceiver;
  readonly #watch: PeerHealthChecker<HttpPeer>;

  constructor(options: HttpPeerBusOptions) {
    this.log = options.log;
    this.takenAfterMs = options.takenAfterMs ?? 2_500;
    this.replyTimeoutMs = options.replyTimeoutMs ?? 3_600_000;
    this.callTimeoutMs = options.callTimeoutMs ?? 10_000;
    this.pollDelayMs = options.pollDelayMs ?? 1_000;
    this.newId = options.newId ?? (() => crypto.randomUUID());
    this.monotonic = options.monotonic ?? (() => performance.now());
    const peers = options.peers.map((peer) => new HttpPeer(peer, this));
    this.#watch = new PeerHealthChecker(peers, options);
    const { name, version, recall, log } = options;
    this.#replies = new ReplyReceiver({
      name,
      version,
      url: options.url ?? (() => ''),
      peers,
      guard: {
        auth: options.auth ?? createAuthenticator([]),
        requireToken: options.requireToken ?? false,
        backoff: options.backoff ?? new AuthThrottle(),
      },
      recall,
      log,
      running: () => this.#watch.running,
      newId: this.newId,
    });
  }

  get events(): PeerEvents {
    return this.#watch.events;
  }

  get stopping(): AbortSignal {
    return this.#watch.stopping;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#replies.handle(request, response);
  }

  async start(events: PeerEvents): Promise<void> {
    this.#watch.start(events);
  }

  async stop(): Promise<void> {
    const stopped = this.#watch.stop();
    this.client.close(this.stopping.reason);
    await stopped;
  }

  doubt(peer: HttpPeer): void {
    this.#watch.probeNow(peer);
  }
}
