/**
 * Requests that fail: the retried ones and their events, those that are not retried, and the text of the error.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isOverflow, windowNamedIn } from '../../../src/control/backends/model/context-overflow.ts';
import type { ModelPart } from '../../../src/control/rounds/round-model.ts';
import type { Provider } from '../../../src/protocol/session-types.ts';
import { type ModelServer, type ScriptedRound, startModelServer } from '../../../src/testing/model-server.ts';
import { fail, type HandfastError } from '../../../src/wire/errors.ts';
import { type AskOptions, ask, choiceOf, KEY, onePart, PROVIDERS, partsOf, textOf } from './harness.ts';

let server: ModelServer;
before(async () => {
  server = await startModelServer();
  // Loading the packages takes longer than some of the time limits below.
  for (const provider of PROVIDERS) await outcome(provider, [{ text: 'x' }]);
});
after(() => server[Symbol.asyncDispose]());

/**
 * Returns the whole outcome of a round: its parts, its error, the waits between its attempts, and the number of requests to the
 * server.
 */
async function outcome(provider: Provider, rounds: readonly ScriptedRound[], options: AskOptions = {}) {
  const asked = server.requests.length;
  const waits: number[] = [];
  const parts: ModelPart[] = [];
  let error: HandfastError | undefined;
  server.play(rounds);
  try {
    for await (const part of ask(server, choiceOf(provider), { waits, ...options })) parts.push(part);
  } catch (thrown) {
    error = thrown as HandfastError;
  }
  assert.equal(server.left, 0, 'every scripted round was asked for');
  return { parts, error, waits, attempts: server.requests.length - asked };
}

test('weakness 20: a wait for capacity is reported before it starts, with attempt, delay and reason, and then goes well', async () => {
  const { parts, waits, attempts } = await outcome('openai', [
    { error: 'Rate limit reached', status: 429 },
    { error: 'The server is overloaded', status: 503 },
    { text: 'at last' },
  ]);
  assert.deepEqual(
    parts.filter(({ type }) => type === 'retry'),
    [
      { type: 'retry', attempt: 2, maxAttempts: 8, delayMs: 1250, reason: 'Rate limit reached' },
      { type: 'retry', attempt: 3, maxAttempts: 8, delayMs: 2500, reason: 'The server is overloaded' },
    ],
  );
  assert.equal(textOf(parts, 'answer'), 'at last');
  assert.deepEqual(waits, [1250, 2500]);
  assert.equal(attempts, 3);
});

