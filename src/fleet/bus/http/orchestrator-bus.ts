/**
 * The bus to deployed receivers of the upstream dialect, v0.5 to v0.8, and to Handfast's: each is found by its address,
 * health-checked, and called; replies that come later arrive at `handle`.
 *
 * Programs import it from `handfast/fleet`.
 * @see docs/protocol/fleet.md#http
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { OrchestratorBus } from '../peer.ts';
import type { ServerAccess } from '../plain/http-server.ts';
import { PlainBus, type PlainBusOptions } from '../plain/orchestrator-bus.ts';
import type { HttpPeerOwner } from './inbound.ts';
import { HttpPeer } from './peer.ts';
import { type Recall, ReplyReceiver } from './replies.ts';

/**
 * Replies are accepted of principals of `auth` that are granted `fleet.worker` for the name of a peer, and by the token the
 * peer is called with.
 */
export interface HttpPeerBusOptions extends PlainBusOptions, ServerAccess {
  /** Name of this orchestrator on the card. */
  readonly name: string;
  /** Address others reach `handle` at, for the card. */
  readonly url?: () => string;
  readonly version?: string;
  /** Asked when a reply comes that belongs to no task known here. */
  readonly recall?: Recall;
  /** After this time without a response the receiver counts as having the task, milliseconds. Default 2,500. */
  readonly acceptedAfterMs?: number;
  /** Longest wait for the end of a task over one request, milliseconds. Default 3,600,000. */
  readonly replyTimeoutMs?: number;
  /** First delay between polls of a task whose connection was lost, milliseconds. Default 1,000. */
  readonly pollDelayMs?: number;
}

export interface HttpPeerBus extends OrchestratorBus {
  /** Accepts replies of managed receivers, and serves card and health. For `node:http`. Never throws, never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): void;
}

/** Makes the bus. Fails with `config_invalid` for two peers of one name, or an invalid address. */
export function httpPeerBus(options: HttpPeerBusOptions): HttpPeerBus {
  return new ReceiversBus(options);
}

class ReceiversBus extends PlainBus<HttpPeer> implements HttpPeerBus, HttpPeerOwner {
  readonly binding = 'http';
  readonly acceptedAfterMs: number;
  readonly replyTimeoutMs: number;
  readonly pollDelayMs: number;
  readonly monotonic: () => number;
  readonly #replies: ReplyReceiver;

  constructor(options: HttpPeerBusOptions) {
    super(options);
    this.acceptedAfterMs = options.acceptedAfterMs ?? 2_500;
    this.replyTimeoutMs = options.replyTimeoutMs ?? 3_600_000;
    this.pollDelayMs = options.pollDelayMs ?? 1_000;
    this.monotonic = options.monotonic ?? (() => performance.now());
    const peers = options.peers.map((peer) => new HttpPeer(peer, this));
    this.supervise(peers);
    this.#replies = new ReplyReceiver({
      ...options,
      peers,
      tokens: options.peers,
      monotonic: this.monotonic,
      url: options.url ?? (() => ''),
      running: () => this.health.running,
      newId: this.newId,
    });
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    void this.#replies.handle(request, response);
  }
}
