/**
 * The client that sent a request: the peer of its connection or, if the peer is a proxy that the configuration names
 * (`http.trusted_proxies`), the client that this proxy names.
 *
 * When proxies are configured, the HTTP port of the server stores it with every request; {@link clientAddress} returns
 * it.
 */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';

/** A request as the HTTP port passes it on. */
interface NotedRequest extends IncomingMessage {
  clientAddress?: string;
}

/** Gives the client's address of a request, for {@link noteClientAddress}. */
export type ProxyTrust = (request: IncomingMessage) => string;

/** Returns the address of the client, without a port. */
export function clientAddress(request: IncomingMessage): string {
  return (request as NotedRequest).clientAddress ?? request.socket.remoteAddress ?? '';
}

/** Notes the address of the client for {@link clientAddress}. */
export function noteClientAddress(request: IncomingMessage, address: string): void {
  (request as NotedRequest).clientAddress = address;
}

/**
 * Trusts the named proxies to name the client they forward. Each hop that one of them names is trusted only when it is
 * one of them itself, so the result is the last address on the way that is not a proxy.
 *
 * @param proxies addresses, or networks as `10.0.0.0/8`
 */
export function trustProxies(proxies: readonly string[]): ProxyTrust {
  const trusted = new BlockList();
  for (const proxy of proxies) {
    const [address = '', bits] = proxy.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (bits === undefined) trusted.addAddress(address, family);
    else trusted.addSubnet(address, Number(bits), family);
  }
  const isTrusted = (address: string): boolean => trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  const walk = (peer: string, hops: readonly string[]): string => {
    let last = peer;
    for (const hop of hops.toReversed()) {
      const address = addressOf(hop);
      // A trusted proxy stands for a client that it cannot name.
      if (address === undefined) return last;
      last = address;
      if (!isTrusted(address)) return last;
    }
    return last;
  };
  return (request) => {
    const peer = plain(request.socket.remoteAddress ?? '');
    if (isIP(peer) === 0 || !isTrusted(peer)) return peer;
    const { forwarded, 'x-forwarded-for': forwardedFor } = request.headers;
    const old = listed(forwardedFor);
    const standard = listed(forwarded).map((hop) => /(?:^|;)\s*for\s*=\s*("?)([^";]*)\1/i.exec(hop)?.[2] ?? '');
    if (old.length === 0) return walk(peer, standard);
    if (standard.length === 0) return walk(peer, old);
    // A proxy writes one of them and may pass the other on as the client wrote it: two answers are none.
    const [left, right] = [walk(peer, old), walk(peer, standard)];
    return left === right ? left : peer;
  };
}

const listed = (value: string | string[] | undefined): string[] =>
  value === undefined
    ? []
    : String(value)
        .split(',')
        .map((hop) => hop.trim());

/** Returns the address of a hop without port, brackets and quotes; undefined for a name that hides it. */
function addressOf(hop: string): string | undefined {
  const bare = hop.replace(/^"|"$/g, '');
  const inBrackets = /^\[([^\]]*)\](?::\d+)?$/.exec(bare)?.[1];
  const address = plain(inBrackets ?? bare.replace(/^([\d.]+):\d+$/, '$1'));
  return isIP(address) === 0 ? undefined : address;
}

/** Returns an IPv4 address in its own form if it came as IPv6. */
const plain = (address: string): string => address.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '');
