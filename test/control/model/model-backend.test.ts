/** Whole turns of the model backend: the real round loop and the real AI SDK against a scripted provider. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { registerHooks } from 'node:module';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { type ModelBackendOptions, modelBackend } from '../../../src/control/backends/model/model-backend.ts';
import type { ModelChoice } from '../../../src/control/contract/providers.ts';
import type { HistoryItem } from '../../../src/control/contract/session-log.ts';
import { type ModelServer, type ScriptedRound, startModelServer } from '../../../src/testing/model-server.ts';
import { within } from '../../contract/recorder.ts';
import { choiceOf, environmentsOf, KEY, offer, PROVIDERS, providersFor, RecordedTurn } from './harness.ts';

let server: ModelServer;
before(async () => {
  server = await startModelServer();
});
after(() => server[Symbol.asyncDispose]());

/** Makes a backend on the scripted server. */
function backendOf(
  choice: ModelChoice | undefined = choiceOf('openai'),
  changes: Partial<ModelBackendOptions> & { results?: Record<string, unknown> } = {},
) {
  const { results, ...options } = changes;
  const environments = environmentsOf([offer('bash')], results);
  const backend = modelBackend({
    providers: providersFor(server, choice),
    environments,
    wait: async () => {},
    ...options,
  });
  return { backend, environments };
}

const call = (id: string): ScriptedRound['tool_calls'] => [{ id, name: 'bash', input: { command: 'ls' } }];
const words = (count: number): string => Array.from({ length: count }, () => 'word').join(' ');
const longHistory: readonly HistoryItem[] = [
  { role: 'user', turn: 'turn-0', text: words(1_000) },
  { role: 'assistant', turn: 'turn-0', text: words(1_000) },
];

