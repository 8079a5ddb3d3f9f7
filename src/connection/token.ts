/**
 * The token of a side that dials: a text, or a function that reads it for each link, so that a replaced token is found.
 */
import { withTimeout } from '../base/race.ts';
import { fail } from '../wire/errors.ts';

/** Reads a token. `undefined`: none is sent. */
export type TokenSource = () => string | undefined | Promise<string | undefined>;

/** A token, or a function that reads it for each link. */
export type Token = string | TokenSource;

/** Time for a source, milliseconds. */
const READ_MS = 10_000;

/**
 * Returns the token for the next link. Fails with the error that the source threw, and with `timeout` when it takes
 * longer than 10 s.
 */
export async function readToken(token: Token | undefined): Promise<string | undefined> {
  if (typeof token !== 'function') return token;
  const read = token();
  if (!(read instanceof Promise)) return read;
  return withTimeout(read, READ_MS, () => fail('timeout', `the token could not be read within ${READ_MS} ms`));
}

/** Returns the reason why a peer refused the handshake with `auth_failed`, and the token to pass instead. */
export function refusedToken(sent: string | undefined): string {
  return sent
    ? 'the host refused the token; pass the one it was started with as `token`'
    : 'the host demands a token and none was sent; pass it as `token` (that of `handfast up` is in ~/.handfast/token)';
}
