/**
 * Requests that a provider refuses: later requests leave out the named part, the user gets a line, and the next prompt of the
 * session works.
 */
import assert from 'node:assert/strict';
import { createServer as createNetServer } from 'node:net';
import { after, beforeEach, test } from 'node:test';
import { type ModelBackendOptions, modelBackend } from '../../../src/control/backends/model/model-backend.ts';
import type { HistoryItem } from '../../../src/control/contract/session-log.ts';
import type { ToolOffer } from '../../../src/control/rounds/toolbox.ts';
import type { Provider } from '../../../src/protocol/session-types.ts';
import { type ModelRequest, type ScriptedRound, startModelServer } from '../../../src/testing/model-server.ts';
import { fail, type HandfastError } from '../../../src/wire/errors.ts';
import { imageOf } from '../../support/pictures.ts';
import { choiceOf, environmentsOf, offer, PROVIDERS, providersFor, RecordedTurn } from './harness.ts';

/** Refuses a request with a text, or lets it through. */
let refuse: (request: ModelRequest) => string | ScriptedRound | undefined = () => undefined;
const server = await startModelServer({
  otherwise: (request) => {
    const refusal = refuse(request);
    return typeof refusal === 'string' ? { error: refusal } : (refusal ?? { text: 'hello' });
  },
});
after(() => server[Symbol.asyncDispose]());
beforeEach(() => {
  refuse = () => undefined;
});

function backendOf(
  provider: Provider,
  tools: readonly ToolOffer[] = [offer('bash')],
  more: Partial<ModelBackendOptions> = {},
) {
  const environments = environmentsOf(tools);
  return modelBackend({
    providers: providersFor(server, choiceOf(provider)),
    environments,
    wait: async () => {},
    ...more,
  });
}

const lines = (turn: RecordedTurn): string[] =>
  turn.log.record.messages.filter(({ kind }) => kind === 'system').map(({ text }) => text);

/** Runs a turn; the error where it fails. */
async function outcome(backend: ReturnType<typeof backendOf>, turn: RecordedTurn): Promise<HandfastError | undefined> {
  return backend.run(turn).then(
    () => undefined,
    (error: HandfastError) => error,
  );
}

/** Returns the next turn of the session, with the history that the last one left. */
function next(turn: RecordedTurn, text: string): RecordedTurn {
  const history = turn.log.record.history.map((item) =>
    item.turn === 'turn-1' ? { ...item, turn: `${turn.log.record.history.length}` } : item,
  );
  const following = new RecordedTurn(text, { history });
  following.log.record.messages = turn.log.record.messages;
  return following;
}

const prompt = (text: string, more: object = {}): HistoryItem => ({ role: 'user', turn: 'turn-0', text, ...more });

const toolNamesOf = ({ api, body }: ModelRequest): string[] => {
  const list = { google: body.tools, 'cloud-code': body.request?.tools }[api as 'google'] ?? body.tools;
  type Named = {
    readonly name?: string;
    readonly function?: { readonly name: string };
    readonly functionDeclarations?: Named[];
  };
  return ((list ?? []) as Named[]).flatMap((tool) =>
    (tool.functionDeclarations ?? [tool]).map((each) => each.name ?? (each.function?.name as string)),
  );
};

