/**
 * Responses over HTTP that end before their result: the official client waits for them until its time is over. Here a call fails at
 * once, and the end of a stream is reported.
 *
 * Used by `connection.ts`.
 */

const CUT_OFF = 'the response ended before its result';

/** In place of a response whose stream ended: an error for its request, so that the caller does not wait. */
export const cutOff = (id: string | number) => ({
  jsonrpc: '2.0' as const,
  id,
  error: { code: -32_603, message: CUT_OFF, data: CUT_OFF },
});

/** The error of a request whose response was cut off. */
export const isCutOff = (thrown: object): boolean => (thrown as { readonly data?: unknown }).data === CUT_OFF;

/** The connection was refused, so nothing was sent. */
export const isRefusedLink = (thrown: unknown): boolean =>
  (thrown as { readonly cause?: { readonly code?: unknown } }).cause?.code === 'ECONNREFUSED';

/** The response, whose end is reported, however it ends. */
export function watched(response: Response, onEnd: () => void): Response {
  const { body, status, headers } = response;
  if (body === null) return response;
  const reader = body.getReader();
  const read = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    try {
      const { done, value } = await reader.read();
      if (!done) return controller.enqueue(value);
      controller.close();
    } catch (thrown) {
      controller.error(thrown);
    }
    onEnd();
  };
  return new Response(new ReadableStream({ pull: read, cancel: (reason) => reader.cancel(reason) }), {
    status,
    headers,
  });
}
