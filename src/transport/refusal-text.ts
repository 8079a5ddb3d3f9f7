/**
 * Texts of a dial that failed: no process responds, or a server replied with an HTTP status in place of the upgrade or
 * session.
 *
 * `http/http-exchange.ts` writes these replies: `{"detail": reason, …}`.
 */

/** Returns the text for a connection that was not made; `error` is the system's. The same words on every transport. */
export function noPeerText(address: string, { code, message }: { code?: string; message: string }): string {
  return `no peer responds at ${address} (${code ?? message}); start the host there, or correct the address`;
}

/** A longer body is not read to its end. */
export const MAX_REFUSAL_CHARS = 4096;
const MAX_REASON_CHARS = 500;

/** Returns `answered 403: the reason`, with the reason if the body gives one. */
export function refusalText(status: number, body: string): string {
  let detail: unknown;
  try {
    ({ detail } = (JSON.parse(body) ?? {}) as { detail?: unknown });
  } catch {
    // Not every server explains itself in JSON.
  }
  return typeof detail === 'string' ? `answered ${status}: ${detail.slice(0, MAX_REASON_CHARS)}` : `answered ${status}`;
}
