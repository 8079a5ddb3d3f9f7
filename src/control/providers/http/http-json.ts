/**
 * One JSON request to a provider, bounded in time and size. Used for model lists, keys, limits and device codes;
 * requests to the models are the model backend's.
 *
 * The reply is untrusted: callers get `unknown`. Messages name the host only, never a path, a query or a header, because those
 * can hold a key.
 */
import { MAX_DEPTH, MAX_REPLY_VALUES, parseBounded } from '../../../wire/depth.ts';
import { asError, HandfastError } from '../../../wire/errors.ts';
import { membersOf } from '../../../wire/json.ts';

export type Fetch = typeof globalThis.fetch;

export interface JsonRequest {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON by POST; absent = GET. */
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  /** Default 10 s. */
  readonly timeoutMs?: number;
  /** Longest answer read. Default 1 MiB. */
  readonly maxBytes?: number;
}

export interface JsonAnswer {
  readonly status: number;
  /** Parsed; undefined when the answer was not JSON. */
  readonly body: unknown;
}

/**
 * Sends a request and reads the response, of any status. Rejects with `provider_error` when there was none (unreachable, too
 * slow, too long, of too many values, a redirect: following one could hand the key to another host), or with the reason of `signal`.
 */
export async function requestJson(fetch: Fetch, request: JsonRequest): Promise<JsonAnswer> {
  const { url, headers, body, signal, timeoutMs = 10_000, maxBytes = 1024 * 1024 } = request;
  const { host } = new URL(url);
  const unanswered = (why: string, cause?: unknown) =>
    new HandfastError('provider_error', `${host} ${why}`, { detail: { host }, retryable: true, cause });
  const deadline = AbortSignal.timeout(timeoutMs);
  try {
    const response = await fetch(url, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      redirect: 'error',
      signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
    });
    const text = await readBody(response, maxBytes);
    if (text === undefined) throw unanswered(`answered with more than ${maxBytes} bytes`);
    return {
      status: response.status,
      body: parsed(text, (message) => unanswered(`gave an answer that is too large: ${message}`)),
    };
  } catch (thrown) {
    if (signal?.aborted) throw asError(signal.reason, 'cancelled');
    if (deadline.aborted) throw unanswered(`did not answer within ${timeoutMs / 1000} s`, thrown);
    if (thrown instanceof HandfastError) throw thrown;
    throw unanswered(`cannot be reached${reasonOf(thrown)}`, thrown);
  }
}

/** Reads the text of an answer; undefined when it is longer than `maxBytes`. */
export async function readBody(response: Response, maxBytes: number): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    // Leaving the loop cancels the rest of the body.
    if (bytes > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The value of an answer; undefined for a text that is no JSON. Throws what `tooLarge` makes for one with too many values. */
export function parsed(text: string, tooLarge: (message: string) => Error): unknown {
  try {
    return parseBounded(text, MAX_DEPTH, MAX_REPLY_VALUES);
  } catch (thrown) {
    if (thrown instanceof HandfastError) throw tooLarge(thrown.message);
    return undefined;
  }
}

/** ` (ECONNREFUSED)`: the system's code where the error has one. */
function reasonOf(thrown: unknown): string {
  const cause = (thrown as { cause?: { code?: unknown } } | null)?.cause;
  return typeof cause?.code === 'string' ? ` (${cause.code})` : '';
}

/**
 * Returns the error message of a provider, shortened to one line: `error.message`, `error_description`, `message` or `error`.
 * Some servers repeat the key they refuse; `secret` is masked.
 */
export function messageOf(body: unknown, secret = ''): string | undefined {
  const { error, error_description, message } = record(body);
  const said = [record(error).message, error_description, message, error].find((part) => typeof part === 'string');
  if (typeof said !== 'string') return undefined;
  const line = (secret === '' ? said : said.replaceAll(secret, '***')).replaceAll(/\s+/g, ' ').trim();
  return line === '' ? undefined : line.slice(0, 300);
}

/** Returns an object's members; of anything else, none. */
export function record(value: unknown): Readonly<Record<string, unknown>> {
  return membersOf(value);
}

/** Returns the objects of a list; of anything else, none. */
export function records(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.map(record) : [];
}

/** Returns a text that is not blank; undefined for any other value. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined;
}

/** Returns a finite number; undefined for any other value. */
export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}
