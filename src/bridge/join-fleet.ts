/**
 * Joins a worker to the fleet at an address. `handfast worker` does the same with it, and programs get it from
 * `handfast/fleet`.
 *
 * @see docs/fleet.md#worker
 */
import { addressOf } from '../agent/addresses.ts';
import type { WorkerPort } from '../fleet/bus/reply-channel.ts';
import { type Joined, type JoinOptions, joinOverLink } from '../fleet/bus/stream/join.ts';
import type { Link } from '../transport/link.ts';

/** Default for the bytes of one message that an orchestrator may send: a brief of 256 KiB and its envelope. */
export const DEFAULT_JOIN_MESSAGE_BYTES = 4 * 1024 * 1024;

export interface JoinFleetOptions extends JoinOptions {
  /** Time for reaching the orchestrator, milliseconds. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** Bytes of one message of the orchestrator. Default 4 MiB. */
  readonly maxMessageBytes?: number;
}

/**
 * Joins the fleet at `http(s)://host:port`, `ws(s)://host:port/ws`, `tcp://host:port` or `unix:///path`, for as long as it takes,
 * and again whenever the link ends. At `http(s)://` a WebSocket is tried first, and HTTP with server-sent events where something on
 * the way refuses that. Throws `usage` for an address of another form; later events are reported by the returned object.
 *
 * @example
 * import * as fleet from 'handfast/fleet';
 *
 * const joined = fleet.join(worker, 'tcp://10.0.0.1:4701', { token: () => process.env.HANDFAST_TOKEN });
 * await joined.accepted;
 */
export function join(worker: WorkerPort, address: string, options: JoinFleetOptions = {}): Joined {
  const { connectTimeoutMs: timeoutMs = 10_000, maxMessageBytes = DEFAULT_JOIN_MESSAGE_BYTES, ...rest } = options;
  const routeTo = (to: string) => addressOf(to, { timeoutMs, maxMessageBytes });
  const route = routeTo(address);
  const webSocket = /^http(s?):\/\/([^/?#]+)\/?$/.exec(address);
  if (webSocket === null) return joinOverLink(worker, route.dial, rest);
  const first = routeTo(`ws${webSocket[1]}://${webSocket[2]}/ws`);
  const dial = async (signal: AbortSignal): Promise<Link> => {
    try {
      return await first.dial(signal);
    } catch (thrown) {
      signal.throwIfAborted();
      return route.dial(signal).catch(() => {
        throw thrown;
      });
    }
  };
  return joinOverLink(worker, dial, rest);
}
