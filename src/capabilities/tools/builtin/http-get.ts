/**
 * The work of `http_get`: one GET or HEAD with redirects, without access to the host's own network. Loaded on the first call.
 *
 * `base/http/checked-request.ts` decides about the allowed addresses; each redirect is checked like a first call.
 */

import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';
import { counted } from '../../../base/counted.ts';
import { type AddressRules, allowedAddresses, requestFrom } from '../../../base/http/checked-request.ts';
import { errnoOf, shown } from '../../../base/workspace/file-error.ts';
import type { CallContext } from '../../../host/context.ts';
import { fail, HandfastError } from '../../../wire/errors.ts';
import { result, type ShapedResult } from '../tool.ts';
import { looksBinary, wholeCharacters } from './text-bytes.ts';

const MAX_REDIRECTS = 5;
/** Bytes between two progress events. */
const PROGRESS_BYTES = 64 * 1024;
const SENT_HEADERS = { accept: '*/*', 'accept-encoding': 'gzip, br', 'user-agent': 'handfast' };
/** Response headers that are passed on, as far as they are present. */
const SHOWN_HEADERS = [
  'cache-control',
  'content-disposition',
  'content-language',
  'content-length',
  'content-type',
  'date',
  'etag',
  'last-modified',
  'link',
  'location',
  'retry-after',
  'vary',
] as const;

export interface HttpGetArgs {
  readonly url: string;
  readonly method: string;
  readonly body?: string;
  readonly max_bytes: number;
  readonly timeout_seconds: number;
}

export interface HttpGetSettings extends AddressRules {
  /** Returns true for a host that may be requested, redirects included. Default: all. */
  readonly hostAllowed?: (url: URL) => boolean;
  /** Returns further headers of the request to an address. Default: none. */
  readonly headersFor?: (url: URL) => Readonly<Record<string, string>>;
}

export interface FetchedPage {
  /** The URL of the response, after redirects. */
  readonly url: string;
  readonly status: number;
  readonly content_type: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Redirects followed, in order. */
  readonly redirects: readonly string[];
  /** Decoded text; absent when the response is binary. */
  readonly text?: string;
  /** The bytes of a response that is not text. */
  readonly base64?: string;
  /** Bytes of the returned body, after decompression. */
  readonly bytes: number;
  readonly truncated: boolean;
}

/**
 * Fetches a URL. Any status is a result, also 404 and 500.
 *
 * Fails with `tool_denied` (`private_address`, `host_not_allowed`, `url_credentials`, `scheme`), `timeout`, or `tool_error` and a reason:
 * `bad_url`, `dns_failure`, `connect_failed`, `connection_broken`, `tls_failed`, `bad_response`, `bad_encoding`,
 * `too_many_redirects`.
 */
export async function fetchUrl(
  args: HttpGetArgs,
  context: CallContext,
  settings: HttpGetSettings = {},
): Promise<ShapedResult<FetchedPage>> {
  const stop = new AbortController();
  const limit = () => {
    stop.abort(fail('timeout', `no complete response within ${args.timeout_seconds} s`, { reason: 'time_limit' }));
  };
  const timer = setTimeout(limit, args.timeout_seconds * 1000);
  const signal = AbortSignal.any([context.signal, stop.signal]);
  try {
    signal.throwIfAborted();
    const page = await follow(args, context, settings, signal);
    const summary = `${page.status} ${page.content_type || 'no content type'}, ${counted(page.bytes, 'byte')}`;
    return result(page, { summary, truncated: page.truncated });
  } catch (error) {
    signal.throwIfAborted();
    throw networkError(error);
  } finally {
    clearTimeout(timer);
  }
}

async function follow(
  args: HttpGetArgs,
  context: CallContext,
  settings: HttpGetSettings,
  signal: AbortSignal,
): Promise<FetchedPage> {
  const redirects: string[] = [];
  let url = parseUrl(args.url);
  let { method, body } = args;
  for (;;) {
    mustBeAllowed(url, settings);
    const addresses = await allowedAddresses(url, settings, signal);
    const headers = { ...settings.headersFor?.(url), ...SENT_HEADERS };
    const response = await requestFrom(addresses, url, { method, headers, body }, signal);
    try {
      const next = redirectOf(response, url);
      if (next === undefined) return await readPage(response, url, redirects, args, context);
      if (redirects.length === MAX_REDIRECTS) {
        throw fail('tool_error', `more than ${MAX_REDIRECTS} redirects`, { reason: 'too_many_redirects' });
      }
      redirects.push(next.href);
      url = next;
      // As in browsers: only 307 and 308 repeat a request that changes something.
      if (method !== 'HEAD' && response.statusCode !== 307 && response.statusCode !== 308) {
        method = 'GET';
        body = undefined;
      }
      await context.emit('status', { message: `redirected to ${shown(next.host)}` });
    } finally {
      response.destroy();
    }
  }
}

function mustBeAllowed(url: URL, { hostAllowed }: HttpGetSettings): void {
  if (hostAllowed?.(url) !== false) return;
  const host = shown(url.hostname);
  throw fail('tool_denied', `"${host}" is not one of the allowed hosts`, { reason: 'host_not_allowed', host });
}

