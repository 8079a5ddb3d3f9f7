/** Requests from a host over HTTP what only operators may read (`server/http/operator-routes.ts`). Used by `tail` and `doctor`. */
import { type ErrorName, errorTable, fail, type HandfastError } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';

const TIMEOUT_MS = 10_000;

/**
 * The JSON answer to a request without a body, `GET` unless `method` says otherwise.
 *
 * Fails with `unreachable`, `auth_failed`, `unauthorized`, `config_invalid`, `timeout`, `cancelled`, and `unknown_type` when the host does not serve it.
 */
export async function askOperator<T>(
  base: string,
  path: string,
  token: string,
  signal?: AbortSignal,
  method = 'GET',
): Promise<T> {
  const late = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: token === '' ? {} : { authorization: `Bearer ${token}` },
      signal: signal === undefined ? late : AbortSignal.any([signal, late]),
      // A token is meant for the host that was named, not for a host that it redirects to.
      redirect: 'error',
    });
    if (response.status === 401)
      throw fail('auth_failed', `${base} refused the token; check --token-file and HANDFAST_TOKEN`);
    if (response.status === 403 || response.status === 400) throw await refusalOf(response, base);
    if (!response.ok) throw fail('unknown_type', `${base} responded with status ${response.status} to ${path}`);
    return (await response.json()) as T;
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (late.aborted) throw fail('timeout', `${base} did not respond within ${TIMEOUT_MS} ms`);
    if (error instanceof TypeError)
      throw fail('unreachable', `no host responds at ${base}; start one with: handfast up`, {}, error);
    throw error;
  }
}

/** The error that the host sent with its refusal. */
async function refusalOf(response: Response, base: string): Promise<HandfastError> {
  const body: unknown = await response.json().catch(() => undefined);
  const error = isObject(body) && isObject(body.error) ? body.error : {};
  const message = typeof error.message === 'string' ? error.message : `${base} answered ${response.status}`;
  const code = typeof error.code === 'string' && Object.hasOwn(errorTable, error.code) ? error.code : 'runtime_error';
  return fail(code as ErrorName, message);
}
