/**
 * The origin of a link, for counting guesses of tokens and places before the handshake.
 */
import type { Link } from '../transport/link.ts';

/**
 * Returns the network of a peer, or the path of the Unix socket it came by, whose peers are counted together; undefined
 * for links that only this process, or its parent, can open.
 */
export function originOf({ transport, peer }: Link): string | undefined {
  if (transport === 'unix') return peer;
  if (transport !== 'tcp' && transport !== 'websocket' && transport !== 'http') return undefined;
  const address = peer
    .replace(/^(?:\w+:\/\/|ws:)/, '')
    .replace(/[/?#].*$/, '')
    .replace(/:\d+$/, '')
    .replace(/^\[|\]$/g, '');
  return networkOf(address);
}

/**
 * Returns the text that counts as one address: an IPv4 address, an IPv6 network of 64 bits (one machine owns all of
 * it), or the text itself for anything else. A port is not expected.
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  if (!address.includes(':') || address.includes('/')) return address;
  const [head = '', tail] = address.toLowerCase().replace(/%.*$/, '').split('::', 2);
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const groups =
    tail === undefined
      ? left
      : [...left, ...Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0'), ...right];
  return `${groups
    .slice(0, 4)
    .map((part) => part.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}
