/**
 * `connect`: finds the transport to a server of sessions by its address, and performs the handshake.
 *
 * For Node; `connect-browser.ts` is the file for pages.
 */

import { webSocketAddress } from '../base/web-address.ts';
import { type Link, MESSAGE_BYTES_CEILING } from '../transport/link.ts';
import { ControlClient, type ControlOptions, type Dial } from './control.ts';

export interface ConnectOptions extends ControlOptions {
  /** For `stdio:` addresses: working directory and environment additions of the child. */
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** For `stdio:` addresses: gets the lines the child writes to its stderr. */
  readonly onStderr?: (line: string) => void;
}

/** Anything that takes a link over: a server in this process. */
export interface InProcessServer {
  accept(link: Link): void;
}

/**
 * Connects to a server of sessions.
 *
 * @param address `ws(s)://host:port/rpc`, `http(s)://host:port` (its `/rpc`), `tcp://`, `unix://`, `stdio:COMMAND` such as
 *   `stdio:handfast rpc`, or a server of this process
 * @throws unreachable, timeout, auth_failed, version_mismatch, cancelled, usage
 */
export async function connect(address: string | InProcessServer, options: ConnectOptions = {}): Promise<ControlClient> {
  if (typeof address !== 'string')
    return ControlClient.open(inProcess(address), { ...options, reconnect: { ...options.reconnect, maxMs: 0 } });
  const { connectTimeoutMs: timeoutMs = 10_000, cwd, env, onStderr } = options;
  const { addressOf } = await import('../agent/addresses.ts');
  const route = addressOf(webSocketAddress(address, '/rpc') ?? address, {
    timeoutMs,
    maxMessageBytes: MESSAGE_BYTES_CEILING,
    cwd,
    env,
    onStderr,
  });
  return ControlClient.open(
    (signal) => route.dial(signal),
    route.reconnects ? options : { ...options, reconnect: { ...options.reconnect, maxMs: 0 } },
  );
}

function inProcess(server: InProcessServer): Dial {
  return async () => {
    const { memoryPair } = await import('../transport/memory.ts');
    const [ours, theirs] = memoryPair();
    server.accept(theirs);
    return ours;
  };
}
