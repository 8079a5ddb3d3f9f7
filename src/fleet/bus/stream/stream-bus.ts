/**
 * The bus over stream links: workers connect to a listener of the host, or are programs this side starts, announce
 * themselves, and are peers of the orchestrator from then on.
 *
 * A host gets `dialect`, and its listeners then serve workers beside all other clients; `accept` takes links that speak nothing
 * else; `supervise` keeps a link to a worker that is dialled or started from here.
 * @see docs/protocol/fleet.md#stream-links
 */

import { isLogged, type Log } from '../../../base/log.ts';
import { Acceptor, type Dialect } from '../../../connection/accept.ts';
import { Reconnect, type ReconnectSettings } from '../../../connection/reconnect.ts';
import { type Authenticator, createAuthenticator } from '../../../session/auth.ts';
import { AuthThrottle } from '../../../session/auth-throttle.ts';
import type { Principal } from '../../../session/principal.ts';
import type { TrafficShares } from '../../../session/traffic-shares.ts';
import type { CloseInfo, Link } from '../../../transport/link.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { Announced } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { forwardToOrchestrator, ORCHESTRATOR_FEATURES } from '../forward.ts';
import type { OrchestratorBus, PeerEvents } from '../peer.ts';
import { mayWork, type WorkerIdentity } from '../worker-rights.ts';
import { FleetHandshake, type FleetHandshakeDeps, OutboundHandshake, pingOf } from './handshake.ts';
import { MAX_MESSAGE_BYTES, SILENT_HEARTBEATS } from './messages.ts';
import { type PeerOwner, StreamPeer, withoutToken } from './stream-peer.ts';
import { reportLoss, supervision } from './supervision.ts';

export interface StreamBusOptions {
  /** The name by which workers know this orchestrator; results wait for it under this name. An agent id. */
  readonly name: string;
  /**
   * Finds the principal of a token, and the workers it may be. Default: no token, every peer of the listener may be any worker.
   */
  readonly auth?: Authenticator;
  /**
   * Slows guessing down; share the host's where both serve the same listeners.
   * @internal
   */
  readonly authThrottle?: AuthThrottle;
  /**
   * The shares of links and messages; pass the host's where both serve the same listeners. Default: none.
   * @internal
   */
  readonly traffic?: TrafficShares;
  readonly log: Log;
  /** Names of workers on other buses: a worker that joins under one of them is refused. */
  readonly taken?: ReadonlySet<string>;
  /** Seconds between heartbeats, both ways. Default 5. A worker that is silent for three of them is lost. */
  readonly heartbeatS?: number;
  /** Seconds until an unrenewed lease expires, as sent to workers. Default 45. */
  readonly leaseTtlS?: number;
  /** Timeout for a worker's reply to a dispatch, milliseconds. Default 10,000. */
  readonly ackTimeoutMs?: number;
  /** Time for the first announce on a link, milliseconds. Default 10,000; a worker that is started here gets 30,000. */
  readonly handshakeTimeoutMs?: number;
  /** Workers at once. Default 10,000. */
  readonly maxPeers?: number;
  /** Links before their announce at once. Default 1,000. */
  readonly maxPending?: number;
  /** Settings of reconnecting to a worker that is dialled or started here. */
  readonly reconnect?: ReconnectSettings;
  readonly newId?: () => string;
}

export interface StreamBus extends OrchestratorBus {
  /**
   * For `HostOptions.dialects`.
   * @internal
   */
  readonly dialect: Dialect;
  /** Workers connected now. */
  readonly size: number;
  /** Accepts a link for the fleet protocol alone. Requires a token if any are configured. */
  accept(link: Link): void;
  /**
   * Opens a link to a worker and keeps it open: when it ends it is opened again, after a delay that grows while it fails.
   * Such a worker needs no token. Resolves when `stop` was called, or the returned function; never rejects.
   */
  supervise(open: (signal: AbortSignal) => Promise<Link>, what: string): () => Promise<void>;
}

/** Makes the bus. Links that come before it was started are refused. */
export function streamBus(options: StreamBusOptions): StreamBus {
  return new LinkBus(options);
}

