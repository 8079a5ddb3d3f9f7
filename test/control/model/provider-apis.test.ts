/**
 * One round asked of each provider's API through the AI SDK: the request, and the result of the answer.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import type { HistoryItem } from '../../../src/control/contract/session-log.ts';
import type { Provider } from '../../../src/protocol/session-types.ts';
import { type ModelRequest, type ModelServer, startModelServer } from '../../../src/testing/model-server.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { ask, assistantItem, choiceOf, KEY, offer, onePart, PROVIDERS, partsOf, user } from './harness.ts';

let server: ModelServer;
before(async () => {
  server = await startModelServer();
});
after(() => server[Symbol.asyncDispose]());

/** Plays rounds, asks for each, returns the parts and the newest request. */
async function round(
  provider: Provider,
  scripted: Parameters<ModelServer['play']>[0][number],
  options: Parameters<typeof ask>[2] = {},
  changes: Parameters<typeof choiceOf>[1] = {},
) {
  server.play([scripted]);
  const parts = await partsOf(ask(server, choiceOf(provider, changes), options));
  return { parts, request: server.requests.at(-1)! };
}

for (const provider of PROVIDERS) {
  test(`${provider}: reasoning and text are streamed delta by delta, in order, each once`, async () => {
    const { parts } = await round(provider, { thought: ['Let me ', 'see.'], text: ['Hel', 'lo', ' you'] });
    const streamed = parts.filter(({ type }) => type === 'thought' || type === 'answer');
    assert.deepEqual(
      streamed.map((part) => [part.type, (part as { text: string }).text]),
      [
        ['thought', 'Let me '],
        ['thought', 'see.'],
        ['answer', 'Hel'],
        ['answer', 'lo'],
        ['answer', ' you'],
      ],
    );
    assert.equal(onePart(parts, 'finish').reason, 'stop');
  });

  test(`${provider}: parallel calls keep their ids, names and arguments apart`, async () => {
    const { parts, request } = await round(
      provider,
      {
        text: 'Two things.',
        tool_calls: [
          { id: 'call_a', name: 'bash', input: { command: 'echo "one"' } },
          { id: 'call_b', name: 'files_read', input: { command: 'two', deep: { list: [1, 2] } } },
        ],
      },
      { tools: [offer('bash'), offer('files/read')] },
    );
    assert.deepEqual(
      parts.filter(({ type }) => type === 'call'),
      [
        { type: 'call', callId: 'call_a', name: 'bash', providerToolName: 'bash', input: { command: 'echo "one"' } },
        {
          type: 'call',
          callId: 'call_b',
          name: 'files/read',
          providerToolName: 'files_read',
          input: { command: 'two', deep: { list: [1, 2] } },
        },
      ],
    );
    assert.equal(onePart(parts, 'finish').reason, 'tool_calls');
    assert.match(JSON.stringify(request.body), /"name":"files_read"/);
    assert.doesNotMatch(JSON.stringify(request.body), /"name":"files\/read"/);
  });

  test(`${provider}: usage is what the provider reported, reasoning and cached tokens included`, async () => {
    const { parts } = await round(provider, {
      text: 'x',
      usage: { input: 1200, output: 90, reasoning: 40, cached: 1000 },
    });
    const { usage } = onePart(parts, 'usage');
    assert.deepEqual(usage, {
      input_tokens: 1200,
      output_tokens: 90,
      // Anthropic does not say how much of the output was reasoning.
      reasoning_tokens: provider === 'anthropic' ? 0 : 40,
      cached_input_tokens: 1000,
      total_tokens: 1290,
    });
  });

  test(`${provider}: an answer cut by its length ends as max_tokens, a filtered one as a refusal`, async () => {
    const cut = await round(provider, { text: 'half', finish: 'length' });
    assert.equal(onePart(cut.parts, 'finish').reason, 'max_tokens');
    const refused = await round(provider, { text: 'no', finish: 'refusal' });
    assert.equal(onePart(refused.parts, 'finish').reason, 'refusal');
  });

  test(`${provider}: images go out as data, with their type`, async () => {
    const history: HistoryItem[] = [
      {
        role: 'user',
        turn: 'turn-1',
        text: 'what is this [Image 1]',
        images: [{ path: 'a.png', mimeType: 'image/png', dataUrl: 'data:image/png;base64,iVBORw0KGgo=', byteSize: 8 }],
      },
    ];
    const { request } = await round(provider, { text: 'a dot' }, { history });
    const body = JSON.stringify(request.body);
    assert.match(body, /iVBORw0KGgo=/);
    assert.match(body, /image\/png/);
    assert.match(body, /what is this/);
  });

  test(`${provider}: calls and results go back paired, with what the provider wanted kept with its message`, async () => {
    const first = await round(
      provider,
      { thought: 'Think.', text: 'I look.', tool_calls: [{ id: 'call_1', name: 'bash', input: { command: 'ls' } }] },
      { tools: [offer('bash')] },
    );
    const history: HistoryItem[] = [
      user('list the files'),
      assistantItem(first.parts),
      { role: 'tool', turn: 'turn-1', callId: 'call_1', name: 'bash', ok: true, result: { output: 'a.txt' } },
    ];
    const { request } = await round(provider, { text: 'a.txt' }, { history, tools: [offer('bash')] });
    const body = JSON.stringify(request.body);
    assert.match(body, /a\.txt/);
    const signed: Partial<Record<Provider, RegExp>> = {
      openai: /"encrypted_content":"sealed-/,
      openrouter: /"signature":"sig-/,
      anthropic: /"signature":"sig-/,
      google: /"thoughtSignature":"sig-call_1"/,
      antigravity: /"thoughtSignature":"sig-call_1"/,
      compatible: /"reasoning_content":"Think\."/,
    };
    assert.match(body, signed[provider] as RegExp);
    assert.doesNotMatch(body, /item_reference/);
  });
}

