/**
 * The users that listen on a TCP port of this machine. Linux lists them in `/proc/net/tcp`; other systems do not list
 * them to programs without rights.
 *
 * A program checks them before it sends the token of its user to an address.
 */
import { lookup } from 'node:dns/promises';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { endianness } from 'node:os';

/** A socket that accepts connections. */
export interface TcpListener {
  /** Number of the user whose process opened the socket. */
  readonly uid: number;
  /** By which its process is found. */
  readonly inode: number;
}

const TABLES = ['/proc/net/tcp', '/proc/net/tcp6'];
/** The state of a listening socket in the tables. */
const LISTENING = '0A';
const ANY = { 4: '00000000', 6: '0'.repeat(32) } as const;
/** An IPv4 address in a table of IPv6, before its four bytes. */
const MAPPED = '00000000000000000000FFFF';

/**
 * Returns the sockets that accept a connection to `host` and `port`: for every address of a name, the sockets that the
 * system prefers. Undefined if the system does not list them.
 */
export async function listenersAt(host: string, port: number): Promise<readonly TcpListener[] | undefined> {
  const tables = await Promise.all(TABLES.map((file) => readFile(file, 'latin1').catch(() => undefined)));
  // A system without IPv6 has one of them.
  if (tables[0] === undefined) return undefined;
  const listening = tables.flatMap((text) => listenersIn(text ?? '', port));
  const addresses = isIP(host) !== 0 ? [{ address: host }] : await lookup(host, { all: true }).catch(() => []);
  return addresses.flatMap(({ address }) => preferred(listening, address));
}

interface Row extends TcpListener {
  /** In hexadecimal, as in the table, with its bytes in the order of the network. */
  readonly address: string;
}

/** Returns the listening sockets of a table at this port. */
export function listenersIn(table: string, port: number): Row[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows: Row[] = [];
  for (const line of table.split('\n')) {
    const [, local = '', , state, , , , uid, , inode] = line.trim().split(/\s+/, 10);
    if (state !== LISTENING || !local.endsWith(suffix)) continue;
    rows.push({ address: networkOrder(local.slice(0, -suffix.length)), uid: Number(uid), inode: Number(inode) });
  }
  return rows;
}

/** Returns an address in network order: the table has words of 32 bits as the processor stores them. */
function networkOrder(hex: string): string {
  if (endianness() === 'BE') return hex;
  return hex.replaceAll(/[\dA-F]{8}/g, (word) => word.replace(/(..)(..)(..)(..)/, '$4$3$2$1'));
}

/**
 * Returns the sockets that the system prefers: one bound to the exact address goes before one bound to every address,
 * and that of IPv4 before that of both.
 */
function preferred(rows: readonly Row[], address: string): readonly TcpListener[] {
  const wanted = hexOf(address);
  const choices = wanted.length === 8 ? [wanted, MAPPED + wanted, ANY[4], ANY[6]] : [wanted, ANY[6]];
  for (const choice of choices) {
    const found = rows.filter((row) => row.address === choice);
    if (found.length > 0) return found;
  }
  return [];
}

/** Returns an address in hexadecimal; an IPv4 address that is written as IPv6 counts as IPv4. */
function hexOf(address: string): string {
  const bytes = (parts: readonly string[], base: number, size: number): string =>
    parts.map((part) => Number.parseInt(part, base).toString(16).toUpperCase().padStart(size, '0')).join('');
  if (isIP(address) === 4) return bytes(address.split('.'), 10, 2);
  // The URL parser writes every form of an IPv6 address in the shortest one.
  const [head = '', tail] = new URL(`http://[${address.replace(/%.*/, '')}]`).hostname.slice(1, -1).split('::', 2);
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const [before, after] = [groups(head), groups(tail ?? '')];
  const zeros = Array.from({ length: tail === undefined ? 0 : 8 - before.length - after.length }, () => '0');
  const hex = bytes([...before, ...zeros, ...after], 16, 4);
  return hex.startsWith(MAPPED) ? hex.slice(MAPPED.length) : hex;
}

/** Returns the process that has a listening socket open, if this user may see it. */
export function processOf({ inode }: TcpListener): number | undefined {
  const wanted = `socket:[${inode}]`;
  for (const pid of namesIn('/proc').filter((name) => /^\d+$/.test(name))) {
    for (const descriptor of namesIn(`/proc/${pid}/fd`)) {
      try {
        if (readlinkSync(`/proc/${pid}/fd/${descriptor}`) === wanted) return Number(pid);
      } catch {
        // The listener was closed meanwhile.
      }
    }
  }
  return undefined;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Returns the name of a user of this machine, else the number. */
export function userName(uid: number): string {
  try {
    const line = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find((each) => Number(each.split(':')[2] || Number.NaN) === uid);
    if (line !== undefined) return line.split(':')[0] as string;
  } catch {
    // The number names the user too.
  }
  return String(uid);
}
