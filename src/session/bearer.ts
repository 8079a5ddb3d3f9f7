/**
 * Whose request over HTTP this is, by its `Authorization: Bearer TOKEN`. Used by the operator's routes and by the fleet's HTTP
 * servers. Wrong tokens are refused ever more slowly, as they are at the handshake.
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
 * The principal of a request; otherwise why it is refused: 401, 429 when too many wrong tokens of this address wait for their
 * refusals, or the error of a principal that has used up its share of `traffic`. Asking without a token is no guess, and refused at once.
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
 * Whose token the last request of each connection had. A client repeats its token with every request; the digest of the same
 * text, looked for among the same tokens, need not be made again. Nothing of it outlives a change of tokens or rights.
 */
export class ConnectionTokens {
  readonly #auth: Authenticator;
  /** Undefined: the authenticator does not say when its answers change. */
  #last: WeakMap<Socket, { header: string; principal: Principal }> | undefined;

  constructor(auth: Authenticator) {
    this.#auth = auth;
    if (auth.onChange === undefined) return;
    this.#last = new WeakMap();
    auth.onChange(() => {
      this.#last = new WeakMap();
    });
  }

  /** The owner of the token of a request, as {@link Authenticator.authenticate} has it. */
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

/** Whether two texts are equal, in a time that depends on their lengths alone: a proxy may bring several clients on one connection. */
function isSame(one: string, other: string): boolean {
  if (one.length !== other.length) return false;
  let difference = 0;
  for (let index = 0; index < one.length; index++) difference |= one.charCodeAt(index) ^ other.charCodeAt(index);
  return difference === 0;
}

/** The principal of a request, or the error of one that has used up its share of `traffic`; undefined for a token that is refused. */
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

/** The status of the refusal of a request whose token belongs to no principal, when it may be sent. */
export async function refusedToken(request: IncomingMessage, throttle: AuthThrottle): Promise<401 | 429> {
  if (tokenOf(request) === '') return 401;
  return (await throttle.delayRefusal(clientAddress(request))) ? 429 : 401;
}

/** The token of a header `Authorization`; empty: none. */
export const bearerToken = (authorization: string | undefined): string =>
  /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1] ?? '';

const tokenOf = ({ headers }: IncomingMessage): string => bearerToken(headers.authorization);