for (const provider of PROVIDERS) {
  test(`${provider}: overload is tried eight times, with delays that double up to 20 s, and then fails as retryable`, async () => {
    const busy = Array.from({ length: 8 }, () => ({ error: 'try later', status: 429 }));
    const { error, waits, attempts } = await outcome(provider, busy);
    assert.equal(attempts, 8);
    assert.deepEqual(waits, [1250, 2500, 5000, 10_000, 20_000, 20_000, 20_000]);
    assert.equal(error?.code, 'provider_error');
    assert.equal(error.message, 'try later');
    assert.equal(error.retryable, true);
    assert.deepEqual(error.detail, { provider, model: choiceOf(provider).model, reason: 'rate_limited', status: 429 });
  });

  test(`${provider}: a refused request is not tried again; the error has the provider's words and nothing of the request`, async () => {
    const { error, attempts, parts } = await outcome(provider, [{ error: 'mock failure' }]);
    assert.equal(attempts, 1);
    assert.deepEqual(parts, []);
    assert.equal(error?.message, 'mock failure');
    assert.equal(error.retryable, false);
    assert.deepEqual(error.detail, { provider, model: choiceOf(provider).model, reason: 'rejected', status: 400 });
    assert.equal(error.cause, undefined);
  });

  test(`${provider}: a wrong key is an error of the kind auth that does not repeat the key`, async () => {
    const { error, attempts } = await outcome(provider, [
      { error: `Incorrect API key provided: ${KEY}. Or was it sk-proj-****abcd?`, status: 401 },
    ]);
    assert.equal(attempts, 1);
    assert.equal(error?.detail.reason, 'auth');
    const [words, advice] = error.message.split('; ');
    assert.equal(words, 'Incorrect API key provided: [credential]. Or was it [credential]?');
    assert.match(advice ?? '', new RegExp(`handfast auth login ${provider} `));
    assert.doesNotMatch(JSON.stringify([error, error.stack]), /sk-test|sk-proj/);
  });

  test(`${provider}: weakness 14: an answer that keeps ending early is asked for three times, not for ever`, async () => {
    const { error, attempts, parts } = await outcome(provider, [
      { breaks: 'end' },
      { breaks: 'end' },
      { breaks: 'end' },
    ]);
    assert.equal(attempts, 3);
    assert.deepEqual(
      parts.map((part) => part.type === 'retry' && [part.attempt, part.maxAttempts]),
      [
        [2, 3],
        [3, 3],
      ],
    );
    assert.equal(error?.detail.reason, 'stream_ended');
    assert.equal(error.retryable, true);
  });

  test(`${provider}: an answer that ends early after its first words is not asked for again`, async () => {
    const { error, attempts, parts } = await outcome(provider, [{ text: 'Half a', breaks: 'end' }]);
    assert.equal(attempts, 1);
    assert.equal(textOf(parts, 'answer'), 'Half a');
    assert.equal(error?.detail.reason, 'stream_ended');
  });

  test(`${provider}: a call of an answer that breaks off is never handed on`, async () => {
    const call = { id: 'c1', name: 'bash', input: { command: 'ls' } };
    const { parts } = await outcome(provider, [{ tool_calls: [call], breaks: 'end' }, { text: 'fine' }]);
    assert.deepEqual(
      parts.map(({ type }) => type),
      ['retry', 'answer', 'usage', 'finish'],
    );
  });

  test(`${provider}: an error in the stream before any output is tried again, one after it is not`, async () => {
    const early = await outcome(provider, [{ error: 'Overloaded', breaks: 'error' }, { text: 'fine' }]);
    assert.equal(onePart(early.parts, 'retry').reason, 'Overloaded');
    assert.equal(textOf(early.parts, 'answer'), 'fine');
    const late = await outcome(provider, [{ text: 'Half', error: 'Overloaded', breaks: 'error' }]);
    assert.equal(late.attempts, 1);
    assert.equal(late.error?.message, 'Overloaded');
  });

  test(`${provider}: a connection that is reset before any output is tried again, one reset later is not`, async () => {
    const { parts, attempts } = await outcome(provider, [{ breaks: 'reset' }, { text: 'fine' }]);
    assert.equal(attempts, 2);
    assert.equal(textOf(parts, 'answer'), 'fine');
    const late = await outcome(provider, [{ text: 'Half', breaks: 'reset' }]);
    assert.equal(late.attempts, 1);
    assert.equal(textOf(late.parts, 'answer'), 'Half');
    assert.equal(late.error?.message, 'the connection to the provider was lost');
    assert.equal(late.error.detail.reason, 'unreachable');
    assert.equal(late.error.retryable, true);
  });

  test(`${provider}: an answer that stops in the middle is given up after the time for it`, async () => {
    const limits = { firstPartTimeoutMs: 10_000, idleTimeoutMs: 400 };
    const { parts, error } = await outcome(provider, [{ text: 'Half', breaks: 'stall' }], { limits });
    assert.equal(textOf(parts, 'answer'), 'Half');
    assert.equal(error?.detail.reason, 'timeout');
    assert.equal(error.message, 'the provider sent nothing for 0.4 s');
  });

  test(`${provider}: an abort in the middle of an answer ends it at once, at the provider too`, async () => {
    const controller = new AbortController();
    const reason = fail('cancelled', 'interrupted');
    const asked = server.requests.length;
    server.play([{ text: 'Half', breaks: 'stall' }]);
    const parts: ModelPart[] = [];
    await assert.rejects(
      async () => {
        for await (const part of ask(server, choiceOf(provider), { signal: controller.signal })) {
          parts.push(part);
          setImmediate(() => controller.abort(reason));
        }
      },
      (thrown) => thrown === reason,
    );
    assert.equal(textOf(parts, 'answer'), 'Half');
    await (await server.request(asked)).abandoned;
  });
}

