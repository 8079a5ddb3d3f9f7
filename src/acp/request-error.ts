/**
 * Our failures as errors of the protocol. Called by every handler of the bridge (we are the agent of an editor) and of
 * `agent-process.ts` (we are the client of an agent).
 */

import { asError, rowOf } from '../wire/errors.ts';
import type { AcpSdk } from './sdk.ts';

const INVALID_PARAMS = -32602;

/**
 * The error of a JSON-RPC answer. `data.kind` is the name of the error and `data.retryable` whether the same may succeed
 * later; a session that is not there is the protocol's own `Resource not found`, and a refused token its `Authentication required`,
 * by which editors know them.
 */
export function requestErrorOf(sdk: AcpSdk, thrown: unknown): Error {
  if (thrown instanceof sdk.RequestError) return thrown;
  const { code: kind, message, detail, retryable } = asError(thrown);
  const data = { ...detail, kind, retryable };
  if (kind === 'session_not_found') {
    const { session_id: sessionId } = detail;
    const { code } = sdk.RequestError.sessionNotFound(String(sessionId));
    return new sdk.RequestError(code, message, { ...data, sessionId });
  }
  if (kind === 'auth_failed') return sdk.RequestError.authRequired(data, message);
  const row = rowOf(kind, detail);
  // Session RPC of 1.0.0 has one number for all its failures; here a prompt without content is what it is.
  const code = row.a2e === 'schema_violation' ? INVALID_PARAMS : row.jsonrpc;
  return new sdk.RequestError(code, message, data);
}
