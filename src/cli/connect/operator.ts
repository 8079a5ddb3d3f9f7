/**
 * Requests data from a host over HTTP that only operators may read (`server/http/operator-routes.ts`).
 */
import { once } from 'node:events';
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { request } from '../../base/http/node-http.ts';
import { type HttpResponse, readResponse } from '../../transport/http/http-response.ts';
import { asError, type ErrorName, errorTable, fail, type HandfastError } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import { authorityOf, type OwnListener, requireOwnListener } from './own-listener.ts';

const TIMEOUT_MS = 10_000;
/** Longest answer, in bytes: sessions of the longest list are below it. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** The operator's side of a host. */
export interface Operator {
  /** `http(s)://host:port`. */
  readonly base: string;
  /** The private socket for HTTP, in place of that address. */
  readonly socketPath?: string;
  readonly token: string;
  /** Set for the local token, which goes to hosts of this user only. */
  readonly own: OwnListener | undefined;
}

/**
 * Returns the JSON answer to a request without a body, `GET` unless `method` says otherwise.
 *
 * Fails with `unreachable`, `auth_failed`, `unauthorized`, `config_invalid`, `timeout`, `cancelled`, `foreign_listener`, and
 * `unknown_type` when the host does not serve it.
 */
export async function askOperator<T>(
  operator: Operator,
  path: string,
  signal?: AbortSignal,
  method = 'GET',
): Promise<T> {
  const { base } = operator;
  const late = AbortSignal.timeout(TIMEOUT_MS);
  const ended = signal === undefined ? late : AbortSignal.any([signal, late]);
  let answer: HttpResponse;
  try {
    answer = await answerOf(operator, path, method, ended);
  } catch (thrown) {
    if (signal?.aborted) throw signal.reason;
    const error = asError(thrown);
    if (late.aborted || error.code === 'timeout')
      throw fail('timeout', `${base} did not respond within ${TIMEOUT_MS} ms`);
    if (error.code === 'foreign_listener') throw error;
    throw fail('unreachable', `no host responds at ${base}; start one with: handfast up`, {}, thrown);
  }
  const { status, body } = answer;
  if (status === 401) throw fail('auth_failed', `${base} refused the token; check --token-file and HANDFAST_TOKEN`);
  if (status === 403 || status === 400) throw refusalOf(answer, base);
  // A redirect is not followed: a token is meant for the host that was named.
  if (status < 200 || status > 299) throw fail('unknown_type', `${base} responded with status ${status} to ${path}`);
  const value = parsed(body);
  if (value === undefined) throw fail('schema_violation', `${base} sent no JSON to ${path}`);
  return value as T;
}

/** Sends the request on a new connection, after the check of its listener on the open connection. */
async function answerOf(
  { base, socketPath, token, own }: Operator,
  path: string,
  method: string,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const at = socketPath === undefined ? base : `unix://${socketPath}`;
  if (own !== undefined) await requireOwnListener(at, own);
  const socket = await connected(base, socketPath, signal);
  try {
    if (own !== undefined && !(await requireOwnListener(at, own)))
      throw fail('unreachable', `${base}: the host stopped listening`);
    const outgoing = request({
      createConnection: () => socket,
      method,
      path,
      headers: {
        host: socketPath === undefined ? new URL(base).host : 'localhost',
        'content-length': '0',
        connection: 'close',
        ...(token !== '' && { authorization: `Bearer ${token}` }),
      },
    });
    return await readResponse(outgoing, { origin: base, timeoutMs: TIMEOUT_MS, maxBytes: MAX_ANSWER_BYTES, signal });
  } finally {
    socket.destroy();
  }
}

async function connected(base: string, path: string | undefined, signal: AbortSignal): Promise<Socket> {
  const { host, port } = authorityOf(base);
  const secure = path === undefined && base.startsWith('https:');
  const tls = secure ? await import('node:tls') : undefined;
  const socket = tls
    ? // Only a name may be sent as the name of the server.
      tls.connect({ host, port, ...(isIP(host) === 0 && { servername: host }) })
    : connectPlain(path === undefined ? { host, port } : { path });
  try {
    await once(socket, secure ? 'secureConnect' : 'connect', { signal });
    return socket;
  } catch (error) {
    socket.on('error', () => {});
    socket.destroy();
    throw error;
  }
}

const parsed = (body: Buffer): unknown => {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
};

/** Returns the error that the host sent with its refusal. */
function refusalOf({ status, body: bytes }: HttpResponse, base: string): HandfastError {
  const body = parsed(bytes);
  const error = isObject(body) && isObject(body.error) ? body.error : {};
  const message = typeof error.message === 'string' ? error.message : `${base} answered ${status}`;
  const code = typeof error.code === 'string' && Object.hasOwn(errorTable, error.code) ? error.code : 'runtime_error';
  return fail(code as ErrorName, message);
}
