/**
 * Whose request over HTTP this is, by its `Authorization: Bearer TOKEN`. Used by the operator's routes and by the fleet's HTTP
 * servers. Wrong tokens are refused ever more slowly, as they are at the handshake.
 */
import type { IncomingMessage } from 'node:http';
import { clientAddress } from '../base/http/client-address.ts';
import type { Authenticator } from './auth.ts';
import type { AuthThrottle } from './auth-throttle.ts';
import type { Principal } from './principal.ts';

/**
 * The principal of a request; otherwise the status of its refusal: 401, or 429 when too many wrong tokens of this address
 * wait for theirs. Asking without a token is no guess, and refused at once.
 */
export async function principalOfRequest(
  request: IncomingMessage,
  auth: Authenticator,
  throttle: AuthThrottle,
): Promise<Principal | 401 | 429> {
  const token = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
  const principal = auth.authenticate(token);
  if (principal !== undefined) return principal;
  if (token === '') return 401;
  return (await throttle.delayRefusal(clientAddress(request))) ? 429 : 401;
}