for (const provider of PROVIDERS) {
  const words: Readonly<Record<Provider, (at: number) => string>> = {
    anthropic: (at) => `tools.${at}.custom.input_schema: JSON schema is invalid`,
    openai: () => "Invalid schema for function 'odd': In context=(), something new",
    openrouter: (at) => `tools[${at}].function.parameters: not taken`,
    compatible: () => 'failed to compile the grammar of function "odd": schema not supported',
    google: (at) => `* GenerateContentRequest.tools[0].function_declarations[${at}].parameters: something new`,
    antigravity: (at) =>
      `Invalid JSON payload received. Unknown name "x" at 'request.tools[0].function_declarations[${at}].parameters'`,
  };

  test(`${provider}: a tool that the provider refuses ends no turn, is named to the user, and is not sent again`, async () => {
    const asked = server.requests.length;
    refuse = (request) => {
      const at = toolNamesOf(request).indexOf('odd');
      return at < 0 ? undefined : words[provider](at);
    };
    const backend = backendOf(provider, [offer('bash'), offer('odd'), offer('zip')]);
    const turn = new RecordedTurn('hi');
    assert.deepEqual(await backend.run(turn), { stopReason: 'end_turn' });
    assert.equal(server.requests.length - asked, 2);
    assert.match(lines(turn).join('\n'), new RegExp(`a tool is left out for ${provider}: odd \\(`));
    await backend.run(next(turn, 'again'));
    assert.equal(server.requests.length - asked, 3);
    assert.deepEqual(
      toolNamesOf(server.requests.at(-1)!).filter((name) => name === 'odd' || name === 'zip'),
      ['zip'],
    );
  });

  test(`${provider}: an image that the provider refuses is left out, and the turn continues`, async () => {
    const asked = server.requests.length;
    refuse = ({ body }) =>
      JSON.stringify(body).includes('iVBORw0')
        ? 'messages.0.content.1.image.source.base64: Could not process image'
        : undefined;
    const turn = new RecordedTurn('look');
    turn.log.record.history = [{ role: 'user', turn: 'turn-1', text: 'look', images: [imageOf('png')] }];
    const backend = backendOf(provider);
    assert.deepEqual(await backend.run(turn), { stopReason: 'end_turn' });
    assert.equal(server.requests.length - asked, 2);
    assert.match(JSON.stringify(server.requests.at(-1)!.body), /An attachment is left out: .*Could not process image/);
    assert.match(
      lines(turn).join('\n'),
      /the attachments of this turn are left out from now on: .*Could not process image/,
    );
    await backend.run(next(turn, 'again'));
    assert.equal(server.requests.length - asked, 3);
  });

  test(`${provider}: a prompt that is refused fails its turn, with the ways out, and is not sent again`, async () => {
    refuse = ({ body }) =>
      JSON.stringify(body).includes('POISON') ? 'messages.2: something is wrong with this' : undefined;
    const history = [prompt('before'), { role: 'assistant', turn: 'turn-0', text: 'yes' } as const];
    const turn = new RecordedTurn('POISON', { history });
    const backend = backendOf(provider);
    const error = await outcome(backend, turn);
    assert.match(
      error!.message,
      /^messages\.2: something is wrong with this; the prompt is left out .*handfast model use ID.*new session$/,
    );
    assert.equal(error!.detail.reason, 'rejected');
    const second = next(turn, 'and now?');
    assert.equal(await outcome(backend, second), undefined);
    const body = JSON.stringify(server.requests.at(-1)!.body);
    assert.match(body, /A prompt and the work on it are left out: /);
    assert.match(body, /before.*yes.*and now\?/);
  });

  test(`${provider}: where something before the prompts is refused, the second one is sent without it`, async () => {
    refuse = ({ body }) =>
      JSON.stringify(body).includes('POISON') ? 'messages.0: something is wrong with this' : undefined;
    const history = [prompt('POISON'), { role: 'assistant', turn: 'turn-0', text: 'yes' } as const];
    const backend = backendOf(provider);
    const first = new RecordedTurn('one', { history });
    assert.equal((await outcome(backend, first))?.code, 'provider_error');
    const second = next(first, 'two');
    assert.equal(await outcome(backend, second), undefined);
    assert.match(lines(second).join('\n'), /the conversation before this prompt is left out from now on/);
    const third = next(second, 'three');
    assert.equal(await outcome(backend, third), undefined);
    assert.match(JSON.stringify(server.requests.at(-1)!.body), /The conversation before this is left out/);
  });

  test(`${provider}: a prompt that a filter refused is not sent again`, async () => {
    refuse = ({ body }) =>
      JSON.stringify(body).includes('POISON')
        ? {
            error: 'Invalid prompt: your prompt was flagged as potentially violating our usage policy',
            error_code: 'invalid_prompt',
          }
        : undefined;
    const turn = new RecordedTurn('POISON');
    const backend = backendOf(provider);
    const error = await outcome(backend, turn);
    assert.equal(error?.detail.reason, 'refused');
    assert.match(error.message, /the prompt is left out/);
    assert.equal(await outcome(backend, next(turn, 'and now?')), undefined);
  });

  test(`${provider}: a prompt that its model answered with a refusal alone is not sent again`, async () => {
    refuse = ({ body }) => (JSON.stringify(body).includes('POISON') ? { finish: 'refusal' } : undefined);
    const turn = new RecordedTurn('POISON');
    const backend = backendOf(provider);
    assert.deepEqual(await backend.run(turn), { stopReason: 'refusal' });
    assert.match(lines(turn).join('\n'), new RegExp(`${provider} refused to answer it; the prompt is left out`));
    assert.deepEqual(await backend.run(next(turn, 'and now?')), { stopReason: 'end_turn' });
  });

  test(`${provider}: a model without tools, and one that sees no images, answers without them`, async () => {
    refuse = ({ api, body }) =>
      toolNamesOf({ api, body } as ModelRequest).length > 0 ? 'this model does not support tools' : undefined;
    const turn = new RecordedTurn('hi');
    assert.deepEqual(await backendOf(provider).run(turn), { stopReason: 'end_turn' });
    assert.match(lines(turn).join('\n'), /left out for/);
    refuse = ({ body }) =>
      JSON.stringify(body).includes('iVBORw0') ? 'the model does not support image input' : undefined;
    const seeing = new RecordedTurn('look', { history: [prompt('see', { images: [imageOf('png')] })] });
    assert.deepEqual(await backendOf(provider).run(seeing), { stopReason: 'end_turn' });
  });
}

