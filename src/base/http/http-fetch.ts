/**
 * Requests to an MCP server over HTTP, by `node:http`: for a call that costs half the processor's time of `fetch`,
 * whose streams, queues and headers a message with its reply does not need.
 *
 * It serves as the `fetch` of the official client, which follows redirects itself.
 * @see docs/decisions/0045-requests-to-mcp-servers.md
 */
import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import { request as requestHttp } from './node-http.ts';

type Init = NonNullable<Parameters<typeof fetch>[1]>;

/** Longest silence before and within a response, as `fetch` has it. */
const SILENCE_MS = 300_000;
/** Statuses whose responses have no body. */
const BODILESS: readonly unknown[] = [204, 205, 304];

/**
 * Returns the response to a request, as `fetch` gives it: rejects with a `TypeError` whose cause is the error of the
 * connection, and with the reason of the signal. A response of a known length is read as a whole if it has at most
 * `maxBytes`.
 */
export async function httpFetch(address: string | URL, init: Init | undefined, maxBytes: number): Promise<Response> {
  const { body, method = 'GET', redirect } = init ?? {};
  const url = new URL(address);
  // Redirects to follow, passwords in addresses and streams as bodies are rare; `fetch` handles them.
  const isPlain = body === undefined || body === null || typeof body === 'string';
  if (!isPlain || redirect !== 'manual' || url.username !== '' || url.password !== '') return fetch(address, init);
  const request = url.protocol === 'https:' ? (await import('node:https')).request : requestHttp;
  const signal = init?.signal ?? undefined;
  signal?.throwIfAborted();
  const headers = Object.fromEntries(new Headers(init?.headers));
  if (typeof body === 'string') headers['content-length'] = String(Buffer.byteLength(body));
  headers.accept ??= '*/*';
  headers['accept-encoding'] ??= 'gzip, deflate, br';
  headers['user-agent'] ??= 'node';
  return sent((options) => request(url, options), { method, headers, timeout: SILENCE_MS }, body, signal, maxBytes);
}

function sent(
  open: (options: RequestOptions) => ClientRequest,
  options: RequestOptions,
  body: string | null | undefined,
  signal: AbortSignal | undefined,
  maxBytes: number,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const outgoing = open(options);
    const abort = (): void => void outgoing.destroy(signal?.reason instanceof Error ? signal.reason : undefined);
    signal?.addEventListener('abort', abort, { once: true });
    outgoing.on('timeout', () => outgoing.destroy(new Error(`nothing came for ${SILENCE_MS / 1_000} s`)));
    outgoing.on('close', () => signal?.removeEventListener('abort', abort));
    // Also handles failures after the response has begun: then the body fails as well, and this call has no effect.
    outgoing.on('error', (cause) =>
      reject(signal?.aborted === true ? signal.reason : new TypeError('fetch failed', { cause })),
    );
    outgoing.on('response', (incoming) => {
      try {
        const length = Number(incoming.headers['content-length'] ?? Number.NaN);
        if (BODILESS.includes(incoming.statusCode)) {
          incoming.resume();
          resolve(responseOf(incoming, null));
        } else if (length <= maxBytes && incoming.headers['content-encoding'] === undefined) {
          whole(incoming, resolve);
        } else streamed(incoming, resolve, reject);
      } catch (cause) {
        // A status or a header that no response can have.
        outgoing.destroy();
        reject(new TypeError('fetch failed', { cause }));
      }
    });
    outgoing.end(body ?? undefined);
  });
}

/** Resolves with the response when it is complete; a response that is cut off has a body that fails. */
function whole(incoming: IncomingMessage, resolve: (response: Response) => void): void {
  const chunks: Buffer[] = [];
  incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
  incoming.on('end', () =>
    resolve(responseOf(incoming, chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks))),
  );
  incoming.on('error', (cause) => {
    const error = new TypeError('terminated', { cause });
    resolve(responseOf(incoming, new ReadableStream({ start: (controller) => controller.error(error) })));
  });
}

/** Resolves with a response whose body is read while it arrives, decompressed. */
function streamed(
  incoming: IncomingMessage,
  resolve: (response: Response) => void,
  reject: (error: unknown) => void,
): void {
  decoded(incoming).then((body) => resolve(responseOf(incoming, streamOf(body))), reject);
}

async function decoded(incoming: IncomingMessage): Promise<Readable> {
  const codings = (incoming.headers['content-encoding'] ?? '')
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity');
  if (codings.length === 0) return incoming;
  const { createBrotliDecompress, createGunzip, createInflate } = await import('node:zlib');
  const decoders = codings.toReversed().map((coding) => {
    if (coding === 'gzip' || coding === 'x-gzip') return createGunzip();
    if (coding === 'deflate') return createInflate();
    if (coding === 'br') return createBrotliDecompress();
    incoming.destroy();
    throw new TypeError('fetch failed', { cause: new Error(`the response is compressed as ${coding.slice(0, 32)}`) });
  });
  // The last one fails when one before it does.
  return pipeline([incoming, ...decoders], () => {}) as unknown as Readable;
}

/** Returns a body as the client reads it; one that is not read to its end is not read at all. */
function streamOf(readable: Readable): ReadableStream<Uint8Array> {
  let isOver = false;
  const once = (end: () => void): void => {
    if (isOver) return;
    isOver = true;
    end();
  };
  return new ReadableStream<Uint8Array>({
    start(controller) {
      readable.on('data', (chunk: Buffer) => {
        if (isOver) return;
        controller.enqueue(new Uint8Array(chunk));
        if ((controller.desiredSize ?? 0) <= 0) readable.pause();
      });
      readable.on('end', () => once(() => controller.close()));
      const fail = (cause?: unknown): void => once(() => controller.error(new TypeError('terminated', { cause })));
      readable.on('error', fail);
      readable.on('close', () => fail());
    },
    pull: () => void readable.resume(),
    cancel: () => once(() => void readable.destroy()),
  });
}

function responseOf(incoming: IncomingMessage, body: Buffer | ReadableStream<Uint8Array> | null): Response {
  const { statusCode: status = 0, statusMessage: statusText = '', rawHeaders } = incoming;
  const headers = new Headers();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    headers.append(rawHeaders[index] as string, rawHeaders[index + 1] as string);
  }
  return new Response(body as ConstructorParameters<typeof Response>[0], { status, statusText, headers });
}
