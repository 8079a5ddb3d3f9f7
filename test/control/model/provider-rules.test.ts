/**
 * Any history that a backend can produce, as a request of each provider's SDK: readers of the providers' rules take every one.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { leftOutItem } from '../../../src/control/backends/model/left-out.ts';
import type { HistoryItem } from '../../../src/control/contract/session-log.ts';
import type { ToolOffer } from '../../../src/control/rounds/toolbox.ts';
import type { Image, Provider, Thinking } from '../../../src/protocol/session-types.ts';
import { type ModelServer, startModelServer } from '../../../src/testing/model-server.ts';
import { imageOf, PICTURES } from '../../support/pictures.ts';
import fc from '../../support/properties.ts';
import { anthropicRefusal, chatRefusal, googleRefusal, responsesRefusal } from '../../support/provider-rules.ts';
import { ask, choiceOf, MODELS, offer, PROVIDERS, partsOf, user } from './harness.ts';

let server: ModelServer;
before(async () => {
  server = await startModelServer({ otherwise: () => ({ text: 'x' }) });
});
after(() => server[Symbol.asyncDispose]());

const READERS: Readonly<Record<Provider, (body: never) => string | undefined>> = {
  anthropic: anthropicRefusal,
  openai: responsesRefusal,
  openrouter: chatRefusal,
  compatible: chatRefusal,
  google: googleRefusal,
  antigravity: (({ request }: { request: never }) => googleRefusal(request)) as never,
};

/** Sends a history; returns the request and the reason why its provider would refuse it. */
async function sent(
  provider: Provider,
  history: readonly HistoryItem[],
  tools: readonly ToolOffer[] = [offer('bash')],
  thinking: Thinking = 'HIGH',
) {
  await partsOf(ask(server, choiceOf(provider, { thinking }), { history, tools }));
  const { body } = server.requests.at(-1)!;
  return { body, refusal: READERS[provider](body as never) };
}

const texts = fc.constantFrom(
  '',
  ' ',
  '\n\n',
  '\u00a0',
  'hello',
  'half \ud83d',
  '\udc00',
  'tail  \n',
  '## Conversation Summary\n\nx',
);
const callIds = fc.constantFrom('a', 'b', 'c.1', 'a_2', '', '\ud83d');
const turns = fc.constantFrom('turn-0', 'turn-1');
const inputs = fc.constantFrom<Readonly<Record<string, unknown>>>(
  {},
  { command: 'ls' },
  { command: '\ud83d', '\udc00': [{ a: '\ud83d' }] },
);
const pictures = fc.constantFrom(...PICTURES);
const results = fc.constantFrom<unknown>('', ' \n', 'fine', { output: '' }, null, [], 'half \udc00', { '\ud83d': 1 });

/** Generates data that a provider wants back, in any order and completeness, also of an answer that broke off. */
function dataOf(
  provider: Provider,
  text: string,
  reasoning: string,
  calls: number,
): fc.Arbitrary<Extract<HistoryItem, { role: 'assistant' }>['providerData']> {
  const signed = fc.constantFrom<object | undefined>(
    undefined,
    { anthropic: { signature: 's' } },
    { anthropic: { redactedData: 'r' } },
    { openai: { itemId: 'rs_1', reasoningEncryptedContent: 'e' } },
    { openai: { itemId: 'rs_2' } },
    { openai: { itemId: 'msg_1', phase: 'final_answer' } },
    { google: { thoughtSignature: 't' } },
  );
  const part = fc.oneof(
    fc.record({
      kind: fc.constant('reasoning'),
      start: fc.constant(0),
      end: fc.constantFrom(0, reasoning.length),
      fields: signed,
    }),
    fc.record({
      kind: fc.constant('text'),
      start: fc.constantFrom(0, text.length),
      end: fc.constant(text.length),
      fields: signed,
    }),
    ...(calls > 0 ? [fc.record({ kind: fc.constant('call'), fields: signed })] : []),
  );
  return fc.array(part, { maxLength: 5 }).map((parts) => ({ provider, model: MODELS[provider], parts })) as never;
}