test('after a restart a refused tool costs one request within the turn, and the turn works', async () => {
  refuse = (request) => {
    const at = toolNamesOf(request).indexOf('odd');
    return at < 0 ? undefined : `tools[${at}].function.parameters: not taken`;
  };
  const tools = [offer('bash'), offer('odd')];
  const first = new RecordedTurn('hi');
  await backendOf('compatible', tools).run(first);
  const asked = server.requests.length;
  const second = next(first, 'again');
  assert.deepEqual(await backendOf('compatible', tools).run(second), { stopReason: 'end_turn' });
  assert.equal(server.requests.length - asked, 2);
});

/** Returns tools of MCP servers, each of which the provider names when it refuses it. */
const foreign = (server: string, count: number): ToolOffer[] =>
  Array.from({ length: count }, (_, at) => ({ ...offer(`${server}__t${at}`), kind: 'mcp', tags: ['mcp', server] }));

test('a server whose tools are refused one by one is left out with the third, and other tools stay', async () => {
  refuse = (request) => {
    const bad = toolNamesOf(request).find((name) => name.startsWith('bad'));
    return bad && `Invalid schema for function '${bad}': something new`;
  };
  const asked = server.requests.length;
  const turn = new RecordedTurn('hi');
  const backend = backendOf('compatible', [offer('bash'), ...foreign('bad', 20), ...foreign('good', 2)]);
  assert.deepEqual(await backend.run(turn), { stopReason: 'end_turn' });
  assert.equal(server.requests.length - asked, 4);
  assert.deepEqual(toolNamesOf(server.requests.at(-1)!).sort(), [
    'ask_user',
    'bash',
    'good__t0',
    'good__t1',
    'update_plan',
  ]);
  // Many servers, of which each has such tools.
  const many = ['bad1', 'bad2', 'bad3', 'bad4', 'bad5'].flatMap((name) => foreign(name, 9));
  assert.deepEqual(await backendOf('compatible', many).run(new RecordedTurn('hi')), { stopReason: 'end_turn' });
});

test('a refusal about definitions that names none costs the tools of strangers, then all', async () => {
  for (const words of [
    'Failed to initialize samplers: failed to parse grammar',
    'JSON schema conversion failed',
    'Unable to compile the tools of this request',
  ]) {
    refuse = (request) => (toolNamesOf(request).some((name) => name.startsWith('bad')) ? words : undefined);
    const turn = new RecordedTurn('hi');
    assert.deepEqual(await backendOf('compatible', [offer('bash'), ...foreign('bad', 2)]).run(turn), {
      stopReason: 'end_turn',
    });
    assert.ok(toolNamesOf(server.requests.at(-1)!).includes('bash'), words);
    refuse = (request) => (toolNamesOf(request).length > 0 ? words : undefined);
    assert.deepEqual(await backendOf('compatible', foreign('bad', 2)).run(new RecordedTurn('hi')), {
      stopReason: 'end_turn',
    });
  }
  const vllm = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set';
  refuse = (request) => (toolNamesOf(request).length > 0 ? vllm : undefined);
  assert.deepEqual(await backendOf('compatible').run(new RecordedTurn('hi')), { stopReason: 'end_turn' });
});

