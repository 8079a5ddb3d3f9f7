/**
 * What a server says that answered a client with an HTTP status instead of what was asked for.
 *
 * Used by the clients over HTTP and WebSocket. `http/http-exchange.ts` writes such answers: `{"detail": reason, …}`.
 */

/** A longer body is not read to its end. */
export const MAX_REFUSAL_CHARS = 4096;
const MAX_REASON_CHARS = 500;

/** `answered 403: the reason`, with the reason where the body gives one. */
export function refusalText(status: number, body: string): string {
  let detail: unknown;
  try {
    ({ detail } = (JSON.parse(body) ?? {}) as { detail?: unknown });
  } catch {
    // Not every server explains itself in JSON.
  }
  return typeof detail === 'string' ? `answered ${status}: ${detail.slice(0, MAX_REASON_CHARS)}` : `answered ${status}`;
}
