/**
 * The requests of a sign-in to an MCP server. The server names the addresses (its metadata, its authorization server, the endpoints
 * of that), so each is checked: no plain HTTP to another machine, and no address of a network that the server itself is not in.
 *
 * Redirects are not followed here; the client of the protocol follows those that stay at one origin, through this
 * function.
 */

import { addressesOf, allowedAddresses, type ResolvedAddress, requestFrom } from '../base/http/checked-request.ts';
import { isPublicAddress } from '../base/http/public-address.ts';
import { fail, HandfastError } from '../wire/errors.ts';

/** Longest reply of an authorization server. */
const MAX_BYTES = 1024 * 1024;
const TIMEOUT_MS = 30_000;

type Init = {
  readonly method?: string | undefined;
  readonly headers?: unknown;
  readonly body?: unknown;
  readonly signal?: AbortSignal | null | undefined;
};

export type CheckedFetch = (address: string | URL, init?: Init) => Promise<Response>;

/** Fetches for the sign-in to the server at `url`, until the signal aborts. Rejects with `login_failed`. */
export function checkedFetch(url: string, signal: AbortSignal): CheckedFetch {
  const server = new URL(url);
  return async (address, init = {}) => {
    const target = new URL(address);
    const bound = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS), ...(init.signal ? [init.signal] : [])]);
    try {
      const addresses = await addressesFor(target, server, bound);
      const headers = Object.fromEntries(new Headers(init.headers as ConstructorParameters<typeof Headers>[0]));
      const { method = 'GET', body } = init;
      const sent = { method, headers, body: body === undefined || body === null ? undefined : String(body) };
      const response = await requestFrom(addresses, target, sent, bound);
      const parts: Buffer[] = [];
      let size = 0;
      for await (const part of response as AsyncIterable<Buffer>) {
        size += part.length;
        if (size > MAX_BYTES) throw refused(target, `sent more than ${MAX_BYTES} bytes`);
        parts.push(part);
      }
      const { statusCode: status = 500, statusMessage: statusText = '' } = response;
      const pairs = Object.entries(response.headers).map(([name, value]): [string, string] => [name, String(value)]);
      // Statuses without a body must be made without one.
      return new Response(status === 204 || status === 304 ? null : Buffer.concat(parts), {
        status,
        statusText,
        headers: pairs,
      });
    } catch (thrown) {
      signal.throwIfAborted();
      if (thrown instanceof HandfastError && thrown.code === 'login_failed') throw thrown;
      const why = bound.aborted
        ? `did not answer within ${TIMEOUT_MS / 1_000} s`
        : `cannot be reached: ${(thrown as Error).message}`;
      throw refused(target, why, thrown);
    }
  };
}

/** Returns the address that a browser is sent to. Throws `login_failed` for one that is neither HTTPS nor on this machine. */
export function checkedPage(page: URL, server: string): URL {
  mustBeSecure(page, new URL(server));
  return page;
}

async function addressesFor(target: URL, server: URL, signal: AbortSignal): Promise<readonly ResolvedAddress[]> {
  mustBeSecure(target, server);
  // An address of the configuration may be anywhere.
  if (target.origin === server.origin) return addressesOf(target, {}, signal);
  const own = await addressesOf(server, {}, signal);
  const isOnLoopback = own.some(({ address }) => isLoopbackAddress(address));
  const isPrivate = isOnLoopback || own.some(({ address }) => isPrivateAddress(address));
  const addressAllowed = (address: string): boolean =>
    isPublicAddress(address) ||
    (isPrivate && isPrivateAddress(address)) ||
    (isOnLoopback && isLoopbackAddress(address));
  return allowedAddresses(target, { addressAllowed }, signal);
}

function mustBeSecure(target: URL, server: URL): void {
  if (target.username !== '' || target.password !== '')
    throw refused(target, 'is named with a password in its address');
  if (target.protocol === 'https:') return;
  const isOwn = target.origin === server.origin;
  if (target.protocol !== 'http:' || !(isOwn || isLoopbackHost(target.hostname))) {
    throw refused(target, 'is named without https');
  }
}

const isLoopbackHost = (host: string): boolean =>
  host === 'localhost' || isLoopbackAddress(host.replace(/^\[|\]$/g, ''));

const isLoopbackAddress = (address: string): boolean => address === '::1' || /^127(?:\.\d{1,3}){3}$/.test(address);

/** Returns true for an address in a network of a house or a company: not the local link, where clouds have their metadata. */
const isPrivateAddress = (address: string): boolean =>
  /^(?:10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|f[cd][0-9a-f]{2}:)/i.test(address);

const refused = (target: URL, why: string, cause?: unknown): HandfastError =>
  fail('login_failed', `${target.host || target.protocol} ${why}`, { host: target.host }, cause);