test('where no refusal names the fault, the second prompt is tried without possible parts, the least loss first', async () => {
  const earlier = [prompt('before'), { role: 'assistant', turn: 'turn-0', text: 'yes' } as const];
  const sequence = async (isRefused: (request: ModelRequest) => boolean, tools: readonly ToolOffer[]) => {
    refuse = (request) => (isRefused(request) ? 'Bad Request' : undefined);
    const backend = backendOf('compatible', tools);
    const first = new RecordedTurn('one', { history: earlier });
    assert.equal((await outcome(backend, first))?.code, 'provider_error');
    const second = next(first, 'two');
    assert.equal(await outcome(backend, second), undefined);
    const { body } = server.requests.at(-1)!;
    return { names: toolNamesOf(server.requests.at(-1)!), hasEarlier: /"before"/.test(JSON.stringify(body)), second };
  };
  const tools = [offer('bash'), ...foreign('bad', 2)];
  const isBad = (name: string) => name.startsWith('bad');
  const one = await sequence((request) => toolNamesOf(request).some(isBad), tools);
  assert.deepEqual([one.names.some(isBad), one.names.includes('bash'), one.hasEarlier], [false, true, true]);
  assert.match(
    lines(one.second).join('\n'),
    /bad__t0 \(perhaps the reason why compatible refused it \(Bad Request\)\)/,
  );
  // The part that was left out in vain is back.
  const two = await sequence(({ body }) => JSON.stringify(body).includes('"before"'), tools);
  assert.deepEqual([two.names.some(isBad), two.hasEarlier], [true, false]);
  const three = await sequence((request) => toolNamesOf(request).length > 0, [offer('bash')]);
  assert.deepEqual(three.names, []);
});

test('the error of a refusal names the item, also where a server has a form of its own', async () => {
  for (const [round, words] of [
    [
      { status: 422, body: '{"detail":[{"loc":["body","messages",3],"msg":"str expected"}]}' },
      /^body\.messages\.3: str expected/,
    ],
    [{ status: 400, body: 'messages must not be empty' }, /^messages must not be empty; the prompt is left out/],
    [{ status: 400, body: '"not so"' }, /^not so; /],
    [{ status: 400, body: '<html>nginx</html>' }, /^Bad Request; /],
    [
      { status: 500, body: '{"error":{"code":500,"message":"Value is not callable: null at row 58, column 111"}}' },
      /^Value is not/,
    ],
  ] as const) {
    const asked = server.requests.length;
    refuse = ({ body }) => (JSON.stringify(body).includes('POISON') ? { error: 'x', ...round } : undefined);
    const turn = new RecordedTurn('POISON');
    const backend = backendOf('compatible');
    const error = await outcome(backend, turn);
    assert.match(error!.message, words);
    assert.equal(server.requests.length - asked, 1, round.body);
    assert.equal(await outcome(backend, next(turn, 'and now?')), undefined);
  }
});

test('of more tools than a provider takes, those of strangers are left out', async () => {
  refuse = (request) =>
    toolNamesOf(request).length > 4
      ? "Invalid 'tools': array too long. Expected an array with maximum length 4, but got an array with length 6 instead."
      : undefined;
  const own = ['bash', 'zip'].map(offer);
  const foreign = ['a1', 'a2'].map((name) => ({ ...offer(name), kind: 'mcp' }));
  const turn = new RecordedTurn('hi');
  assert.deepEqual(await backendOf('compatible', [...own, ...foreign]).run(turn), { stopReason: 'end_turn' });
  // Beside these, each session has `ask_user` and `update_plan`.
  assert.deepEqual(toolNamesOf(server.requests.at(-1)!).sort(), ['ask_user', 'bash', 'update_plan', 'zip']);
});

