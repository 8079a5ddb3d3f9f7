/**
 * Parses listen addresses and decides which of them a host may use. An address that other machines can reach needs a
 * token and explicit consent, because connections are not encrypted.
 *
 * It applies to `listen` and `--listen`; pure. The rule is in SECURITY.md.
 */
import { fail } from '../wire/errors.ts';

/** A parsed listen address. */
export type ListenAddress =
  | { readonly kind: 'http' | 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string };

/** The forms of an address, for messages. */
export const ADDRESS_FORMS = 'http://host:port, tcp://host:port or unix:///path';

/**
 * Parses an address; undefined when it is invalid. IPv6 hosts are in brackets, port 0 means any free port, everything
 * after `unix://` is the path, which the caller resolves.
 */
export function parseListenAddress(address: string): ListenAddress | undefined {
  const unix = /^unix:\/\/([^\0]+)$/.exec(address);
  if (unix) return { kind: 'unix', path: unix[1]! };
  const match = /^(http|tcp):\/\/(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+)):(\d{1,5})\/?$/i.exec(address);
  if (match === null) return undefined;
  const port = Number(match[4]);
  if (port > 65_535) return undefined;
  return { kind: match[1]!.toLowerCase() as 'http' | 'tcp', host: (match[2] ?? match[3]!).toLowerCase(), port };
}

/**
 * Returns true for names and addresses that only this machine can reach. Other names are not resolved: they count as
 * remote.
 */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^::ffff:(?=\d+\.)/, '');
  if (name === 'localhost' || name === '::1' || name === '0:0:0:0:0:0:0:1') return true;
  const octets = /^127\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(name);
  return octets?.slice(1).every((octet) => Number(octet) <= 255) ?? false;
}

/**
 * Parses an address and refuses one the host must not listen on. Loopback addresses and Unix sockets always pass; any
 * other needs a configured token (`hasToken`) and consent to unencrypted connections (`insecure`).
 *
 * Fails with `config_invalid`, which names the missing condition.
 */
export function checkBind(address: string, options: { hasToken: boolean; insecure: boolean }): ListenAddress {
  const parsed = parseListenAddress(address);
  if (parsed === undefined) {
    throw fail('config_invalid', `expected ${ADDRESS_FORMS}, got ${JSON.stringify(address)}`, { address });
  }
  if (parsed.kind === 'unix' || isLoopback(parsed.host)) return parsed;
  const missing = [
    ...(options.hasToken ? [] : ['a token (auth.tokens)']),
    ...(options.insecure ? [] : ['insecure_bind: true (or --insecure-bind) because the link is not encrypted']),
  ];
  if (missing.length > 0) {
    const wanted = `expected a loopback address, or ${missing.join(' and ')}`;
    throw fail('config_invalid', `${wanted}, got ${address} which other machines can reach`, { address });
  }
  return parsed;
}
