/**
 * HTTP requests to addresses that others name: one request, without redirects, to a host whose addresses were checked
 * first. A host name is resolved once and the connection goes to the addresses that were checked, so a name whose
 * addresses change (DNS rebinding) gains nothing.
 */
import { lookup } from 'node:dns/promises';
import type { IncomingMessage } from 'node:http';
import { isIP, type LookupFunction } from 'node:net';
import { fail } from '../../wire/errors.ts';
import { orAborted } from '../race.ts';
import { shown } from '../workspace/file-error.ts';
import { request as requestHttp } from './node-http.ts';
import { isPublicAddress } from './public-address.ts';

/** One address of a host name. */
export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

export interface AddressRules {
  /** Returns true for addresses that may be connected to. Default: {@link isPublicAddress}. */
  readonly addressAllowed?: (address: string) => boolean;
  /** Resolves a host name. Default: the system's resolver. */
  readonly resolve?: (hostname: string) => Promise<readonly ResolvedAddress[]>;
}

/**
 * Returns the addresses of the URL's host. One address that is not allowed refuses them all: chance would decide which
 * one is connected to.
 *
 * Rejects with `tool_denied` (`private_address`), with `tool_error` (`dns_failure`) if the host has none, and as
 * `resolve` does.
 */
export async function allowedAddresses(
  url: URL,
  rules: AddressRules,
  signal: AbortSignal,
): Promise<readonly ResolvedAddress[]> {
  const { addressAllowed = isPublicAddress } = rules;
  const hostname = hostOf(url);
  const addresses = await addressesOf(url, rules, signal);
  if (addresses.length === 0) {
    throw fail('tool_error', `"${shown(hostname)}" has no address`, { reason: 'dns_failure', host: shown(hostname) });
  }
  if (!addresses.every(({ address }) => addressAllowed(address))) {
    throw fail('tool_denied', `"${shown(hostname)}" is not on the public internet`, {
      reason: 'private_address',
      host: shown(hostname),
    });
  }
  return addresses;
}

/** Returns the addresses of the URL's host, allowed or not. Rejects as `resolve` does. */
export async function addressesOf(
  url: URL,
  { resolve = resolveAll }: Pick<AddressRules, 'resolve'>,
  signal: AbortSignal,
): Promise<readonly ResolvedAddress[]> {
  const hostname = hostOf(url);
  const family = isIP(hostname);
  return family === 0 ? orAborted(resolve(hostname), signal) : [{ address: hostname, family }];
}

const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '');

function resolveAll(hostname: string): Promise<readonly ResolvedAddress[]> {
  return lookup(hostname, { all: true });
}

export interface CheckedRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/** Sends a request to one of the addresses, and waits for the head of the response. Redirects are not followed. */
export async function requestFrom(
  addresses: readonly ResolvedAddress[],
  url: URL,
  { method, headers, body }: CheckedRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const request = url.protocol === 'https:' ? (await import('node:https')).request : requestHttp;
  // Returns the checked address, even if the name resolves to another one by now.
  const pinned: LookupFunction = (_hostname, options, callback) => {
    if (options.all) callback(null, [...addresses]);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  };
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const outgoing = request(url, {
    method,
    signal,
    lookup: pinned,
    // A separate agent: no shared connection, and none of the proxies that a host may have configured.
    agent: false,
    headers,
  });
  outgoing.once('response', resolve);
  outgoing.on('error', reject);
  outgoing.end(body);
  return promise;
}
