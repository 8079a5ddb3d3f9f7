/**
 * `connect` of pages: finds a server of sessions over the browser's own WebSocket, and performs the handshake.
 *
 * Nothing of Node is reached from here.
 */

import { webSocketAddress } from '../base/web-address.ts';
import { connectBrowser } from '../transport/browser-websocket.ts';
import { MESSAGE_BYTES_CEILING } from '../transport/link.ts';
import { fail } from '../wire/errors.ts';
import { ControlClient, type ControlOptions } from './control.ts';

/**
 * Connects a page to a server of sessions.
 *
 * @param address `ws(s)://host:port/rpc` or `http(s)://host:port` (its `/rpc`)
 * @throws unreachable, timeout, auth_failed, version_mismatch, cancelled, usage
 */
export async function connect(address: string, options: ControlOptions = {}): Promise<ControlClient> {
  const url = webSocketAddress(address, '/rpc');
  if (url === undefined)
    throw fail('usage', `a page connects to ws(s)://host:port/rpc, got ${JSON.stringify(address)}`);
  const { connectTimeoutMs: timeoutMs = 10_000 } = options;
  const maxMessageBytes = MESSAGE_BYTES_CEILING;
  return ControlClient.open((signal) => connectBrowser(url, { signal, timeoutMs, maxMessageBytes }), options);
}