const itemsFor = (provider: Provider): fc.Arbitrary<HistoryItem> =>
  fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        role: fc.constant('user' as const),
        turn: turns,
        text: texts,
        images: fc.array(pictures, { maxLength: 2 }),
      }),
    },
    {
      weight: 4,
      arbitrary: fc
        .record({
          turn: turns,
          text: texts,
          reasoning: texts,
          calls: fc.array(
            fc.record({ callId: callIds, name: fc.constantFrom('bash', 'gone.tool', ''), input: inputs }),
            { maxLength: 2 },
          ),
        })
        .chain(({ turn, text, reasoning, calls }) =>
          fc.option(dataOf(provider, text, reasoning, calls.length), { nil: undefined }).map(
            (providerData): HistoryItem => ({
              role: 'assistant',
              turn,
              text,
              reasoning,
              ...(calls.length > 0 && { calls }),
              ...(providerData && { providerData }),
            }),
          ),
        ),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        role: fc.constant('tool' as const),
        turn: turns,
        callId: callIds,
        name: fc.constant('bash'),
        ok: fc.boolean(),
        result: results,
        error: fc.constantFrom('', 'no'),
        images: fc.array(pictures, { maxLength: 2 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom('turn', 'earlier', 'attachments', 'all_attachments', 'provider_data')
        .map((part) => leftOutItem('turn-1', part as never, 'refused')),
    },
  );

const offers = fc.constantFrom([offer('bash')], [offer('bash')], []);
const levels = fc.constantFrom<Thinking>('HIGH', 'OFF');

for (const provider of PROVIDERS) {
  test(`${provider}: any history at all becomes a request that its provider takes`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(itemsFor(provider), { maxLength: 8 }),
        levels,
        offers,
        async (items, thinking, tools) => {
          // A turn begins with its prompt; its next rounds begin with results.
          const [before, last] = items.slice(-2);
          const works = before?.role === 'assistant' && last?.role === 'tool';
          const prompts: HistoryItem[] = works ? [] : [{ role: 'user', turn: 'turn-2', text: 'go on' }];
          const history = [{ role: 'user', turn: 'turn-0', text: 'go' } as const, ...items, ...prompts];
          const { refusal, body } = await sent(provider, history, tools, thinking);
          assert.equal(refusal, undefined, `${refusal} ${JSON.stringify(body).slice(0, 2_000)}`);
        },
      ),
      { numRuns: 60 },
    );
  });
}

const signed = (text: string): HistoryItem => ({
  role: 'assistant',
  turn: 'turn-1',
  text: '',
  reasoning: text,
  calls: [{ callId: 'c1', name: 'bash', input: {} }],
  providerData: {
    provider: 'anthropic',
    model: MODELS.anthropic,
    parts: [
      { kind: 'reasoning', start: 0, end: text.length, fields: { anthropic: { signature: `of ${text}` } } },
      { kind: 'reasoning', start: 0, end: 0, fields: { anthropic: { redactedData: 'hidden' } } },
      { kind: 'call' },
    ],
  },
});
const fine: HistoryItem = { role: 'tool', turn: 'turn-1', callId: 'c1', name: 'bash', ok: true, result: 'fine' };

test('thinking stands before the calls it led to, as it was, also when the history was stored in between', async () => {
  const text = ' first\n\n  second \n';
  const history = [user('go'), signed(text), fine];
  for (const each of [history, JSON.parse(JSON.stringify(history)), [...history, user('and now?')]]) {
    const { body, refusal } = await sent('anthropic', each);
    assert.equal(refusal, undefined);
    assert.equal(body.thinking.type, 'enabled');
    assert.deepEqual(body.messages[1].content.slice(0, 2), [
      { type: 'thinking', thinking: text, signature: `of ${text}` },
      { type: 'redacted_thinking', data: 'hidden' },
    ]);
    assert.equal(body.messages[1].content[2].type, 'tool_use');
  }
});

