/**
 * Routes of the HTTP port, each with the right it requires. Routes that require a right of a principal are served here: the
 * token, the right, the reply as JSON. A route without a named right cannot be registered.
 *
 * `http.ts` registers them; the operator's routes and the fleet's are two lists of them.
 * @see docs/security/rights.md#over-http
 */
import type { Authenticator } from '../../session/auth.ts';
import type { AuthThrottle } from '../../session/auth-throttle.ts';
import { principalOfRequest } from '../../session/bearer.ts';
import type { Principal } from '../../session/principal.ts';
import { may, refusal } from '../../session/rights.ts';
import type { TrafficShares } from '../../session/traffic-shares.ts';
import { errorReply, type HttpRoute, jsonReply, overloadReply, sendReply } from '../../transport/http/http-exchange.ts';
import { asError, type ErrorName, fail, HandfastError, rowOf } from '../../wire/errors.ts';

/**
 * `none`: every client that reaches the port. `messages`: the receiver of the messages authenticates their sender and checks
 * each of them. `token`: every principal; the answer holds the data that this principal may see.
 */
export type RouteRight = 'none' | 'messages' | 'token' | 'observe' | 'administer';

/** A route that checks no right itself. */
interface PlainRoute extends HttpRoute {
  readonly needs: 'none' | 'messages';
}

/** A route for principals with `Authorization: Bearer TOKEN`. */
export interface GuardedRoute extends Omit<HttpRoute, 'handle'> {
  readonly needs: Exclude<RouteRight, PlainRoute['needs']>;
  /** Returns the body of the answer. Its failure is answered with the status of its code. */
  answer(principal: Principal): object | Promise<object>;
}

export type ServerRoute = PlainRoute | GuardedRoute;

/** Method and path of a route, and its right. */
export type RouteFacts = Pick<ServerRoute, 'method' | 'path' | 'needs'>;

/** The authenticator of accepted tokens, and the limit of requests of each. */
export interface RouteAccess {
  readonly auth: Authenticator;
  readonly authThrottle: AuthThrottle;
  /** Default: requests have no shares. */
  readonly traffic?: TrafficShares;
}

const RIGHTS: readonly unknown[] = ['none', 'messages', 'token', 'observe', 'administer'] satisfies RouteRight[];

/** A refusal of a token names the accepted scheme. */
export const WHO_ARE_YOU = ['WWW-Authenticate', 'Bearer'];
/** For a request without a token that is known. */
export const REFUSED = errorReply(401, 'auth_failed', 'the token is missing or wrong', WHO_ARE_YOU);
/** For an address with too many wrong tokens. */
export const TOO_MANY = errorReply(429, 'over_capacity', 'too many wrong tokens from this address', [
  'Retry-After',
  '5',
  // Guesses that are not delayed get no connection that they could be repeated on.
  'Connection',
  'close',
]);

/**
 * Returns the handler of a route. Throws `runtime_error` for a route without a right, and for one that asks a right where
 * nothing knows tokens: nothing is open by omission.
 */
export function handlerOf(route: ServerRoute, access: RouteAccess | undefined): HttpRoute {
  const { method, path, needs } = route;
  if (!RIGHTS.includes(needs)) throw fail('runtime_error', `no right is named for ${method} ${path}`);
  if (!('answer' in route)) return route;
  if (access === undefined) throw fail('runtime_error', `${method} ${path} needs a token, and none is known here`);
  return { ...route, handle: guarded(route, access) };
}

/** Guards a route: wrong tokens are answered ever more slowly, as they are at the handshake. */
function guarded({ needs, answer }: GuardedRoute, { auth, authThrottle, traffic }: RouteAccess): HttpRoute['handle'] {
  return async (request, response) => {
    const principal = await principalOfRequest(request, auth, authThrottle, traffic);
    if (principal instanceof HandfastError) return sendReply(response, overloadReply(principal));
    if (principal === 401) return sendReply(response, REFUSED);
    if (principal === 429) return sendReply(response, TOO_MANY);
    if (needs !== 'token' && !may(principal, needs)) {
      return sendReply(response, errorReply(403, 'unauthorized', refusal(principal, needs).message));
    }
    try {
      sendReply(response, jsonReply(200, await answer(principal)));
    } catch (thrown) {
      const { code, detail, message } = asError(thrown);
      sendReply(response, errorReply(rowOf(code, detail).http, code as ErrorName, message));
    }
  };
}