test('the credential goes where each provider looks for it, and nowhere into the body', async () => {
  for (const provider of PROVIDERS) {
    const { request } = await round(provider, { text: 'x' });
    const { authorization, 'x-api-key': anthropic, 'x-goog-api-key': google } = request.headers;
    const given = { anthropic, google }[provider as 'anthropic'] ?? authorization;
    assert.match(String(given), new RegExp(KEY));
    assert.doesNotMatch(JSON.stringify(request.body), new RegExp(KEY));
  }
});

/** The events that the server `raw` sends next. */
let events: readonly unknown[] = [];
const raw = createServer((request, response) => {
  request.resume();
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of events) {
    const type = (event as { type?: string }).type;
    const name = type === undefined ? '' : `event: ${type}\n`;
    response.write(`${name}data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`);
  }
  response.end();
});
before(() => new Promise<void>((resolve) => raw.listen(0, '127.0.0.1', resolve)));
after(() => raw.closeAllConnections());
after(() => raw.close());

/** Returns the end of an answer of these events; `cut`: it broke off. */
async function ending(provider: Provider, sent: readonly unknown[]): Promise<string> {
  events = sent;
  const baseUrl = `http://127.0.0.1:${(raw.address() as AddressInfo).port}/v1`;
  try {
    const parts = await partsOf(
      ask(server, choiceOf(provider), { access: { baseUrl }, limits: { maxBrokenAttempts: 1 } }),
    );
    const calls = parts.filter(({ type }) => type === 'call').length;
    return `${onePart(parts, 'finish').reason}${calls > 0 ? ` ${calls}` : ''}`;
  } catch (error) {
    const { reason } = (error as HandfastError).detail;
    assert.equal(reason, 'stream_ended', String(error));
    return 'cut';
  }
}

test('chat completions are complete with a finish_reason or with [DONE], and cut off without both', async () => {
  const chunk = (delta: object, finish_reason: unknown = null, more: object = {}) => ({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, ...(finish_reason !== undefined && { finish_reason }) }],
    ...more,
  });
  const text = chunk({ role: 'assistant', content: 'hi "finish_reason":"stop"' });
  const bare = chunk({ content: 'hi' }, undefined);
  const called = { index: 0, id: 'call_1', type: 'function', function: { name: 'bash', arguments: '{}' } };
  const call = chunk({ tool_calls: [called] });
  const empty = { ...chunk({}), choices: [] };
  const usage = { ...empty, usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } };
  for (const provider of ['compatible', 'openrouter'] as const) {
    for (const [sent, expected] of [
      [[text, '[DONE]'], 'stop'],
      [[bare, '[DONE]'], 'stop'],
      [[call, '[DONE]'], 'tool_calls 1'],
      [[text, chunk({}, ''), '[DONE]'], 'stop'],
      [[text, usage, '[DONE]'], 'stop'],
      [[empty, text, empty, '[DONE]'], 'stop'],
      [[text, chunk({}, 'stop')], 'stop'],
      [[text, chunk({}, 'length'), usage, '[DONE]'], 'max_tokens'],
      [[text, chunk({}, 'stop'), usage], 'stop'],
      [[text], 'cut'],
      [[bare], 'cut'],
      [[call], 'cut'],
      [[text, usage], 'cut'],
      [[text, empty], 'cut'],
      [[text, chunk({}, '')], 'cut'],
      [['[DONE]'], 'cut'],
      [[empty, usage, '[DONE]'], 'cut'],
    ] as const) {
      assert.equal(await ending(provider, sent), expected, `${provider} ${JSON.stringify(sent)}`);
    }
  }
});

