/**
 * A sender as upstream's orchestrator of v0.5 to v0.8 is one: text in, text out, over `fetch`.
 *
 * The counterpart of `httpReceiver` in its tests.
 */
export interface Said {
  readonly status: number;
  /** Text of the first part. */
  readonly text: string;
  readonly data: readonly Record<string, unknown>[];
  readonly contextId: string | undefined;
  readonly role: string | undefined;
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } | undefined;
  readonly headers: Headers;
}

interface Answer {
  readonly result?: {
    readonly message?: {
      readonly role?: string;
      readonly contextId?: string;
      readonly parts?: readonly { readonly text?: string; readonly data?: Record<string, unknown> }[];
    };
  };
  readonly error?: Said['error'];
}

export interface SendOptions {
  readonly contextId?: string;
  readonly token?: string;
  readonly method?: string;
  readonly data?: readonly unknown[];
  readonly messageId?: string;
  readonly signal?: AbortSignal;
}

export async function say(url: string, text: string, options: SendOptions = {}): Promise<Said> {
  const { contextId, method = 'message/send', data = [], messageId } = options;
  const parts = [{ text }, ...data.map((one) => ({ data: one }))];
  const message = { role: 'user', parts, contextId, messageId };
  return post(url, JSON.stringify({ jsonrpc: '2.0', id: 7, method, params: { message } }), options);
}

export async function post(url: string, body: string, { token, signal }: SendOptions = {}): Promise<Said> {
  const response = await fetch(`${url}/jsonrpc`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token !== undefined && { authorization: `Bearer ${token}` }) },
    body,
    signal,
  });
  const answer = (await response.json()) as Answer;
  const message = answer.result?.message;
  const parts = message?.parts ?? [];
  return {
    status: response.status,
    text: parts[0]?.text ?? '',
    data: parts.flatMap(({ data }) => (data === undefined ? [] : [data])),
    contextId: message?.contextId,
    role: message?.role,
    error: typeof answer.error === 'object' ? answer.error : undefined,
    headers: response.headers,
  };
}