test('a provider that cannot be reached is tried like one without capacity, and named as such', async () => {
  const gone = await startModelServer();
  const access = { baseUrl: gone.baseUrl('chat') };
  await gone[Symbol.asyncDispose]();
  const { error, waits } = await outcome('compatible', [], { access, limits: { maxAttempts: 2 } });
  assert.deepEqual(waits, [1250]);
  assert.equal(error?.detail.reason, 'unreachable');
  assert.match(error.message, /^the provider cannot be reached: .*ECONNREFUSED.*; .*handfast model test$/);
});

test('a provider that never answers is given up after the time for it, and asked three times at most', async () => {
  const silent = { breaks: 'silence' as const };
  const { error, attempts } = await outcome('anthropic', [silent, silent, silent], {
    limits: { firstPartTimeoutMs: 500 },
  });
  assert.equal(attempts, 3);
  assert.equal(error?.detail.reason, 'timeout');
  assert.equal(error.retryable, true);
});

test('an abort before the provider has answered ends the request at once', async () => {
  const controller = new AbortController();
  const reason = fail('cancelled', 'interrupted');
  const asked = server.requests.length;
  server.play([{ breaks: 'silence' }]);
  const ended = assert.rejects(
    partsOf(ask(server, choiceOf('anthropic'), { signal: controller.signal })),
    (thrown) => thrown === reason,
  );
  const request = await server.request(asked);
  controller.abort(reason);
  await ended;
  await request.abandoned;
});

test('an abort while an attempt is waited for ends the wait', async () => {
  const controller = new AbortController();
  const reason = fail('cancelled', 'interrupted');
  server.play([{ error: 'later', status: 429 }]);
  const parts = ask(server, choiceOf('openai'), { signal: controller.signal });
  assert.equal((await parts.next()).value?.type, 'retry');
  controller.abort(reason);
  await assert.rejects(parts.next(), (thrown) => thrown === reason);
});

test('what a provider asks to wait is waited, in every form it is sent in, and never less than our own delay', async () => {
  const cases: readonly (readonly [Provider, ScriptedRound, number])[] = [
    ['openai', { error: 'x', status: 429, headers: { 'retry-after': '7' } }, 7000],
    ['openai', { error: 'x', status: 429, headers: { 'retry-after-ms': '3500' } }, 3500],
    ['anthropic', { error: 'x', status: 529, headers: { 'retry-after': '0' } }, 1250],
    [
      'google',
      {
        error: 'x',
        status: 429,
        body: JSON.stringify({
          error: {
            code: 429,
            message: 'Quota exceeded',
            status: 'RESOURCE_EXHAUSTED',
            details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '17.5s' }],
          },
        }),
      },
      17_500,
    ],
  ];
  for (const [provider, round, delayMs] of cases) {
    const { waits } = await outcome(provider, [round, { text: 'fine' }]);
    assert.deepEqual(waits, [delayMs], JSON.stringify(round));
  }
  const at = new Date(Date.now() + 19_000).toUTCString();
  const { waits } = await outcome('openai', [
    { error: 'x', status: 429, headers: { 'retry-after': at } },
    { text: 'fine' },
  ]);
  assert.ok(waits[0]! > 5_000 && waits[0]! <= 19_000, String(waits[0]));
});

test('a provider that asks for a long wait is not waited for; the error says when to come back', async () => {
  const { error, attempts } = await outcome('openai', [
    { error: 'x', status: 429, headers: { 'retry-after': '3600' } },
  ]);
  assert.equal(attempts, 1);
  assert.equal(error?.detail.retry_after_ms, 3_600_000);
  assert.equal(error.retryable, true);
});

