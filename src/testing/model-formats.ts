/**
 * The streaming format of each provider's API for a round of the scripted model server. Pure: a round in, the
 * server-sent events out. Written from the providers' public API references.
 */

/** A call the scripted model makes. */
export interface ScriptedCall {
  readonly id: string;
  readonly name: string;
  /** The group of the tool, which the API `responses` alone has. */
  readonly namespace?: string;
  readonly input?: unknown;
  /** The arguments as the model wrote them, for arguments that are not JSON. */
  readonly arguments?: string;
}

/** One answer of the scripted model. A list of texts is sent as that many deltas. */
export interface ScriptedRound {
  readonly thought?: string | readonly string[];
  readonly text?: string | readonly string[];
  readonly tool_calls?: readonly ScriptedCall[];
  /** Waits before anything is answered. */
  readonly delay_ms?: number;
  /** Error text with which the request fails: HTTP 400, unless `status` sets another one. */
  readonly error?: string;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** The provider's name of the failure, e.g. `context_length_exceeded`. */
  readonly error_code?: string;
  /** The body of a failure, unchanged, instead of the API's own form. */
  readonly body?: string;
  readonly finish?: 'stop' | 'length' | 'refusal';
  readonly usage?: {
    readonly input: number;
    readonly output: number;
    readonly reasoning?: number;
    readonly cached?: number;
    readonly cost?: number;
  };
  /**
   * The way in which the reply breaks off after the output above: `silence` never replies at all, `stall` stops after
   * the output, `end` ends the reply without its last messages, `reset` cuts the connection, `error` reports `error` in
   * the stream.
   */
  readonly breaks?: 'silence' | 'stall' | 'end' | 'reset' | 'error';
}

export type ModelApi = 'chat' | 'openrouter' | 'responses' | 'anthropic' | 'google' | 'cloud-code';

/** The events of a reply: its output, and its end. */
export interface ScriptedStream {
  readonly output: readonly string[];
  readonly end: readonly string[];
}

const texts = (text: string | readonly string[] | undefined): readonly string[] =>
  text === undefined ? [] : typeof text === 'string' ? [text] : text;
const argumentsOf = (call: ScriptedCall): string => call.arguments ?? JSON.stringify(call.input ?? {});
const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const named = (value: { readonly type: string; readonly [field: string]: unknown }): string =>
  `event: ${value.type}\n${data(value)}`;
const DEFAULT_USAGE: NonNullable<ScriptedRound['usage']> = { input: 100, output: 20 };

/** Returns the events of `round` in the format of `api`. */
export function streamOf(api: ModelApi, round: ScriptedRound, model: string, number: number): ScriptedStream {
  switch (api) {
    case 'chat':
    case 'openrouter':
      return chatStream(round, model, number, api === 'openrouter');
    case 'responses':
      return responsesStream(round, model, number);
    case 'anthropic':
      return anthropicStream(round, model, number);
    case 'google':
      return googleStream(round, (chunk) => data(chunk));
    case 'cloud-code':
      return googleStream(round, (chunk) => data({ response: chunk, traceId: `trace-${number}` }));
  }
}

/** Returns the body with which `api` reports a failed request. */
export function failureOf(api: ModelApi, status: number, message: string, code: string | undefined): string {
  switch (api) {
    case 'anthropic':
      return JSON.stringify({ type: 'error', error: { type: code ?? anthropicError(status), message } });
    case 'google':
    case 'cloud-code':
      return JSON.stringify({ error: { code: status, message, status: code ?? 'INVALID_ARGUMENT' } });
    case 'openrouter':
      return JSON.stringify({ error: { code: status, message, ...(code && { metadata: { error_type: code } }) } });
    default:
      return JSON.stringify({ error: { message, type: 'invalid_request_error', param: null, code: code ?? null } });
  }
}

const anthropicError = (status: number): string =>
  ({ 401: 'authentication_error', 429: 'rate_limit_error', 529: 'overloaded_error' })[status] ??
  (status >= 500 ? 'api_error' : 'invalid_request_error');