test('work that began without thinking is continued without', async () => {
  const { providerData: _lost, ...unsigned } = signed('hm') as Extract<HistoryItem, { role: 'assistant' }>;
  const half: HistoryItem = { ...unsigned, text: 'half' };
  for (const history of [
    [user('go'), unsigned, fine],
    [user('go'), half, fine],
    [user('go'), unsigned, fine, { ...signed('more'), calls: [{ callId: 'c2', name: 'bash', input: {} }] }],
    [user('go'), unsigned, fine, user('and now?')],
  ] as const) {
    const { body, refusal } = await sent('anthropic', history);
    assert.equal(refusal, undefined);
    assert.notEqual(body.thinking?.type, 'enabled');
    assert.doesNotMatch(JSON.stringify(body.messages), /thinking/);
  }
  // A new prompt after an answer is thought about again.
  const done: HistoryItem = { role: 'assistant', turn: 'turn-1', text: 'done' };
  const { body } = await sent('anthropic', [user('go'), unsigned, fine, done, user('next')]);
  assert.equal(body.thinking.type, 'enabled');
  const routed = await sent('openrouter', [user('go'), unsigned, fine]);
  assert.deepEqual(routed.body.reasoning, { effort: 'none' });
});

const prompt = (images: readonly Image[], turn = 'turn-1'): HistoryItem => ({
  role: 'user',
  turn,
  text: 'look',
  images,
});

test('an image goes out with the type of its bytes, also under another label', async () => {
  const jpeg = { ...imageOf('jpeg'), mimeType: 'image/png' };
  for (const provider of PROVIDERS) {
    const { body, refusal } = await sent(provider, [prompt([jpeg])]);
    assert.equal(refusal, undefined, provider);
    assert.match(JSON.stringify(body), /image\/jpeg/, provider);
    assert.doesNotMatch(JSON.stringify(body), /image\/png/, provider);
  }
});

test('an image over a limit of the provider is left out with the reason', async () => {
  for (const [provider, image, reason] of [
    ['anthropic', imageOf('png', { bytes: 4.5 * 1024 * 1024 }), /MiB in base64; anthropic takes 5/],
    ['anthropic', imageOf('png', { width: 8_001 }), /8001 pixels on a side; anthropic takes 8000/],
    ['google', imageOf('gif'), /google is given no image\/gif/],
    ['openai', imageOf('bmp'), /openai is given no image\/bmp/],
    ['compatible', imageOf('html'), /is given no text\/html/],
    ['openai', imageOf('noise'), /its bytes are not of the type/],
  ] as const) {
    const { body, refusal } = await sent(provider, [prompt([image])]);
    assert.equal(refusal, undefined, provider);
    assert.match(JSON.stringify(body), reason);
    assert.doesNotMatch(JSON.stringify(body), /base64,|"image"|inlineData/);
  }
});

test('of many images the large ones, and of too many the oldest, are left out', async () => {
  const wide = imageOf('png', { width: 3_000 });
  const many = [wide, ...Array.from({ length: 20 }, () => imageOf('png'))];
  const few = await sent('anthropic', [prompt(many.slice(0, 20))]);
  assert.equal(few.body.messages[0].content.filter(({ type }: { type: string }) => type === 'image').length, 20);
  const { body, refusal } = await sent('anthropic', [prompt(many)]);
  assert.equal(refusal, undefined);
  assert.equal(body.messages[0].content.filter(({ type }: { type: string }) => type === 'image').length, 20);
  const heavy = Array.from({ length: 6 }, () => imageOf('png', { bytes: 3 * 1024 * 1024 }));
  const google = await sent('google', [prompt(heavy)]);
  assert.equal(google.refusal, undefined);
  assert.equal(
    google.body.contents[0].parts.filter(({ inlineData }: { inlineData?: unknown }) => inlineData).length,
    4,
  );
});

test('images that a tool returned stand in its result, or behind it where the API has no place for them', async () => {
  const history: HistoryItem[] = [
    { role: 'user', turn: 'turn-1', text: 'shot' },
    { role: 'assistant', turn: 'turn-1', text: '', calls: [{ callId: 'c1', name: 'bash', input: {} }] },
    { role: 'tool', turn: 'turn-1', callId: 'c1', name: 'bash', ok: true, result: 'taken', images: [imageOf('png')] },
  ];
  for (const provider of PROVIDERS) {
    const { body, refusal } = await sent(provider, history);
    assert.equal(refusal, undefined, provider);
    const data = imageOf('png').dataUrl.slice(imageOf('png').dataUrl.indexOf(',') + 1);
    assert.equal(JSON.stringify(body).split(data).length, 2, `${provider}: once`);
  }
  const { body } = await sent('anthropic', history);
  assert.equal(body.messages.at(-1).content[0].content[1].type, 'image');
});

