/**
 * The longest reply of session RPC. A longer one is refused before it is made: a client that does not read it would lose its
 * connection, and making it would hold the event loop.
 * @see docs/protocol/session-rpc.md#limits
 */
import { fail } from '../../wire/errors.ts';

/** In bytes, and so at most as many characters. */
export const MAX_REPLY_BYTES = 32 * 1024 * 1024;

/**
 * Fails with `too_large` for a reply of more than the limit; `characters` may be an estimate. `advice`: how to get it in parts.
 */
export function mustFitReply(what: string, characters: number, advice: string): void {
  if (characters <= MAX_REPLY_BYTES) return;
  const detail = { limit: MAX_REPLY_BYTES, size: characters };
  throw fail(
    'too_large',
    `${what} has some ${characters} characters, and a reply at most ${MAX_REPLY_BYTES} bytes; ${advice}`,
    detail,
  );
}