function chatStream(round: ScriptedRound, model: string, number: number, openRouter: boolean): ScriptedStream {
  const head = { id: `gen-${number}`, object: 'chat.completion.chunk', created: 1_700_000_000, model };
  const chunk = (delta: object, finish: string | null = null): string =>
    data({
      ...head,
      ...(openRouter && { provider: 'ProvX' }),
      choices: [{ index: 0, delta, finish_reason: finish }],
    });
  const output: string[] = [];
  const thoughts = texts(round.thought);
  for (const [at, text] of thoughts.entries()) {
    const last = at === thoughts.length - 1;
    const detail = { type: 'reasoning.text', text, index: 0, format: 'anthropic-claude-v1' };
    output.push(
      chunk(
        openRouter
          ? { reasoning: text, reasoning_details: [{ ...detail, signature: last ? `sig-${number}` : null }] }
          : { reasoning_content: text },
      ),
    );
  }
  for (const text of texts(round.text)) output.push(chunk({ role: 'assistant', content: text }));
  const calls = round.tool_calls ?? [];
  // The arguments of parallel calls arrive in turns, so that only their index distinguishes them.
  for (const [index, call] of calls.entries()) {
    const begin = argumentsOf(call).slice(0, 3);
    output.push(
      chunk({
        tool_calls: [{ index, id: call.id, type: 'function', function: { name: call.name, arguments: begin } }],
      }),
    );
  }
  for (const [index, call] of calls.entries()) {
    const rest = argumentsOf(call).slice(3);
    if (rest !== '') output.push(chunk({ tool_calls: [{ index, function: { arguments: rest } }] }));
  }
  if (round.breaks === 'error') {
    output.push(data({ ...(openRouter && head), error: { message: round.error, code: round.status ?? 502 } }));
  }
  const finish = { stop: calls.length > 0 ? 'tool_calls' : 'stop', length: 'length', refusal: 'content_filter' };
  const { input, output: said, reasoning = 0, cached = 0, cost } = round.usage ?? DEFAULT_USAGE;
  const usage = {
    prompt_tokens: input,
    completion_tokens: said,
    total_tokens: input + said,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
    ...(openRouter && cost !== undefined && { cost }),
  };
  const end = [chunk({}, finish[round.finish ?? 'stop']), data({ ...head, choices: [], usage }), 'data: [DONE]\n\n'];
  return { output, end };
}

function responsesStream(round: ScriptedRound, model: string, number: number): ScriptedStream {
  let sequence = 0;
  let index = 0;
  const output: string[] = [];
  const event = (type: string, fields: object): string => named({ type, sequence_number: sequence++, ...fields });
  const send = (type: string, fields: object): void => {
    output.push(event(type, fields));
  };
  const response = {
    id: `resp_${number}`,
    object: 'response',
    created_at: 1_700_000_000,
    model,
    status: 'in_progress',
  };
  send('response.created', { response });
  send('response.in_progress', { response });
  const thoughts = texts(round.thought);
  if (thoughts.length > 0) {
    const item = { type: 'reasoning', id: `rs_${number}`, summary: [] as object[], encrypted_content: null as unknown };
    send('response.output_item.added', { output_index: index, item });
    const spot = { item_id: item.id, output_index: index, summary_index: 0 };
    send('response.reasoning_summary_part.added', { ...spot, part: { type: 'summary_text', text: '' } });
    for (const delta of thoughts) send('response.reasoning_summary_text.delta', { ...spot, delta });
    const whole = { type: 'summary_text', text: thoughts.join('') };
    send('response.reasoning_summary_part.done', { ...spot, part: whole });
    send('response.output_item.done', {
      output_index: index++,
      item: { ...item, summary: [whole], encrypted_content: `sealed-${number}` },
    });
  }
  const said = texts(round.text);
  if (said.length > 0) {
    const item = { type: 'message', id: `msg_${number}`, role: 'assistant', status: 'in_progress', content: [] };
    const spot = { item_id: item.id, output_index: index, content_index: 0 };
    const part = { type: 'output_text', text: said.join(''), annotations: [] };
    send('response.output_item.added', { output_index: index, item });
    send('response.content_part.added', { ...spot, part: { ...part, text: '' } });
    for (const delta of said) send('response.output_text.delta', { ...spot, delta });
    send('response.output_text.done', { ...spot, text: part.text });
    send('response.content_part.done', { ...spot, part });
    send('response.output_item.done', {
      output_index: index++,
      item: { ...item, status: 'completed', content: [part] },
    });
  }
  for (const call of round.tool_calls ?? []) {
    const { id, name, namespace } = call;
    const item = { type: 'function_call', id: `fc_${id}`, call_id: id, name, ...(namespace && { namespace }) };
    const whole = argumentsOf(call);
    send('response.output_item.added', {
      output_index: index,
      item: { ...item, arguments: '', status: 'in_progress' },
    });
    for (const delta of [whole.slice(0, 3), whole.slice(3)]) {
      send('response.function_call_arguments.delta', { item_id: item.id, output_index: index, delta });
    }
    send('response.function_call_arguments.done', { item_id: item.id, output_index: index, arguments: whole });
    send('response.output_item.done', {
      output_index: index++,
      item: { ...item, arguments: whole, status: 'completed' },
    });
  }
  if (round.breaks === 'error') {
    send('response.failed', {
      response: {
        ...response,
        status: 'failed',
        error: { code: round.error_code ?? 'server_error', message: round.error },
      },
    });
  }
  const { input, output: out, reasoning = 0, cached = 0 } = round.usage ?? DEFAULT_USAGE;
  const usage = {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached },
    output_tokens: out,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: input + out,
  };
  const cut = { length: 'max_output_tokens', refusal: 'content_filter', stop: undefined }[round.finish ?? 'stop'];
  const end =
    cut === undefined
      ? event('response.completed', { response: { ...response, status: 'completed', output: [], usage } })
      : event('response.incomplete', {
          response: { ...response, status: 'incomplete', incomplete_details: { reason: cut }, output: [], usage },
        });
  return { output, end: [end] };
}

