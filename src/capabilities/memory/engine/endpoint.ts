/**
 * The embedder that a configuration names: a server with the embeddings call of the OpenAI API.
 *
 * Only address, model and key are configurable. A request is bounded in time and size, is repeated twice if that can help, and
 * follows no redirect, so that only this server gets the key.
 */
import { trimmedEnd } from '../../../base/trim-end.ts';
import { HandfastError } from '../../../wire/errors.ts';
import { isObject } from '../../../wire/json.ts';
import { memoryFailure } from '../errors.ts';
import { type Embedder, normalize } from './embedder.ts';
import type { EndpointOptions } from './types.ts';

const MAX_ATTEMPTS = 3;
const RETRY_MS = 250;
/** Maximum number of characters of one text that are sent. */
const MAX_CHARACTERS = 8192;
const MAX_REPLY_BYTES = 64 * 1024 * 1024;
/** Longest vector for which a signature can be made. */
const MAX_DIMENSIONS = 8192;

export function endpointEmbedder(options: EndpointOptions): Embedder {
  const { baseUrl, model, timeoutMs: configuredMs } = options;
  return {
    name: `${model} at ${baseUrl}`,
    floor: 0.2,
    weight: 1,
    local: false,
    async embed(texts, timeoutMs) {
      const signal = AbortSignal.timeout(Math.min(timeoutMs, configuredMs));
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await request(options, texts, signal);
        } catch (thrown) {
          const { retryable } = thrown as HandfastError;
          if (attempt === MAX_ATTEMPTS || !retryable || signal.aborted) throw thrown;
        }
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS * attempt));
      }
    },
  };
}

/** Sends one request. Rejects with `memory.embedder_failed`, which is retryable where the next may succeed. */
async function request(
  { baseUrl, model, key }: EndpointOptions,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<Float32Array[]> {
  let response: Response;
  try {
    response = await fetch(`${trimmedEnd(baseUrl, '/')}/embeddings`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(key !== undefined && { authorization: `Bearer ${key}` }) },
      body: JSON.stringify({
        model,
        input: texts.map((text) => text.slice(0, MAX_CHARACTERS) || ' '),
        encoding_format: 'float',
      }),
      redirect: 'error',
      signal,
    });
  } catch (thrown) {
    throw failed(signal.aborted ? 'it did not respond in time' : 'it cannot be reached', true, thrown);
  }
  if (!response.ok) {
    await response.body?.cancel();
    throw failed(`it responded with status ${response.status}`, response.status === 429 || response.status >= 500);
  }
  return vectorsOf(await bounded(response), texts.length);
}

async function bounded(response: Response): Promise<unknown> {
  let bytes = 0;
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > MAX_REPLY_BYTES) throw failed(`its response exceeds ${MAX_REPLY_BYTES} bytes`, false);
      chunks.push(chunk);
    }
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch (thrown) {
    throw thrown instanceof HandfastError ? thrown : failed('its response is not JSON', false, thrown);
  }
}

function vectorsOf(reply: unknown, count: number): Float32Array[] {
  const data = isObject(reply) ? reply.data : undefined;
  if (!Array.isArray(data) || data.length !== count) throw failed(`it did not send ${count} vectors`, false);
  const vectors: Float32Array[] = [];
  for (const [at, item] of data.entries()) {
    const { embedding, index = at } = isObject(item) ? item : {};
    const fits =
      Array.isArray(embedding) &&
      embedding.length > 0 &&
      embedding.length <= MAX_DIMENSIONS &&
      embedding.every(Number.isFinite);
    if (!fits || typeof index !== 'number' || !(index in data))
      throw failed('it sent something that is not a vector', false);
    vectors[index] = normalize(Float32Array.from(embedding as number[]));
  }
  if (Object.keys(vectors).length !== count) throw failed(`it did not send ${count} vectors`, false);
  return vectors;
}

function failed(why: string, retryable: boolean, cause?: unknown): HandfastError {
  const { code, message, detail, capability } = memoryFailure('embedder_failed', `the embedder failed: ${why}`);
  return new HandfastError(code, message, { detail, retryable, capability, cause });
}