test('a failed result stays marked as failed, and its images stand behind it', async () => {
  const failed = (images: readonly Image[]): HistoryItem[] => [
    { role: 'user', turn: 'turn-1', text: 'shot' },
    { role: 'assistant', turn: 'turn-1', text: '', calls: [{ callId: 'c1', name: 'bash', input: {} }] },
    { role: 'tool', turn: 'turn-1', callId: 'c1', name: 'bash', ok: false, error: 'no', result: 'half', images },
  ];
  const data = imageOf('png').dataUrl.slice(imageOf('png').dataUrl.indexOf(',') + 1);
  for (const provider of PROVIDERS) {
    const plain = JSON.stringify((await sent(provider, failed([]))).body);
    const { body, refusal } = await sent(provider, failed([imageOf('png')]));
    assert.equal(refusal, undefined, provider);
    const text = JSON.stringify(body);
    assert.equal(text.split(data).length, 2, `${provider}: once`);
    // The result itself is as it is without images.
    const at = plain.lastIndexOf('half');
    assert.ok(text.includes(plain.slice(at - 30, at + 5)), `${provider}: ${text.slice(-600)}`);
  }
  const { body } = await sent('anthropic', failed([imageOf('png')]));
  const [result, ...behind] = body.messages.at(-1).content;
  assert.deepEqual([result.is_error, result.content], [true, 'no\nhalf']);
  assert.deepEqual(
    behind.map(({ type }: { type: string }) => type),
    ['text', 'image'],
  );
});

test('results come first and once each: notes about attachments stand before those that are sent', async () => {
  const [png, svg] = [
    imageOf('png'),
    { ...imageOf('png'), mimeType: 'image/svg+xml', dataUrl: 'data:image/svg+xml;base64,PHN2Zy8+' },
  ];
  const taken: HistoryItem = { ...fine, result: 'taken', images: [png, svg, png] } as HistoryItem;
  const history: HistoryItem[] = [
    user('shot'),
    { role: 'assistant', turn: 'turn-1', text: '', calls: [{ callId: 'c1', name: 'bash', input: {} }] },
    taken,
  ];
  for (const provider of PROVIDERS) {
    const { body, refusal } = await sent(provider, history);
    assert.equal(refusal, undefined, provider);
    assert.match(JSON.stringify(body), /\[Image 2\] is left out/, provider);
  }
});

test('reasoning whose id was sent before is left out', async () => {
  const fields = { openai: { itemId: 'rs_1', reasoningEncryptedContent: 'e' } };
  const said = (turn: string): HistoryItem => ({
    role: 'assistant',
    turn,
    text: 'hello',
    providerData: {
      provider: 'openai',
      model: MODELS.openai,
      parts: [
        { kind: 'reasoning', start: 0, end: 0, fields },
        { kind: 'text', start: 0, end: 5 },
      ],
    },
  });
  const { body, refusal } = await sent('openai', [user('a'), said('turn-0'), user('b'), said('turn-1'), user('c')]);
  assert.equal(refusal, undefined);
  assert.equal(body.input.filter(({ type }: { type?: string }) => type === 'reasoning').length, 1);
});

test('calls that are continued without tools, and a prompt within work that began without thinking', async () => {
  const { providerData: _lost, ...unsigned } = signed('hm') as Extract<HistoryItem, { role: 'assistant' }>;
  const bare = await sent('anthropic', [user('go'), signed('hm'), fine, user('and?')], []);
  assert.equal(bare.refusal, undefined);
  assert.deepEqual(
    bare.body.tools.map(({ name }: { name: string }) => name),
    ['no_tool'],
  );
  const plain = await sent(
    'anthropic',
    [user('go'), { role: 'assistant', turn: 'turn-1', text: 'done' }, user('and?')],
    [],
  );
  assert.equal(plain.body.tools, undefined);
  const more: HistoryItem = { ...signed('more'), calls: [{ callId: 'c2', name: 'bash', input: {} }] } as HistoryItem;
  const steered = [user('go'), unsigned, fine, user('faster'), more, { ...fine, callId: 'c2' } as HistoryItem];
  assert.equal((await sent('anthropic', steered)).refusal, undefined);
});
