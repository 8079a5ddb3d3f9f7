/**
 * The token of a peer: read from its one place for each call, and once more when the peer refused it, because a token that
 * was rotated since would otherwise be refused permanently.
 */
import type { Log } from '../../../base/log.ts';
import type { TokenSource } from '../../../connection/token.ts';
import { fail } from '../../../wire/errors.ts';

/**
 * Calls with the token, as a list of header names and values. After a 401 it reads the token again and calls once more;
 * fails with `unauthorized` when that is refused too, and logs it.
 */
export async function withToken<R extends { readonly status: number }>(
  source: TokenSource | undefined,
  { peer, log }: { readonly peer: string; readonly log: Log },
  call: (headers: readonly string[]) => Promise<R>,
): Promise<R> {
  const first = await call(bearer(await source?.()));
  if (first.status !== 401) return first;
  const second = source === undefined ? first : await call(bearer(await source()));
  if (second.status !== 401) return second;
  log.error('peer refuses the token', { peer });
  throw fail('unauthorized', `${peer} refuses the token`, { peer });
}

const bearer = (token: string | undefined): readonly string[] =>
  token === undefined ? [] : ['Authorization', `Bearer ${token}`];
