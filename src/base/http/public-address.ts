/**
 * Decides which IP addresses are public: with this rule, addresses that others name have no access to the network of
 * the host.
 *
 * Pure. An address that is not known to be public is refused: the special-purpose registries of IANA (RFC 6890 and its
 * updates) for IPv4, and for IPv6 everything except global unicast. IPv6 forms that carry an IPv4 address are judged by
 * that address.
 */
import { isIP } from 'node:net';

/** Blocks of IPv4 that are not the public internet. */
const refusedIPv4: readonly (readonly [block: string, bits: number])[] = [
  ['0.0.0.0', 8], // this network
  ['10.0.0.0', 8], // private
  ['100.64.0.0', 10], // carrier-grade NAT; some clouds have their metadata here
  ['127.0.0.0', 8], // loopback
  ['168.63.129.16', 32], // the host of a virtual machine, in one cloud
  ['169.254.0.0', 16], // link-local, with the metadata address of most clouds
  ['172.16.0.0', 12], // private
  ['192.0.0.0', 24], // protocol assignments
  ['192.0.2.0', 24], // documentation
  ['192.88.99.0', 24], // old 6to4 relays
  ['192.168.0.0', 16], // private
  ['198.18.0.0', 15], // benchmarks
  ['198.51.100.0', 24], // documentation
  ['203.0.113.0', 24], // documentation
  ['224.0.0.0', 4], // multicast
  ['240.0.0.0', 4], // reserved, with the broadcast address
];

/** Returns true for an address of the public internet. False for anything else, also for text that is not an address. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return isPublicIPv4(numberOf(address));
  // A zone (`fe80::1%eth0`) only exists on addresses of the local link.
  return family === 6 && !address.includes('%') && isPublicIPv6(groupsOf(address));
}

/** Returns the 32 bits of a dotted address. */
function numberOf(address: string): number {
  return address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
}

function isPublicIPv4(value: number): boolean {
  return !refusedIPv4.some(([block, bits]) => {
    const size = 2 ** (32 - bits);
    return Math.floor(value / size) === Math.floor(numberOf(block) / size);
  });
}

/** Returns the eight groups of an IPv6 address; a dotted end counts as two. */
function groupsOf(address: string): number[] {
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(address);
  let text = address;
  if (dotted !== null) {
    const value = numberOf(dotted[2]!);
    text = `${dotted[1]}${Math.floor(value / 65_536).toString(16)}:${(value % 65_536).toString(16)}`;
  }
  const [head = '', tail] = text.split('::');
  const parse = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16));
  const front = parse(head);
  if (tail === undefined) return front;
  const back = parse(tail);
  return [...front, ...new Array<number>(8 - front.length - back.length).fill(0), ...back];
}

function isPublicIPv6(groups: readonly number[]): boolean {
  const [a = 0, b = 0] = groups;
  const embedded = (high: number, low: number): boolean => isPublicIPv4(groups[high]! * 65_536 + groups[low]!);
  const zero = (from: number, to: number): boolean => groups.slice(from, to).every((group) => group === 0);
  // ::ffff:a.b.c.d: an IPv4 connection in all but name.
  if (zero(0, 5) && groups[5] === 0xffff) return embedded(6, 7);
  // 64:ff9b::a.b.c.d: the form that a network without IPv4 gives every IPv4 address (NAT64).
  if (a === 0x64 && b === 0xff9b && zero(2, 6)) return embedded(6, 7);
  // Only 2000::/3 is global unicast; loopback, local, link-local and multicast addresses all lie outside.
  if (a < 0x2000 || a > 0x3fff) return false;
  // 2002:a.b.c.d::: 6to4.
  if (a === 0x2002) return embedded(1, 2);
  // 2001::/23 protocol assignments with Teredo tunnels; 2001:db8::/32 and 3fff::/20 documentation.
  if (a === 0x2001 && (b < 0x200 || b === 0xdb8)) return false;
  return !(a === 0x3fff && b < 0x1000);
}