test('a turn with a tool: what is reported, what is stored, what the second request holds', async () => {
  server.play([
    { thought: 'Look first.', text: 'I look. ', tool_calls: call('c1'), usage: { input: 50, output: 10 } },
    { text: 'Done.', usage: { input: 80, output: 5 } },
  ]);
  const { backend } = backendOf(undefined, {
    results: { bash: { output: 'FILES' } },
    instructionsFor: () => '# Skill: tidy',
  });
  const turn = new RecordedTurn('what is here');
  assert.deepEqual(await backend.run(turn), { stopReason: 'end_turn' });
  assert.deepEqual(
    turn.told.map(([what]) => what),
    ['thought', 'answer', 'usage', 'started', 'done', 'results', 'answer', 'usage'],
  );
  assert.deepEqual(
    turn.log.record.history.map(({ role }) => role),
    ['user', 'assistant', 'tool', 'assistant'],
  );
  const [first, second] = server.requests.slice(-2);
  assert.match(JSON.stringify(first?.body.input[0]), /\/project.*# Skill: tidy/);
  assert.match(JSON.stringify(second?.body.input), /FILES/);
  assert.match(JSON.stringify(second?.body.input), /"encrypted_content":"sealed-/);
});

test('weakness 19: a thousand deltas are sent a thousand times, each by itself and none again', async () => {
  const deltas = Array.from({ length: 1000 }, (_, at) => `${at} `);
  server.play([{ thought: ['**Plan', 'ning**\n', 'more'], text: deltas }]);
  const turn = new RecordedTurn('count');
  await backendOf(choiceOf('anthropic')).backend.run(turn);
  assert.deepEqual(turn.all('answer'), deltas);
  assert.deepEqual(turn.all('thought'), ['**Plan', 'ning**\n', 'more']);
});

test('weakness 20: a wait for capacity changes the status line, with the numbers beside it', async () => {
  server.play([{ error: 'busy', status: 529 }, { text: 'ok' }]);
  const turn = new RecordedTurn('hi');
  await backendOf(choiceOf('anthropic')).backend.run(turn);
  assert.deepEqual(turn.all('status'), [
    {
      label: 'capacity unavailable; retrying (2/8)...',
      retry: { attempt: 2, max_attempts: 8, delay_ms: 1250, reason: 'busy' },
    },
  ]);
});

test('after each round the context is estimated, from the provider count once there is one', async () => {
  server.play([
    { tool_calls: call('c1'), usage: { input: 5_000, output: 100, reasoning: 40 } },
    { text: 'x', usage: { input: 6_000, output: 10 } },
  ]);
  const turn = new RecordedTurn('hi');
  await backendOf().backend.run(turn);
  const estimates = turn.log.of('session.context.estimate');
  assert.deepEqual(
    estimates.map(({ source }) => source),
    ['history', 'provider', 'provider'],
  );
  assert.ok(estimates[1]!.total_tokens_estimate > 5_060, 'the result of the call is added to what was counted');
  assert.equal(estimates[2]!.total_tokens_estimate, 6_010);
  assert.equal(estimates[2]!.context_window_tokens, 200_000);
  assert.equal(estimates[2]!.provider, 'openai');
});

test('without a model nothing is sent: the preflight says what to do, and so does a compression', async () => {
  const turn = new RecordedTurn('hi');
  const environments = environmentsOf([]);
  const backend = modelBackend({ providers: providersFor(server, undefined), environments });
  assert.throws(() => backend.preflight({}), {
    code: 'not_configured',
    message: 'select a model from an enabled provider first',
  });
  await assert.rejects(backend.compact!(turn, 'manual'), {
    code: 'not_configured',
    message: 'select a model first before running /compress',
  });
  assert.equal(backend.modelOf({}), null);
  const used = { model: 'gemini-2.5-pro', provider: 'google', thinking: 'HIGH' };
  assert.deepEqual(backendOf(choiceOf('google')).backend.modelOf({}), used);
});

test('an interrupt ends a turn whose model is still being waited for', async () => {
  const asked = server.requests.length;
  server.play([{ breaks: 'silence' }]);
  const turn = new RecordedTurn('hi');
  const ended = backendOf().backend.run(turn);
  const request = await server.request(asked);
  turn.interrupt();
  assert.deepEqual(await ended, { stopReason: 'interrupted' });
  await request.abandoned;
});

test('a failed turn keeps what was said until then', async () => {
  server.play([{ text: 'Half of it', breaks: 'end' }]);
  const turn = new RecordedTurn('hi');
  await assert.rejects(backendOf().backend.run(turn), { code: 'provider_error' });
  assert.deepEqual(turn.log.record.history.at(-1), { role: 'assistant', turn: 'turn-1', text: 'Half of it' });
});

for (const provider of PROVIDERS) {
  test(`${provider}: an answer that is cut off is continued: one text, no word of it twice`, async () => {
    const asked = server.requests.length;
    server.play([{ text: 'Half a', breaks: 'reset' }, { text: ' sentence', breaks: 'end' }, { text: ', whole.' }]);
    const turn = new RecordedTurn('hi');
    assert.deepEqual(await backendOf(choiceOf(provider)).backend.run(turn), { stopReason: 'end_turn' });
    assert.equal(turn.all('answer').join(''), 'Half a sentence, whole.');
    assert.deepEqual(
      turn.log.record.history.map(({ role, ...item }) => [role, 'text' in item ? item.text : '']),
      [
        ['user', 'hi'],
        ['assistant', 'Half a sentence, whole.'],
      ],
    );
    const last = JSON.stringify((await server.request(asked + 2)).body);
    assert.ok(last.includes('Half a sentence') && last.includes('Continue it exactly where it stops'), last);
    assert.deepEqual(
      turn
        .all('status')
        .filter((shown) => typeof shown === 'object')
        .map((shown) => (shown as { label: string }).label),
      ['the answer was cut off; continuing (1/3)...', 'the answer was cut off; continuing (2/3)...'],
    );
  });
}

test('a provider that keeps cutting, and one that refuses to continue, fail the turn with what there is', async () => {
  const cut = (text: string) => ({ text, breaks: 'end' as const });
  server.play([cut('a'), cut('b'), cut('c'), cut('d')]);
  const turn = new RecordedTurn('hi');
  const ended = { code: 'provider_error', message: "the provider's answer ended early" };
  await assert.rejects(backendOf().backend.run(turn), ended);
  assert.deepEqual(turn.log.record.history.at(-1), { role: 'assistant', turn: 'turn-1', text: 'abcd' });
  server.play([cut('Half'), { error: 'messages must alternate', status: 400 }]);
  const refused = new RecordedTurn('hi');
  await assert.rejects(backendOf().backend.run(refused), ended);
  assert.deepEqual(refused.log.record.history.at(-1), { role: 'assistant', turn: 'turn-1', text: 'Half' });
});

test('a stream that stalls before its first word is asked for again', async () => {
  server.play([{ breaks: 'stall' }, { text: 'fine' }]);
  const turn = new RecordedTurn('hi');
  await backendOf(choiceOf('anthropic'), { limits: { idleTimeoutMs: 300 } }).backend.run(turn);
  assert.equal(turn.all('answer').join(''), 'fine');
  const retries = turn.all('status').filter((shown) => typeof shown === 'object') as { retry: { reason: string } }[];
  assert.deepEqual(
    retries.map(({ retry }) => retry.reason),
    ['the provider sent nothing for 0.3 s'],
  );
});

test('a stream that is kept alive by comments has not stalled', async () => {
  let asked = 0;
  const alive = createServer((_request, response) => {
    asked += 1;
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    let comments = 0;
    const timer = setInterval(() => {
      if (response.destroyed) return clearInterval(timer);
      comments += 1;
      if (comments < 12) return response.write(': still working\n\n');
      clearInterval(timer);
      const chunk = { id: 'c', object: 'chat.completion.chunk', created: 0, model: 'm' };
      const said = { ...chunk, choices: [{ index: 0, delta: { content: 'patient' }, finish_reason: 'stop' }] };
      return response.end(`data: ${JSON.stringify(said)}\n\ndata: [DONE]\n\n`);
    }, 100);
  });
  await new Promise<void>((resolve) => alive.listen(0, '127.0.0.1', resolve));
  const { port } = alive.address() as AddressInfo;
  const providers = providersFor(server, choiceOf('compatible'), { baseUrl: `http://127.0.0.1:${port}/v1` });
  const turn = new RecordedTurn('hi');
  await backendOf(choiceOf('compatible'), { providers, limits: { idleTimeoutMs: 700 } }).backend.run(turn);
  alive.close();
  assert.deepEqual([turn.all('answer').join(''), asked], ['patient', 1]);
});

test('a compaction asks the model itself, without tools and with as little thinking as it can', async () => {
  server.play([{ text: 'a summary' }]);
  const { backend } = backendOf();
  const turn = new RecordedTurn('hi', { history: longHistory });
  const { compressed, estimated_tokens_before, estimated_tokens_after } = await backend.compact!(turn, 'manual');
  assert.equal(compressed, true);
  assert.ok(estimated_tokens_after < estimated_tokens_before / 2);
  const { body } = server.requests.at(-1)!;
  assert.equal(body.tools, undefined);
  assert.deepEqual(body.reasoning, { effort: 'none' });
  assert.equal(typeof body.max_output_tokens, 'number');
  assert.equal(turn.log.of('session.context.estimate').at(-1)?.source, 'compaction');
});

test('a summary that takes too long is given up, and the history stays', async () => {
  server.play([{ breaks: 'silence' }]);
  const { backend } = backendOf(undefined, { summaryTimeoutMs: 1000 });
  const turn = new RecordedTurn('hi', { history: longHistory });
  await assert.rejects(backend.compact!(turn, 'manual'), {
    code: 'provider_error',
    message: 'the summary took too long',
  });
  assert.equal(turn.log.of('compaction.failed').length, 1);
  assert.equal(turn.log.record.history.length, 3);
});

test('a turn whose rounds fill the context is compressed in the middle and continues', async () => {
  server.play([
    { tool_calls: call('c1'), usage: { input: 3_000, output: 10 } },
    { tool_calls: call('c2'), usage: { input: 9_000, output: 10 } },
    { text: 'SUMMED UP' },
    { text: 'Done.', usage: { input: 2_000, output: 5 } },
  ]);
  const { backend } = backendOf(choiceOf('openai', { window: 10_000 }), { results: { bash: words(1_500) } });
  const turn = new RecordedTurn('fill it', { history: longHistory });
  assert.deepEqual(await backend.run(turn), { stopReason: 'end_turn' });
  assert.equal(turn.log.of('compaction.completed').length, 1);
  assert.deepEqual(turn.all('status'), ['compressing context...', 'thinking...']);
  const last = JSON.stringify(server.requests.at(-1)?.body.input);
  assert.match(last, /SUMMED UP/);
  assert.match(last, /fill it/);
  assert.match(last, /"call_id":"c2"/);
  assert.doesNotMatch(last, /"call_id":"c1"/);
});

test('a request that does not fit makes the next compaction happen, against our own count, with the window it named', async () => {
  server.play([{ error: 'prompt is too long: 9000 tokens > 8000 maximum' }]);
  const { backend } = backendOf(choiceOf('anthropic'));
  const turn = new RecordedTurn('hi', { history: longHistory });
  await assert.rejects(backend.run(turn), (error: { code: string; detail: Record<string, unknown> }) => {
    assert.equal(error.code, 'provider_error');
    assert.equal(error.detail.reason, 'context_overflow');
    return true;
  });
  server.play([{ text: 'a summary' }]);
  const result = await backend.compact!(turn, 'auto');
  assert.equal(result.compressed, true);
  assert.equal(result.model_context_window, 8_000);
  assert.equal(turn.log.record.history.at(-1)?.role, 'user', 'the prompt of the running turn stays');
  assert.equal((await backend.compact!(turn, 'auto')).compressed, false, 'once');
});

test('what debugging shows of a request has no credential in it and no picture', async () => {
  server.play([{ text: 'x' }]);
  const image = {
    path: 'a.png',
    mimeType: 'image/png',
    dataUrl: 'data:image/png;base64,iVBORw0KGgoSECRETPICTURE',
    byteSize: 18,
  };
  const turn = new RecordedTurn('hi', { history: [{ role: 'user', turn: 'turn-0', text: 'see', images: [image] }] });
  await backendOf().backend.run(turn);
  const shown = JSON.stringify(turn.debugged);
  assert.match(shown, /"base64_length":24/);
  assert.doesNotMatch(shown, /SECRETPICTURE/);
  assert.doesNotMatch(shown, new RegExp(KEY));
});

test('a session that is closed is forgotten, and its environment let go', () => {
  const { backend, environments } = backendOf();
  backend.release!('session-1');
  assert.deepEqual(environments.released, ['session-1']);
});

test('a provider whose package is not installed is an error that says what to type', async () => {
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (specifier === '@ai-sdk/google') {
        throw Object.assign(new Error(`Cannot find package '${specifier}'`), { code: 'ERR_MODULE_NOT_FOUND' });
      }
      return next(specifier, context);
    },
  });
  try {
    await assert.rejects(backendOf(choiceOf('google')).backend.run(new RecordedTurn('hi')), {
      code: 'not_configured',
      message:
        'models of google need the package @ai-sdk/google, which is not installed; run: npm install @ai-sdk/google@4',
    });
  } finally {
    hooks.deregister();
  }
});