function anthropicStream(round: ScriptedRound, model: string, number: number): ScriptedStream {
  const { input, output: said, cached = 0 } = round.usage ?? DEFAULT_USAGE;
  const counts = { input_tokens: input - cached, cache_read_input_tokens: cached, cache_creation_input_tokens: 0 };
  const output: string[] = [
    named({
      type: 'message_start',
      message: {
        id: `msg_${number}`,
        type: 'message',
        role: 'assistant',
        model,
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { ...counts, output_tokens: 1 },
      },
    }),
    named({ type: 'ping' }),
  ];
  let index = 0;
  const block = (content: object, deltas: readonly object[]): void => {
    output.push(named({ type: 'content_block_start', index, content_block: content }));
    for (const delta of deltas) output.push(named({ type: 'content_block_delta', index, delta }));
    output.push(named({ type: 'content_block_stop', index: index++ }));
  };
  const thoughts = texts(round.thought);
  if (thoughts.length > 0) {
    block({ type: 'thinking', thinking: '', signature: '' }, [
      ...thoughts.map((thinking) => ({ type: 'thinking_delta', thinking })),
      { type: 'signature_delta', signature: `sig-${number}` },
    ]);
  }
  const spoken = texts(round.text);
  if (spoken.length > 0) {
    block(
      { type: 'text', text: '' },
      spoken.map((text) => ({ type: 'text_delta', text })),
    );
  }
  for (const call of round.tool_calls ?? []) {
    const whole = argumentsOf(call);
    block({ type: 'tool_use', id: call.id, name: call.name, input: {} }, [
      { type: 'input_json_delta', partial_json: whole.slice(0, 3) },
      { type: 'input_json_delta', partial_json: whole.slice(3) },
    ]);
  }
  if (round.breaks === 'error') {
    const error = { type: round.error_code ?? 'overloaded_error', message: round.error };
    output.push(named({ type: 'error', error }));
  }
  const stop = {
    stop: (round.tool_calls ?? []).length > 0 ? 'tool_use' : 'end_turn',
    length: 'max_tokens',
    refusal: 'refusal',
  }[round.finish ?? 'stop'];
  const end = [
    named({
      type: 'message_delta',
      delta: { stop_reason: stop, stop_sequence: null },
      usage: { output_tokens: said },
    }),
    named({ type: 'message_stop' }),
  ];
  return { output, end };
}

function googleStream(round: ScriptedRound, frame: (chunk: object) => string): ScriptedStream {
  const chunk = (parts: readonly object[]): string =>
    frame({ candidates: [{ content: { role: 'model', parts }, index: 0 }], modelVersion: 'scripted' });
  const output: string[] = [
    ...texts(round.thought).map((text) => chunk([{ text, thought: true }])),
    ...texts(round.text).map((text) => chunk([{ text }])),
    ...(round.tool_calls ?? []).map((call) =>
      chunk([
        { functionCall: { id: call.id, name: call.name, args: call.input ?? {} }, thoughtSignature: `sig-${call.id}` },
      ]),
    ),
  ];
  if (round.breaks === 'error') {
    output.push(frame({ error: { code: round.status ?? 503, message: round.error, status: 'UNAVAILABLE' } }));
  }
  const { input, output: said, reasoning = 0, cached = 0 } = round.usage ?? DEFAULT_USAGE;
  const end = [
    frame({
      candidates: [
        {
          content: { role: 'model', parts: [{ text: '' }] },
          finishReason: { stop: 'STOP', length: 'MAX_TOKENS', refusal: 'SAFETY' }[round.finish ?? 'stop'],
          index: 0,
        },
      ],
      usageMetadata: {
        promptTokenCount: input,
        candidatesTokenCount: said - reasoning,
        thoughtsTokenCount: reasoning,
        cachedContentTokenCount: cached,
        totalTokenCount: input + said,
      },
      modelVersion: 'scripted',
    }),
  ];
  return { output, end };
}