/** Reads and checks a URL; refused parts are not repeated, because they may be a secret. */
function parseUrl(text: string, base?: URL): URL {
  const url = URL.parse(text, base);
  if (url === null) throw fail('tool_error', 'not a valid URL', { reason: 'bad_url' });
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw fail('tool_denied', 'only http and https URLs are fetched', { reason: 'scheme' });
  }
  if (url.username !== '' || url.password !== '') {
    throw fail('tool_denied', 'a URL must not contain a user name or password', { reason: 'url_credentials' });
  }
  url.hash = '';
  return url;
}

function redirectOf(response: IncomingMessage, url: URL): URL | undefined {
  const { statusCode = 0 } = response;
  const { location } = response.headers;
  if (location === undefined || ![301, 302, 303, 307, 308].includes(statusCode)) return undefined;
  return parseUrl(location, url);
}

async function readPage(
  response: IncomingMessage,
  url: URL,
  redirects: readonly string[],
  args: HttpGetArgs,
  context: CallContext,
): Promise<FetchedPage> {
  const contentType = response.headers['content-type'] ?? '';
  const head = {
    url: url.href,
    status: response.statusCode ?? 0,
    content_type: contentType,
    headers: shownHeaders(response),
    redirects,
  };
  if (args.method === 'HEAD') return { ...head, bytes: 0, truncated: false };
  const { bytes, truncated } = await readBody(response, args.max_bytes, context);
  const body = isText(bytes, contentType)
    ? { text: decodeText(bytes, contentType, truncated) }
    : { base64: bytes.toString('base64') };
  return { ...head, ...body, bytes: bytes.length, truncated };
}

function shownHeaders(response: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of SHOWN_HEADERS) {
    const value = response.headers[name];
    if (typeof value === 'string') headers[name] = value;
  }
  return headers;
}

/**
 * Returns the decompressed body up to `maxBytes`. Stops reading there, so that a small response cannot expand into a large one.
 */
async function readBody(
  response: IncomingMessage,
  maxBytes: number,
  context: CallContext,
): Promise<{ bytes: Buffer; truncated: boolean }> {
  const expected = Math.min(Number(response.headers['content-length'] ?? maxBytes) || maxBytes, maxBytes);
  const pieces: Buffer[] = [];
  let size = 0;
  let reported = 0;
  let truncated = false;
  for await (const chunk of decompressed(response) as AsyncIterable<Buffer>) {
    const room = maxBytes - size;
    pieces.push(chunk.subarray(0, room));
    size += Math.min(chunk.length, room);
    truncated = chunk.length > room;
    if (truncated) break;
    if (size - reported >= PROGRESS_BYTES) {
      reported = size;
      await context.emit('progress', {
        pct: Math.min(99, Math.floor((100 * size) / expected)),
        message: counted(size, 'byte'),
      });
    }
  }
  return { bytes: Buffer.concat(pieces), truncated };
}

function decompressed(response: IncomingMessage): Readable {
  const encoding = (response.headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding === 'identity' || encoding === '') return response;
  if (encoding !== 'gzip' && encoding !== 'x-gzip' && encoding !== 'br') {
    throw fail('tool_error', 'the response has an unsupported compression', { reason: 'bad_encoding' });
  }
  // Errors of either side arrive where the result is read.
  return pipeline(response, encoding === 'br' ? createBrotliDecompress() : createGunzip(), () => {});
}

function isText(bytes: Buffer, contentType: string): boolean {
  const type = contentType.split(';', 1)[0]!.trim().toLowerCase();
  if (type.startsWith('text/') || /[/+](?:json|xml|javascript|ecmascript|yaml|x-ndjson)$/.test(type)) return true;
  return !looksBinary(bytes) && isUtf8(wholeCharacters(bytes));
}

function decodeText(bytes: Buffer, contentType: string, truncated: boolean): string {
  const label = /charset="?([^\s";]+)/i.exec(contentType)?.[1] ?? 'utf-8';
  let decoder: TextDecoder;
  try {
    decoder = new TextDecoder(label);
  } catch {
    decoder = new TextDecoder();
  }
  // In stream mode, a character that the limit cut in two is left out.
  return decoder.decode(bytes, { stream: truncated });
}

/**
 * Converts an errno or library code to a reason and a text. The system's own message may name addresses of the host's network.
 */
function networkError(thrown: unknown): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const code = errnoOf(thrown) ?? '';
  const because = (reason: string, text: string) => fail('tool_error', text, { reason, code }, thrown);
  if (/^(?:ENOTFOUND|EAI_)/.test(code)) return because('dns_failure', 'the host name could not be resolved');
  if (/^(?:ECONNREFUSED|EHOST|ENET|ETIMEDOUT|EADDR|EACCES)/.test(code)) {
    return because('connect_failed', 'no server responds at this address');
  }
  if (/^(?:ECONNRESET|EPIPE|ERR_STREAM_PREMATURE_CLOSE)/.test(code)) {
    return because('connection_broken', 'the connection ended before the whole answer was there');
  }
  if (/^HPE_/.test(code)) return because('bad_response', 'the answer is not valid HTTP');
  if (/^(?:Z_|ERR__|ERR_BROTLI|ERR_PADDING)/.test(code)) {
    return because('bad_encoding', 'the compressed answer is damaged');
  }
  if (/TLS|SSL|CERT|SIGNATURE|EPROTO/.test(code))
    return because('tls_failed', 'the secure connection was not accepted');
  return because('request_failed', 'the request failed');
}