test('an account without means is not asked again, although it is called a rate limit', async () => {
  const quota = { error: 'You exceeded your current quota', status: 429, error_code: 'insufficient_quota' };
  const { error, attempts } = await outcome('openai', [quota]);
  assert.equal(attempts, 1);
  assert.equal(error?.detail.reason, 'quota');
  assert.equal(error.retryable, false);
  const credits = await outcome('openrouter', [{ error: 'Insufficient credits', status: 402 }]);
  assert.equal(credits.error?.detail.reason, 'quota');
});

test('a provider that says not to try again is believed', async () => {
  const { attempts } = await outcome('anthropic', [
    { error: 'x', status: 500, headers: { 'x-should-retry': 'false' } },
  ]);
  assert.equal(attempts, 1);
});

test('a page of a gateway becomes a line, not a page', async () => {
  const page = {
    error: 'x',
    status: 404,
    body: '<html><body><h1>404 Not Found</h1></body></html>',
    headers: { 'content-type': 'text/html' },
  };
  const { error } = await outcome('compatible', [page]);
  assert.equal(error?.detail.reason, 'not_found');
  assert.doesNotMatch(error.message, /</);
});

test('what the provider behind OpenRouter said is in the message', async () => {
  const body = JSON.stringify({
    error: {
      code: 400,
      message: 'Provider returned error',
      metadata: { raw: JSON.stringify({ error: { message: 'temperature is not supported' } }), provider_name: 'ProvX' },
    },
  });
  const { error } = await outcome('openrouter', [{ error: 'x', body }]);
  assert.equal(error?.message, 'Provider returned error: temperature is not supported');
});

test('a wrong key is recognised where Google calls it a wrong request', async () => {
  const { error } = await outcome('google', [{ error: 'API key not valid. Please pass a valid API key.' }]);
  assert.equal(error?.detail.reason, 'auth');
});

test('a request that does not fit is an error of the kind context_overflow at every provider, and not tried again', async () => {
  const words: Readonly<Record<Provider, readonly ScriptedRound[]>> = {
    openai: [
      { error: 'Your input exceeds the context window of this model.', error_code: 'context_length_exceeded' },
      {
        error: 'Your input exceeds the context window of this model.',
        error_code: 'context_length_exceeded',
        breaks: 'error',
      },
    ],
    openrouter: [
      { error: "This endpoint's maximum context length is 32000 tokens. However, you requested about 90000 tokens." },
    ],
    anthropic: [
      { error: 'prompt is too long: 214317 tokens > 200000 maximum' },
      { error: 'Request too large', status: 413, error_code: 'request_too_large' },
    ],
    google: [{ error: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).' }],
    antigravity: [{ error: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).' }],
    compatible: [
      {
        error: 'the request exceeds the available context size, try increasing it',
        error_code: 'exceed_context_size_error',
      },
      { error: "This model's maximum context length is 8192 tokens. However, your prompt has 9000." },
    ],
  };
  for (const provider of PROVIDERS) {
    for (const round of words[provider]) {
      const { error, attempts } = await outcome(provider, [round]);
      assert.equal(attempts, 1, provider);
      assert.equal(error?.detail.reason, 'context_overflow', `${provider}: ${round.error}`);
      assert.equal(error.retryable, false);
    }
  }
});

test('the window a provider names is read from its words, and a limit per minute is not one', () => {
  assert.equal(windowNamedIn('prompt is too long: 214317 tokens > 200000 maximum'), 200_000);
  assert.equal(windowNamedIn("This model's maximum context length is 8,192 tokens."), 8192);
  assert.equal(windowNamedIn('exceeds the maximum number of tokens allowed (1048576).'), 1_048_576);
  assert.equal(windowNamedIn('the request exceeds the available context size'), undefined);
  assert.equal(isOverflow('Request too large for gpt-4o on tokens per minute (TPM): Limit 30000', ''), false);
  assert.equal(isOverflow('mock failure', 'invalid_request_error'), false);
});