class LinkBus implements StreamBus, PeerOwner, FleetHandshakeDeps {
  readonly binding = 'stream';
  readonly name: string;
  readonly incarnation: string;
  readonly auth: Authenticator;
  readonly authThrottle: AuthThrottle;
  readonly log: Log;
  readonly heartbeatMs: number;
  readonly ackTimeoutMs: number;
  readonly newId: () => string;
  readonly dialect: Dialect = new FleetHandshake(this);
  readonly #options: StreamBusOptions;
  readonly #acceptor: Acceptor;
  readonly #peers = new Map<string, StreamPeer>();
  /** Principal → links refused because it may not work under the name. The configuration bounds the number of principals. */
  readonly #refused = new Map<string, number>();
  /** Ends the links that are supervised from here. */
  readonly #supervised = new Set<() => Promise<void>>();
  readonly #stopping = new AbortController();
  #events: PeerEvents | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: StreamBusOptions) {
    this.#options = options;
    this.name = options.name;
    this.newId = options.newId ?? (() => crypto.randomUUID());
    this.incarnation = this.newId();
    this.auth = options.auth ?? createAuthenticator([]);
    this.authThrottle = options.authThrottle ?? new AuthThrottle();
    this.log = options.log;
    this.heartbeatMs = (options.heartbeatS ?? 5) * 1000;
    this.ackTimeoutMs = options.ackTimeoutMs ?? 10_000;
    const { handshakeTimeoutMs = 10_000, maxPending = 1_000 } = options;
    this.#acceptor = new Acceptor(
      // These links carry the fleet protocol alone, so the first message is not sniffed.
      [this.dialect],
      {
        handshakeTimeoutMs,
        maxPending,
        maxDepth: 64,
        maxMessageBytes: MAX_MESSAGE_BYTES,
        livenessTimeoutMs: this.#livenessTimeoutMs,
      },
    );
  }

  get size(): number {
    return this.#peers.size;
  }

  get events(): PeerEvents {
    if (this.#events === undefined) throw fail('runtime_error', 'the bus was not started');
    return this.#events;
  }

  // Beginning and end.

  async start(events: PeerEvents): Promise<void> {
    if (this.#events !== undefined) throw fail('usage', 'this bus was started before');
    this.#events = events;
    this.auth.onChange?.(() => this.#rightsChanged());
    this.#timer = setInterval(() => {
      for (const peer of this.#peers.values()) peer.beat();
    }, this.heartbeatMs).unref();
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    clearInterval(this.#timer);
    this.#acceptor.close();
    const peers = [...this.#peers.values()];
    // Links that end now are ended from here; the orchestrator knows.
    this.#peers.clear();
    await Promise.all(peers.map((peer) => peer.dismiss('stopping')));
    await Promise.all([...this.#supervised].map((stop) => stop()));
  }

  // Links.

  accept(link: Link): void {
    if (this.#refusal() !== undefined) return link.destroy('the fleet is not served here now');
    this.#acceptor.accept(link);
  }

  supervise(open: (signal: AbortSignal) => Promise<Link>, what: string): () => Promise<void> {
    let current: OutboundHandshake | undefined;
    const link: Reconnect<StreamPeer> = new Reconnect<StreamPeer>(
      {
        dial: open,
        handshake: async (opened, signal) => {
          const handshake = new OutboundHandshake(this, opened, this.#options.handshakeTimeoutMs ?? 30_000);
          current = handshake;
          const end = (): void => handshake.dismiss('stopping');
          signal.addEventListener('abort', end, { once: true });
          if (signal.aborted) end();
          const peer = await handshake.settled;
          signal.removeEventListener('abort', end);
          const lost = async (): Promise<HandfastError> => fail('connection_lost', (await handshake.gone).reason);
          if (peer === undefined) throw await lost();
          void lost().then((error) => current === handshake && link.lost(error));
          return peer;
        },
        open: (peer) => ({
          resumed: false,
          ping: pingOf(peer),
          livenessTimeoutMs: this.#livenessTimeoutMs,
        }),
        discard: (peer) => void peer.dismiss('stopping'),
        verdict: () => 'retry',
        ended() {},
        onState: (change) => reportLoss(this.log, 'lost a supervised worker; reconnecting', { what }, change),
      },
      supervision(this.#options.reconnect),
    );
    link.start();
    const stop = async (): Promise<void> => {
      this.#supervised.delete(stop);
      await link.close();
      current?.dismiss('stopping');
      await current?.gone;
    };
    this.#supervised.add(stop);
    return stop;
  }

  /** The limits sent to workers, which this side follows too. */
  get #livenessTimeoutMs(): number {
    return SILENT_HEARTBEATS * this.heartbeatMs;
  }

  // Admission.

  identify(link: Link, announced: Announced, token: unknown): WorkerIdentity | 'auth_failed' | 'unauthorized' {
    const principal = this.auth.authenticate(token);
    if (principal === undefined) return 'auth_failed';
    const { agent_id, pools } = announced;
    // A worker that announces a name its principal was not granted has the name of its token, where that is granted.
    const peerId = [agent_id, principal.name].find((name) => mayWork(principal, name, pools));
    if (peerId !== undefined) return { peerId, principal };
    this.unauthorized(principal, agent_id, link);
    return 'unauthorized';
  }

  /** Logs a worker that its principal may not be. */
  unauthorized({ name }: Principal, worker: string, { peer: address }: Link): void {
    const count = (this.#refused.get(name) ?? 0) + 1;
    this.#refused.set(name, count);
    if (!isLogged(count)) return;
    this.log.warn('a worker was refused: its token has no grant for this name or pool', {
      worker,
      principal: name,
      grant: 'fleet.worker',
      address,
      count,
    });
  }

  /** Gives every peer the rights its principal has now; a worker that it may not be any more is dismissed. */
  #rightsChanged(): void {
    for (const peer of [...this.#peers.values()]) {
      if (peer.principal !== undefined) peer.rightsChanged(this.auth.current?.(peer.principal.name));
    }
  }

  admit(
    link: Link,
    announced: Announced,
    identity: WorkerIdentity,
    onClosed?: (cause: CloseInfo) => void,
  ): StreamPeer | string {
    const { peerId } = identity;
    const refusal = this.#refusal();
    if (refusal !== undefined) return refusal;
    if (this.#options.taken?.has(peerId)) return 'name_taken';
    const before = this.#peers.get(peerId);
    if (before === undefined && this.#peers.size >= (this.#options.maxPeers ?? 10_000)) return 'over_capacity';
    const traffic = identity.principal && this.#options.traffic?.of(identity.principal, link);
    try {
      // A worker that replaces its own link needs no further one.
      if (before?.principal?.name !== identity.principal?.name) traffic?.mustHaveRoom();
    } catch (thrown) {
      return asError(thrown).code;
    }
    const peer = new StreamPeer(this, link, { ...identity, announced, onClosed });
    peer.connection.share(traffic);
    this.#peers.set(peerId, peer);
    if (before !== undefined) {
      this.log.info('a new link of a worker replaced the old one', {
        peer: peerId,
        restarted: before.incarnation !== announced.incarnation,
      });
      void before.dismiss('superseded');
    }
    return peer;
  }

  welcome(peer: StreamPeer, announced: Announced): void {
    if (peer.features.has('accept')) {
      // Nothing else can be waiting on a link that has just been taken over, so this is never refused.
      void peer.send(
        fleetMessage(
          'SESSION_ACCEPT',
          {
            peer_id: peer.peerId,
            features: ORCHESTRATOR_FEATURES,
            heartbeat_s: this.heartbeatMs / 1000,
            lease_ttl_s: this.#options.leaseTtlS ?? 45,
          },
          { sender: this.name },
        ),
      );
    }
    const { peerId, address, incarnation } = peer;
    this.log.info('a worker has joined', { peer: peerId, agent_id: announced.agent_id, address, incarnation });
    this.events.joined(peer);
    forwardToOrchestrator(this.events, peer, withoutToken(announced)).catch((thrown: unknown) =>
      this.log.error('an announce could not be stored', { peer: peerId, error: asError(thrown).message }),
    );
  }

  gone(peer: StreamPeer, reason: string, asleep: boolean): void {
    // A replaced link: the peer is still connected over the newer one.
    if (this.#peers.get(peer.peerId) !== peer) return;
    this.#peers.delete(peer.peerId);
    this.log.info('a worker has left', { peer: peer.peerId, reason, asleep });
    this.events.left(peer, reason, asleep);
  }

  #refusal(): string | undefined {
    if (this.#stopping.signal.aborted) return 'stopping';
    return this.#events === undefined ? 'not_ready' : undefined;
  }
}
