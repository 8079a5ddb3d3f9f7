/**
 * Whose request over HTTP this is, by its `Authorization: Bearer TOKEN`. Used by the operator's routes and by the fleet's HTTP
 * servers. Wrong tokens are refused ever more slowly, as they are at the handshake.
 */
import type { IncomingMessage } from 'node:http';
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

/** The principal of a request, or the error of one that has used up its share of `traffic`; undefined for a token that is refused. */
export function knownPrincipal(
  request: IncomingMessage,
  auth: Authenticator,
  traffic?: TrafficShares,
): Principal | HandfastError | undefined {
  const principal = auth.authenticate(tokenOf(request));
  if (principal === undefined) return undefined;
  const bytes = Number(request.headers['content-length'] ?? 0);
  return traffic?.of(principal, OVER_HTTP)?.admitAlone(bytes) ?? principal;
}

/** The status of the refusal of a request whose token belongs to no principal, when it may be sent. */
export async function refusedToken(request: IncomingMessage, throttle: AuthThrottle): Promise<401 | 429> {
  if (tokenOf(request) === '') return 401;
  return (await throttle.delayRefusal(clientAddress(request))) ? 429 : 401;
}

const tokenOf = ({ headers }: IncomingMessage): string =>
  /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1] ?? '';