test('data that a provider wanted back and refuses now is left out', async () => {
  refuse = ({ body }) =>
    JSON.stringify(body).includes('sealed-old')
      ? 'The encrypted content for item rs_1 could not be verified.'
      : undefined;
  const providerData = {
    provider: 'openai',
    model: choiceOf('openai').model,
    parts: [
      {
        kind: 'reasoning',
        start: 0,
        end: 1,
        fields: { openai: { itemId: 'rs_1', reasoningEncryptedContent: 'sealed-old' } },
      },
      { kind: 'text', start: 0, end: 2 },
    ],
  };
  const history: HistoryItem[] = [
    prompt('a'),
    { role: 'assistant', turn: 'turn-0', text: 'ok', reasoning: 'r', providerData },
  ];
  const turn = new RecordedTurn('go on', { history });
  assert.deepEqual(await backendOf('openai').run(turn), { stopReason: 'end_turn' });
  assert.match(lines(turn).join('\n'), /the reasoning of earlier answers is left out/);
});

test('a refused setting, model or key leaves nothing out', async () => {
  for (const [error, more] of [
    ["Unsupported parameter: 'max_tokens' is not supported with this model.", {}],
    ['The model `x` does not exist or you do not have access to it.', { status: 404 }],
    ['Your organization must be verified to stream this model.', {}],
    ['Incorrect API key provided', { status: 401 }],
    ['prompt is too long: 210000 tokens > 200000 maximum', {}],
  ] as const) {
    refuse = () => ({ error, ...more });
    const turn = new RecordedTurn('hi');
    const failed = await outcome(backendOf('openai'), turn);
    assert.doesNotMatch(failed!.message, /left out/, error);
    assert.equal(turn.log.record.history.length, 1, error);
  }
});

test('an address that accepts no connection, and one that does not exist, is named at once and tried three times', async () => {
  const free = createNetServer();
  await new Promise<void>((resolve) => free.listen(0, '127.0.0.1', resolve));
  const { port } = free.address() as { port: number };
  await new Promise((resolve) => free.close(resolve));
  for (const [baseUrl, code] of [
    [`http://127.0.0.1:${port}/v1?key=secret`, 'ECONNREFUSED'],
    [`http://localhost:${port}/v1`, 'ECONNREFUSED'],
    ['http://no-such-host.invalid/v1', 'ENOTFOUND|EAI_AGAIN'],
  ] as const) {
    for (const provider of PROVIDERS) {
      const waits: number[] = [];
      const providers = {
        ...providersFor(server, choiceOf(provider)),
        access: async () => ({ baseUrl, token: 'k', kind: 'api_key' as const, headers: {} }),
      };
      const turn = new RecordedTurn('hi');
      const backend = backendOf(provider, [], { providers, wait: async (ms) => void waits.push(ms) });
      const error = await outcome(backend, turn);
      const origin = baseUrl.slice(0, baseUrl.indexOf('/v1'));
      assert.equal(waits.length, 2, `${provider} ${baseUrl}`);
      const named = new RegExp(`no connection to ${origin} \\((?:${code}): `);
      assert.match(error!.message, named);
      assert.doesNotMatch(error!.message, /secret/);
      assert.match(
        String((turn.all('status').find((each) => typeof each === 'object') as { label: string }).label),
        named,
      );
    }
  }
});

test('an address that no request can be made to is tried once', async () => {
  const access = async () => ({ baseUrl: 'http://127.0.0.1:9/v1', token: 'k', kind: 'api_key' as const, headers: {} });
  const turn = new RecordedTurn('hi');
  const providers = { ...providersFor(server, choiceOf('compatible')), access };
  const error = await outcome(backendOf('compatible', [], { providers }), turn);
  assert.match(error!.message, /no connection to http:\/\/127\.0\.0\.1:9 \(.*bad port/);
  assert.deepEqual(
    turn.all('status').filter((each) => typeof each === 'object'),
    [],
  );
});

test('an error that comes after the first words leaves nothing out', async () => {
  refuse = () => ({ text: 'Half', error: 'messages.0: Could not process image', breaks: 'error' });
  const turn = new RecordedTurn('look');
  turn.log.record.history = [{ role: 'user', turn: 'turn-1', text: 'look', images: [imageOf('png')] }];
  await assert.rejects(
    backendOf('openai').run(turn),
    (error: HandfastError) => error.code === fail('provider_error', '').code,
  );
  assert.deepEqual(lines(turn), []);
  assert.match(JSON.stringify(server.requests.at(-1)!.body), /iVBORw0/);
});
