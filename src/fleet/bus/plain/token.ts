/**
 * The token a peer is shown: read from its one place whenever it is needed, and once more when it was refused, because a
 * token that was replaced since would be refused for ever otherwise.
 *
 * Used by whoever calls a peer over HTTP.
 */
import type { Log } from '../../../base/log.ts';
import type { HttpResponse } from '../../../transport/http/http-response.ts';
import { fail } from '../../../wire/errors.ts';

/** Where a token is read. Default: none is sent. */
export type TokenSource = () => string | undefined | Promise<string | undefined>;

/**
 * Calls with the token. An answer of 401 makes it read the token again and call once more; fails with `unauthorized` when
 * that did not help, and says so in the log.
 */
export async function withToken(
  source: TokenSource | undefined,
  about: { readonly peer: string; readonly log: Log },
  call: (headers: readonly string[]) => Promise<HttpResponse>,
): Promise<HttpResponse> {
  const first = await call(bearer(await source?.()));
  if (first.status !== 401) return first;
  const second = source === undefined ? first : await call(bearer(await source()));
  if (second.status !== 401) return second;
  about.log.error('a peer refuses the token it is shown', { peer: about.peer });
  throw fail('unauthorized', `${about.peer} refuses the token`, { peer: about.peer });
}

/** The header, as `HttpCall.headers` takes it. */
const bearer = (token: string | undefined): readonly string[] =>
  token === undefined ? [] : ['Authorization', `Bearer ${token}`];
