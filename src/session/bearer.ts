/**
 * Finds the principal of an HTTP request, by its `Authorization: Bearer TOKEN`. Wrong tokens are refused ever more
 * slowly, as they are at the handshake.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { clientAddress } from '../base/http/client-address.ts';
import type { HandfastError } from '../wire/errors.ts';
import type { Authenticator } from './auth.ts';
import type { AuthThrottle } from './auth-throttle.ts';
import type { Principal } from './principal.ts';
import type { TrafficShares } from './traffic-shares.ts';

const OVER_HTTP = { transport: 'http' } as const;

/**
 * Resolves with the principal of a request; otherwise with the reason of its refusal: 401, 429 when too many wrong
 * tokens of this address wait for their refusals, or the error of a principal that has used up its share of `traffic`.
 * A request without a token is no guess, and refused at once.
 */
export async function principalOfRequest(
  request: IncomingMessage,
  auth: Authenticator,
  throttle: AuthThrottle,
  traffic?: TrafficShares,
): Promise<Principal | 401 | 429 | HandfastError> {
  return knownPrincipal(request, auth, traffic) ?? (await refusedToken(request, throttle));
}

/**
 * The principal of the last request of each connection. A client repeats its token with every request; the digest of
 * the same text, compared with the same tokens, need not be computed again. None of it outlives a change of tokens or
 * rights.
 */
export class ConnectionTokens {
  readonly #auth: Authenticator;
  /** The last token of each connection; undefined if the authenticator does not announce changes of its results. */
  #last: WeakMap<Socket, { header: string; principal: Principal }> | undefined;

  constructor(auth: Authenticator) {
    this.#auth = auth;
    if (auth.onChange === undefined) return;
    this.#last = new WeakMap();
    auth.onChange(() => {
      this.#last = new WeakMap();
    });
  }

  /** Returns the owner of the token of a request, as {@link Authenticator.authenticate} does. */
  ownerOf(request: IncomingMessage): Principal | undefined {
    const { socket } = request;
    const header = request.headers.authorization ?? '';
    const last = this.#last?.get(socket);
    if (last !== undefined && isSame(last.header, header)) return last.principal;
    const principal = this.#auth.authenticate(tokenOf(request));
    if (principal === undefined) this.#last?.delete(socket);
    else if (last === undefined) this.#last?.set(socket, { header, principal });
    else {
      last.header = header;
      last.principal = principal;
    }
    return principal;
  }
}

/**
 * Returns true if two texts are equal, in a time that depends on their lengths alone: a proxy may bring several clients
 * on one connection.
 */
function isSame(one: string, other: string): boolean {
  if (one.length !== other.length) return false;
  let difference = 0;
  for (let index = 0; index < one.length; index++) difference |= one.charCodeAt(index) ^ other.charCodeAt(index);
  return difference === 0;
}

/**
 * Returns the principal of a request, or the error of one that has used up its share of `traffic`; undefined for a
 * token that is refused.
 */
export function knownPrincipal(
  request: IncomingMessage,
  auth: Authenticator | ConnectionTokens,
  traffic?: TrafficShares,
): Principal | HandfastError | undefined {
  const principal = auth instanceof ConnectionTokens ? auth.ownerOf(request) : auth.authenticate(tokenOf(request));
  if (principal === undefined) return undefined;
  const bytes = Number(request.headers['content-length'] ?? 0);
  return traffic?.of(principal, OVER_HTTP)?.admitAlone(bytes) ?? principal;
}

/** Resolves with the status of the refusal of a request whose token belongs to no principal, when it may be sent. */
export async function refusedToken(request: IncomingMessage, throttle: AuthThrottle): Promise<401 | 429> {
  if (tokenOf(request) === '') return 401;
  return (await throttle.delayRefusal(clientAddress(request))) ? 429 : 401;
}

/** Returns the token of a header `Authorization`; empty if it has none. */
export const bearerToken = (authorization: string | undefined): string =>
  /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1] ?? '';

const tokenOf = ({ headers }: IncomingMessage): string => bearerToken(headers.authorization);