test('a provider package of another major version is refused by name', async () => {
  const older = 'export const createGoogle = () => ({ languageModel: () => ({ specificationVersion: "v3" }) });';
  const hooks = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === '@ai-sdk/google'
        ? { url: `data:text/javascript,${encodeURIComponent(older)}`, shortCircuit: true }
        : next(specifier, context),
  });
  try {
    await assert.rejects(backendOf(choiceOf('google')).backend.run(new RecordedTurn('hi')), {
      code: 'not_configured',
      message:
        'models of google need the package @ai-sdk/google, which is installed in another version; run: npm install @ai-sdk/google@4',
    });
  } finally {
    hooks.deregister();
  }
});

test('text is streamed while the provider has not sent any more', async () => {
  server.play([{ text: ['first', ' second'], breaks: 'stall' }]);
  const { backend } = backendOf(choiceOf('compatible'));
  const turn = new RecordedTurn('hi');
  const heard = new Promise<void>((resolve) => {
    turn.onTold = () => {
      if (turn.all('answer').length === 2) resolve();
    };
  });
  const ended = backend.run(turn);
  await within(heard, 'the words');
  turn.interrupt();
  assert.deepEqual(await ended, { stopReason: 'interrupted' });
  assert.deepEqual(turn.all('answer'), ['first', ' second']);
});
