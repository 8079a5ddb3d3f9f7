/**
 * `listen`: opens an address for a host that a program made with `createHost`; the counterpart of `connect`.
 *
 * `handfast up` does not use it: it serves a whole configuration (`serve.ts`), with the token of the user and the
 * operator's routes. The modules for an address are loaded when it is opened.
 */

import { valueKind } from './base/value-kind.ts';
import { ADDRESS_FORMS, isLoopback, parseListenAddress } from './config/listen-address.ts';
import type { Host } from './host/host.ts';
import type { Listener } from './transport/link.ts';
import { fail } from './wire/errors.ts';

export interface ListenOptions {
  /** HTTP: names clients may call this server by, besides its address: `name` with any port, or `name:port`. */
  readonly allowedHosts?: readonly string[];
  /** HTTP: origins of pages, besides its own, that may connect, e.g. `https://console.example.org`. */
  readonly allowedOrigins?: readonly string[];
}

/**
 * Opens `http://host:port` (the A2E binding, and WebSocket at `/ws`), `tcp://host:port` or `unix:///path` and hands
 * every link to the host. Port 0 takes a free one: an agent connects to `listener.address`.
 *
 * An address that other machines can reach needs a host that demands a token (`createHost({ auth })`); its links are
 * not encrypted. Over HTTP it answers to the names in `allowedHosts`, besides the address itself. Close the listener
 * after the host, or together with it: an HTTP port stays open for the sessions it has.
 *
 * @throws usage for an address of another form, and for a host that was not started · config_invalid for one that other
 * machines can reach without a token · runtime_error when it cannot be bound (`detail.reason` is the system's code,
 * e.g. `EADDRINUSE`)
 *
 * @example
 * await using listener = await listen(host, 'tcp://127.0.0.1:0');
 * await using agent = await connect(listener.address, { capabilities: ['tools'] });
 */
export async function listen(
  host: Pick<Host, 'accept' | 'requiresToken'> &
    Partial<Pick<Host, 'started'>> & {
      readonly limits: Pick<Host['limits'], 'maxMessageBytes' | 'maxSessions' | 'sendBufferBytes'>;
    },
  address: string,
  { allowedHosts = [], allowedOrigins = [] }: ListenOptions = {},
): Promise<Listener & AsyncDisposable> {
  if (typeof (host as Partial<Host> | undefined)?.accept !== 'function') {
    throw fail('usage', `expected listen(host, address) with a host of createHost, got ${valueKind(host)}`);
  }
  if (host.started === false) throw fail('usage', 'the host was not started; await host.start() before it listens');
  const parsed = typeof address === 'string' ? parseListenAddress(address) : undefined;
  if (parsed === undefined) throw fail('usage', `expected ${ADDRESS_FORMS}, got ${JSON.stringify(address)}`);
  if (parsed.kind !== 'unix' && !isLoopback(parsed.host) && !host.requiresToken) {
    throw fail(
      'config_invalid',
      `other machines can reach ${address}; make the host with \`auth\`, or use a loopback address`,
    );
  }
  const { listenLinks } = await import('./server/listen-links.ts');
  const limits = { ...host.limits, allowedHosts, allowedOrigins };
  const listener = await listenLinks(parsed, (link) => host.accept(link), limits);
  const close = () => listener.close();
  return { address: listener.address, close, [Symbol.asyncDispose]: close };
}