test('answers of the other APIs are complete with the last event of each, and cut off without', async () => {
  const response = { id: 'r', object: 'response', created_at: 1, model: 'm', output: [] };
  const message = { type: 'message', id: 'msg_1', role: 'assistant', status: 'in_progress', content: [] };
  const responses = [
    { type: 'response.created', response: { ...response, status: 'in_progress' } },
    { type: 'response.output_item.added', output_index: 0, item: message },
    { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, content_index: 0, delta: 'hi' },
  ];
  const counts = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
  const whole = { ...response, status: 'completed', usage: counts };
  assert.equal(await ending('openai', [...responses, { type: 'response.completed', response: whole }]), 'stop');
  const part = { ...whole, status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
  assert.equal(await ending('openai', [...responses, { type: 'response.incomplete', response: part }]), 'max_tokens');
  assert.equal(await ending('openai', responses), 'cut');

  const anthropic = [
    {
      type: 'message_start',
      message: {
        id: 'm',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [],
        stop_reason: null,
        usage: counts,
      },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'hi' } },
    { type: 'content_block_stop', index: 0 },
  ];
  const stopped = { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: counts };
  assert.equal(await ending('anthropic', [...anthropic, stopped, { type: 'message_stop' }]), 'stop');
  assert.equal(await ending('anthropic', anthropic), 'cut');

  const candidate = (text: string, more: object = {}) => ({
    candidates: [{ content: { role: 'model', parts: [{ text }] }, index: 0, ...more }],
  });
  for (const [provider, frame] of [
    ['google', (chunk: object) => chunk],
    ['antigravity', (chunk: object) => ({ response: chunk })],
  ] as const) {
    const usage = { usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 } };
    const ends = (...chunks: readonly object[]) => ending(provider, chunks.map(frame));
    assert.equal(await ends(candidate('hi'), candidate('', { finishReason: 'STOP' })), 'stop');
    assert.equal(await ends(candidate('hi', { finishReason: 'STOP' }), usage), 'stop');
    assert.equal(await ends(candidate('hi'), { candidates: [{ finishReason: 'MAX_TOKENS' }] }), 'max_tokens');
    assert.equal(await ends(candidate('hi')), 'cut');
    assert.equal(await ends(candidate('hi'), usage), 'cut');
  }
});

test('thinking levels become what each provider understands', async () => {
  const bodies: Record<string, ModelRequest['body']> = {};
  for (const provider of PROVIDERS) bodies[provider] = (await round(provider, { text: 'x' })).request.body;
  assert.deepEqual(bodies.openai?.reasoning, { effort: 'high', summary: 'auto' });
  assert.deepEqual(bodies.openrouter?.reasoning, { effort: 'high' });
  assert.equal(bodies.anthropic?.thinking.type, 'enabled');
  assert.ok(bodies.anthropic?.thinking.budget_tokens >= 1024);
  assert.equal(bodies.google?.generationConfig.thinkingConfig.includeThoughts, true);
  assert.ok(bodies.google?.generationConfig.thinkingConfig.thinkingBudget > 0);
  assert.deepEqual(bodies.antigravity?.request.generationConfig.thinkingConfig, {
    includeThoughts: true,
    thinkingLevel: 'high',
  });
  assert.equal(bodies.compatible?.reasoning_effort, 'high');
});

