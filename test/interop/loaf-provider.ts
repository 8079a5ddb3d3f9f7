/**
 * Loaded into the process of loaf: replies to its requests to OpenRouter, so that it needs no network and no key. The
 * newest message is the script: `run "COMMAND"` calls its shell, `say "TEXT"` replies, `wait` does not reply, `fail` is
 * refused.
 */
const real = globalThis.fetch;

const json = (body: unknown, status = 200): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

/** Returns a promise that never resolves before the request is aborted. */
const untilAborted = (signal: AbortSignal | null | undefined): Promise<never> =>
  new Promise((_resolve, reject) =>
    signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError'))),
  );

interface Sent {
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
}

async function complete({ messages }: Sent, signal: AbortSignal | null | undefined): Promise<Response> {
  const { role, content } = messages.at(-1) ?? { role: 'user', content: '' };
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  const [, verb, subject = ''] = /^(run|say|wait|fail)(?: "(.*)")?/s.exec(text) ?? [];
  const answer = (message: object): Response =>
    json({ id: 'x', object: 'chat.completion', choices: [{ index: 0, message: { role: 'assistant', ...message } }] });
  if (role === 'tool') return answer({ content: `the tool returned ${text.length > 0 ? 'something' : 'nothing'}` });
  if (verb === 'wait') return untilAborted(signal);
  if (verb === 'fail') return json({ error: { message: 'out of luck' } }, 400);
  if (verb !== 'run') return answer({ content: subject });
  const call = { name: 'bash', arguments: JSON.stringify({ command: subject }) };
  return answer({ content: '', tool_calls: [{ id: 'call-1', type: 'function', function: call }] });
}

globalThis.fetch = async (input, init) => {
  const url = input instanceof Request ? input.url : String(input);
  if (!url.startsWith('https://openrouter.ai/')) return real(input, init);
  if (url.endsWith('/chat/completions')) return complete(JSON.parse(String(init?.body)) as Sent, init?.signal);
  const model = {
    id: 'scripted/model',
    name: 'Scripted',
    context_length: 100_000,
    supported_parameters: ['tools', 'reasoning'],
  };
  return json({ data: [model] });
};
