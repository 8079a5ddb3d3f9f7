/**
 * Handfast's failures as errors of the protocol, in both roles: the agent of an editor (the bridge) and the client of
 * an agent.
 */

import { asError, rowOf } from '../wire/errors.ts';
import type { AcpSdk } from './sdk.ts';

const INVALID_PARAMS = -32602;

/**
 * Returns the error for a JSON-RPC reply. `data.kind` is the name of the error, and `data.retryable` whether the same
 * request may succeed later. An unknown session becomes the protocol's `Resource not found`, a refused token its
 * `Authentication required`: editors know the errors by these.
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
  // Session RPC 1.0.0 has one number for all its failures; here a prompt without content gets the number for invalid
  // params.
  const code = row.a2e === 'schema_violation' ? INVALID_PARAMS : row.jsonrpc;
  return new sdk.RequestError(code, message, data);
}
