/**
 * The limits of the wire side of the control edge. All are optional in `RpcServerOptions`.
 *
 * @see docs/protocol/session-rpc.md#limits
 */
import { DEFAULT_LIVENESS_TIMEOUT_MS } from '../../connection/liveness.ts';
import { DEFAULT_MAX_MESSAGE_BYTES, DEFAULT_MAX_PROMPT_BYTES } from '../../transport/link.ts';
import { MAX_VALUES } from '../../wire/depth.ts';

export interface RpcLimits {
  /**
   * Longest line of `session.send` and `session.import` from a client that may drive sessions, in bytes: a prompt carries its
   * images in the line, each of up to 8 MiB. Every listener has this limit: `control.max_message_bytes` of the configuration.
   * Default 16 MiB.
   */
  readonly maxMessageBytes: number;
  /**
   * Longest line of any other method, and of any other client, in bytes; before a required handshake it is 64 KiB.
   * `limits.max_message_bytes` of the configuration. Default 1 MiB.
   */
  readonly maxPlainMessageBytes: number;
  /** Deepest nesting of a message. Default 64. */
  readonly maxDepth: number;
  /**
   * Values of a message: elements, objects, arrays, names and values of members. `limits.max_values` of the configuration.
   * Default 65,536.
   */
  readonly maxValues: number;
  /**
   * Requests of a connection without a reply; one more is refused with `over_capacity`. Requests that end other work
   * (interrupts, answers to approvals, shutdown) have the same limit separately. Default 256.
   */
  readonly maxInFlight: number;
  /**
   * Requests of a connection that wait for the end or the next event of a task; they are not counted as in flight. Default
   * 4,096.
   */
  readonly maxWaiting: number;
  /** Default 256. */
  readonly maxSubscriptions: number;
  /** Connections at once, links before their handshake not counted. Default 1,000. */
  readonly maxConnections: number;
  /** Links before a required handshake. Default 128. */
  readonly maxPendingConnections: number;
  /** Time for a required handshake in total, in milliseconds. Default 10,000. */
  readonly handshakeTimeoutMs: number;
  /** A WebSocket that is silent for this time, although it was pinged, is dropped. Default 15,000; 0 = never. */
  readonly livenessTimeoutMs: number;
  /** Unsent bytes above which a subscription is no longer fed but reads the journal as its link drains. Default 256 KiB. */
  readonly pullBytes: number;
  /** Unsent bytes above which nothing more is read from a peer, and `slowConsumerMs` starts. Default 4 MiB. */
  readonly sendBufferBytes: number;
  /**
   * Events queued above `sendBufferBytes`, in characters, at which a link is dropped before `slowConsumerMs` has passed. With
   * as many unsent bytes of replies, further requests are refused with `over_capacity`. Default 32 MiB.
   */
  readonly maxSendBufferBytes: number;
  /** Longest time that a peer may stay above `sendBufferBytes` before its link is dropped, in milliseconds. Default 30,000. */
  readonly slowConsumerMs: number;
  /** Longest time that a slow peer may read nothing at all, in milliseconds. 0 = no limit. Default 30,000. */
  readonly writeStallMs: number;
  /** Longest time that an aborted request may run until the server replies for its handler, in milliseconds. Default 2,000. */
  readonly settleMs: number;
  /** Longest time that turns may take to end when the server stops, in milliseconds. Default 10,000. */
  readonly shutdownTimeoutMs: number;
}

export const defaultRpcLimits: RpcLimits = {
  maxMessageBytes: DEFAULT_MAX_PROMPT_BYTES,
  maxPlainMessageBytes: DEFAULT_MAX_MESSAGE_BYTES,
  maxDepth: 64,
  maxValues: MAX_VALUES,
  maxInFlight: 256,
  maxWaiting: 4_096,
  maxSubscriptions: 256,
  maxConnections: 1_000,
  maxPendingConnections: 128,
  handshakeTimeoutMs: 10_000,
  livenessTimeoutMs: DEFAULT_LIVENESS_TIMEOUT_MS,
  pullBytes: 256 * 1024,
  sendBufferBytes: 4 * 1024 * 1024,
  maxSendBufferBytes: 32 * 1024 * 1024,
  slowConsumerMs: 30_000,
  writeStallMs: 30_000,
  settleMs: 2_000,
  shutdownTimeoutMs: 10_000,
};
