/** Requests from a host over HTTP what only operators may read (`server/http/operator-routes.ts`). Used by `tail` and `doctor`. */
import { fail } from '../../wire/errors.ts';

const TIMEOUT_MS = 10_000;

/**
 * The JSON answer to `GET path`.
 *
 * Fails with `unreachable`, `auth_failed`, `timeout`, `cancelled`, and `unknown_type` when the host does not serve it.
 */
export async function askOperator<T>(base: string, path: string, token: string, signal?: AbortSignal): Promise<T> {
  const late = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const response = await fetch(`${base}${path}`, {
      headers: token === '' ? {} : { authorization: `Bearer ${token}` },
      signal: signal === undefined ? late : AbortSignal.any([signal, late]),
      // A token is meant for the host that was named, not for whomever it points at.
      redirect: 'error',
    });
    if (response.status === 401) throw fail('auth_failed', `${base} refused the token`);
    if (!response.ok) throw fail('unknown_type', `${base} answered ${response.status} to ${path}`);
    return (await response.json()) as T;
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (late.aborted) throw fail('timeout', `${base} did not answer in ${TIMEOUT_MS} ms`);
    if (error instanceof TypeError) throw fail('unreachable', `no host responds at ${base}`, {}, error);
    throw error;
  }
}