test('nothing about thinking is sent to a model that cannot think', async () => {
  for (const provider of PROVIDERS) {
    const option = { ...choiceOf(provider).option!, supportedThinkingLevels: ['OFF' as const] };
    const { request } = await round(provider, { text: 'x' }, {}, { option, thinking: 'OFF' });
    assert.doesNotMatch(JSON.stringify(request.body), /"reasoning(?:_effort)?":|"thinking/, provider);
  }
});

test('OpenAI keeps nothing: the conversation is sent whole and not stored', async () => {
  const { request } = await round('openai', { text: 'x' });
  assert.equal(request.body.store, false);
  assert.deepEqual(request.body.include, ['reasoning.encrypted_content']);
  assert.equal(request.body.prompt_cache_key, 'session-1');
});

test('behind a ChatGPT sign-in the system prompt goes as instructions', async () => {
  server.play([{ text: 'x' }]);
  const access = { kind: 'oauth' as const, headers: { 'chatgpt-account-id': 'acct-1' } };
  await partsOf(ask(server, choiceOf('openai'), { access }));
  const { body, headers } = server.requests.at(-1)!;
  assert.equal(body.instructions, 'be brief');
  assert.equal(headers['chatgpt-account-id'], 'acct-1');
  assert.deepEqual(
    body.input.map(({ role }: { role: string }) => role),
    ['user'],
  );
});

test('OpenRouter receives which provider to route to, asked for usage, and its cost is reported', async () => {
  const { parts, request } = await round(
    'openrouter',
    { text: 'x', usage: { input: 10, output: 5, cost: 0.00123 } },
    {},
    { openRouterProvider: 'provx' },
  );
  assert.deepEqual(request.body.provider, { order: ['provx'] });
  assert.equal(onePart(parts, 'usage').usage.cost_usd, 0.00123);
  const unrouted = await round('openrouter', { text: 'x', usage: { input: 10, output: 5 } });
  assert.equal(unrouted.request.body.provider, undefined);
  assert.equal('cost_usd' in onePart(unrouted.parts, 'usage').usage, false);
});

test('Anthropic is asked to cache what requests repeat', async () => {
  const { request } = await round('anthropic', { text: 'x' });
  assert.deepEqual(request.body.cache_control, { type: 'ephemeral' });
});

test('Antigravity goes through the Cloud Code envelope, with the project of the account', async () => {
  server.play([{ text: 'x' }]);
  await partsOf(ask(server, choiceOf('antigravity'), { access: { kind: 'oauth', project: 'project-7' } }));
  const { body, headers } = server.requests.at(-1)!;
  assert.equal(body.project, 'project-7');
  assert.equal(body.model, 'gemini-3-pro-high');
  assert.ok(Array.isArray(body.request.contents));
  assert.equal(headers['x-goog-api-key'], undefined);
});

test('arguments that are not JSON are a call that says so, on every API that sends text', async () => {
  for (const provider of ['openai', 'openrouter', 'anthropic', 'compatible'] as const) {
    const { parts } = await round(
      provider,
      { tool_calls: [{ id: 'c1', name: 'bash', arguments: '{"command": rm -rf}' }] },
      { tools: [offer('bash')] },
    );
    const call = onePart(parts, 'call');
    assert.deepEqual(call.input, {}, provider);
    assert.match(call.invalid ?? '', /^they are not JSON/, provider);
  }
});

test('arguments that are too large are a call that says so', async () => {
  for (const [text, reason] of [
    [`{"list":[${'[],'.repeat(70_000)}[]]}`, /^they are too large \(the message has more than 65536 values\)/],
    [`{"text":"${'x'.repeat(1_100_000)}"}`, /^they are longer than 1048576 characters/],
  ] as const) {
    const { parts } = await round(
      'compatible',
      { tool_calls: [{ id: 'c1', name: 'bash', arguments: text }] },
      { tools: [offer('bash')] },
    );
    const call = onePart(parts, 'call');
    assert.deepEqual(call.input, {});
    assert.match(call.invalid ?? '', reason);
  }
});

test('a long text of one event comes in pieces, and an answer of too many calls is a failure', async () => {
  const text = `x${'😀'.repeat(100_000)}`;
  const { parts } = await round('compatible', { text: [text] });
  const pieces = parts.filter((part) => part.type === 'answer').map((part) => part.text);
  assert.equal(pieces.join(''), text);
  assert.ok(pieces.length > 3 && pieces.every((piece) => piece.isWellFormed()));
  const tool_calls = Array.from({ length: 1_100 }, (_, at) => ({ id: `c${at}`, name: 'bash', arguments: '{}' }));
  await assert.rejects(round('compatible', { tool_calls }, { tools: [offer('bash')] }), /more than 1024 calls at once/);
});

test('arguments that are JSON and no object are a call that says so; none at all are none', async () => {
  const list = await round('compatible', { tool_calls: [{ id: 'c1', name: 'bash', arguments: '[1,2]' }] });
  assert.equal(onePart(list.parts, 'call').invalid, 'they are not a JSON object');
  const none = await round('compatible', { tool_calls: [{ id: 'c1', name: 'bash', arguments: '' }] });
  assert.deepEqual(onePart(none.parts, 'call').input, {});
  assert.equal(onePart(none.parts, 'call').invalid, undefined);
});
