/**
 * Google's Cloud Code service, behind an Antigravity sign-in: it speaks the Gemini API inside an envelope. This `fetch` for the
 * SDK's Google package puts requests in and takes answers out.
 *
 * The request goes to the configured address only, with the sign-in's token and headers.
 */
import { fail } from '../../../wire/errors.ts';
import type { ProviderAccess } from '../../contract/providers.ts';

/** Longest event of an answer, in UTF-16 units; an image is the longest thing a model may send. */
const MAX_EVENT_LENGTH = 32 * 1024 * 1024;

/**
 * Makes a `fetch` for requests of the Gemini API that sends them to Cloud Code instead. `newId` makes the id a request is
 * traced by.
 */
export function cloudCodeFetch(
  model: string,
  access: ProviderAccess,
  newId: () => string,
  fetch: typeof globalThis.fetch = globalThis.fetch,
): typeof fetch {
  return async (_input, init) => {
    const request: unknown = JSON.parse(init?.body as string);
    const response = await fetch(`${access.baseUrl}/v1internal:streamGenerateContent?alt=sse`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'text/event-stream',
        ...access.headers,
        authorization: `Bearer ${access.token}`,
      },
      body: JSON.stringify({
        ...(access.project !== undefined && { project: access.project }),
        model,
        request,
        requestId: newId(),
      }),
      signal: init?.signal,
    });
    if (!response.ok || response.body === null) return response;
    const { status, headers } = response;
    return new Response(response.body.pipeThrough(unwrapped()), { status, headers });
  };
}

/** Takes the `response` out of every event; a line that is no event, or has none, passes unchanged. */
function unwrapped(): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let pending = '';
  const add = (text: string, controller: TransformStreamDefaultController<Uint8Array>): void => {
    // Only the new text is searched: a long line comes in many chunks.
    const end = text.lastIndexOf('\n');
    if (end < 0) {
      pending += text;
      if (pending.length > MAX_EVENT_LENGTH) throw fail('provider_error', 'an event of the answer is too long');
      return;
    }
    const whole = (pending + text.slice(0, end)).split('\n').map(unwrap);
    pending = text.slice(end + 1);
    controller.enqueue(encoder.encode(`${whole.join('\n')}\n`));
  };
  return new TransformStream({
    transform(chunk, controller) {
      add(decoder.decode(chunk, { stream: true }), controller);
    },
    flush(controller) {
      add(`${decoder.decode()}\n`, controller);
    },
  });
}

function unwrap(line: string): string {
  if (!line.startsWith('data:')) return line;
  try {
    const { response } = JSON.parse(line.slice('data:'.length)) as { response?: unknown };
    return response === undefined ? line : `data: ${JSON.stringify(response)}`;
  } catch {
    // The SDK reports an event that it cannot parse.
    return line;
  }
}
