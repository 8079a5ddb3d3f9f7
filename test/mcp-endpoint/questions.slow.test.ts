/**
 * Questions through the endpoint: those of tools of the host and of servers behind it reach the MCP client whose call
 * runs, in both eras; a question that the client cannot answer is refused, and an unanswered one ends at its deadline.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Client, ClientCapabilities } from '@modelcontextprotocol/client';
import type { Json } from '../cli/command.ts';
import {
  clientOf,
  poster,
  runningHost,
  STATELESS,
  statelessHeaders,
  textOf,
  until,
  userWith,
  WAYS,
} from './support.ts';

const support = (name: string): string => fileURLToPath(new URL(`../support/${name}`, import.meta.url));
const modern = {
  name: 'modern',
  command: process.execPath,
  args: [support('mcp-modern.mjs')],
  may_ask: ['elicitation', 'sampling'],
};
const everything = {
  name: 'everything',
  command: process.execPath,
  args: [fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js')), 'stdio'],
  may_ask: ['elicitation', 'sampling'],
};
const plugins = [
  { use: 'tools' },
  { use: support('mcp-tools.mjs') },
  { use: 'mcp', options: { servers: [modern, everything] } },
];
const ALL: ClientCapabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} };

/** Makes a client answer, and returns the questions it received. */
function answering(client: Client): string[] {
  const asked: string[] = [];
  client.setRequestHandler('elicitation/create', ({ params }) => {
    asked.push(params.message);
    if (params.mode === 'url') return { action: 'accept' };
    const [field = ''] = Object.keys(params.requestedSchema.properties);
    return { action: 'accept', content: { [field]: field === 'colour' ? 'red' : 'Ada' } };
  });
  client.setRequestHandler('sampling/createMessage', ({ params }) => {
    asked.push(`sampling ${params.maxTokens}`);
    return { role: 'assistant', model: 'small', content: { type: 'text', text: 'so I think' } };
  });
  client.setRequestHandler('roots/list', () => {
    asked.push('roots');
    return { roots: [{ uri: 'file:///project', name: 'project' }] };
  });
  return asked;
}

const address = {
  name: 'address',
  command: process.execPath,
  args: [support('mcp-address.mjs')],
  may_ask: ['elicitation'],
};

for (const way of WAYS.filter(({ era }) => era === 'sessions')) {
  test(`a client reads that what it was asked to open is done, and which addresses a call needs (${way.over})`, async (t) => {
    const user = userWith(t, [{ use: 'tools' }, { use: 'mcp', options: { servers: [address] } }]);
    const { mcpUrl } = await runningHost(user);
    const client = await clientOf(t, user, mcpUrl, way, { capabilities: ALL });
    const ids: unknown[] = [];
    const done: string[] = [];
    client.setRequestHandler('elicitation/create', ({ params }) => {
      ids.push((params as Json).elicitationId);
      return { action: 'accept' };
    });
    client.setNotificationHandler(
      'notifications/elicitation/complete',
      ({ params }) => void done.push(params.elicitationId),
    );
    assert.equal(textOf(await client.callTool({ name: 'address__sign' })), 'accept');
    await until(() => done.length > 0);
    assert.deepEqual(done, ids);
    const refusal: Json = await client.callTool({ name: 'address__pay' }).then(undefined, (error) => error);
    assert.equal(refusal.code, -32_042);
    assert.equal(refusal.data.elicitations[0].url, 'https://example.com/pay');
    await until(() => done.length > 1);
    assert.deepEqual(done.slice(1), [refusal.data.elicitations[0].elicitationId]);
  });
}

for (const way of WAYS) {
  const name = `${way.over}, ${way.era}`;
  test(`tools of the host and servers behind it ask the client whose call runs (${name})`, async (t) => {
    const user = userWith(t, plugins);
    const { mcpUrl } = await runningHost(user);
    const client = await clientOf(t, user, mcpUrl, way, { capabilities: ALL });
    const asked = answering(client);
    assert.equal(textOf(await client.callTool({ name: 'greet' })), 'Hello Ada, in red');
    assert.deepEqual(asked.splice(0), ['Who are you?', 'Which colour?']);
    const consulted = JSON.parse(textOf(await client.callTool({ name: 'consult' })));
    assert.deepEqual(consulted, { thought: 'so I think', sign: 'accept', roots: ['file:///project'] });
    assert.deepEqual(asked.splice(0).sort(), ['Sign', 'roots', 'sampling 10']);
    assert.equal(textOf(await client.callTool({ name: 'modern__greet' })), 'Hello Ada');
    assert.equal(textOf(await client.callTool({ name: 'modern__think' })), 'Thought: so I think');
    const sampled = await client.callTool({
      name: 'everything__trigger-sampling-request',
      arguments: { prompt: 'hello', maxTokens: 10 },
    });
    assert.match(textOf(sampled), /so I think/);
    // Calls at the same time get their own answers.
    const both = await Promise.all([client.callTool({ name: 'greet' }), client.callTool({ name: 'consult' })]);
    assert.deepEqual(both.map(textOf), [
      'Hello Ada, in red',
      '{"thought":"so I think","sign":"accept","roots":["file:///project"]}',
    ]);
  });

  test(`a client without the capability is not asked (${name})`, async (t) => {
    const user = userWith(t, plugins);
    const { mcpUrl } = await runningHost(user);
    const client = await clientOf(t, user, mcpUrl, way, { capabilities: { elicitation: { form: {} } } });
    client.setRequestHandler('elicitation/create', () => ({ action: 'decline' }));
    assert.equal(textOf(await client.callTool({ name: 'greet' })), 'no name: decline');
    const call = client.callTool({ name: 'consult' });
    if (way.era === 'stateless') await assert.rejects(call, { code: -32_021 });
    else assert.match(textOf(await call), /^no_handler: the MCP client did not declare the capability/);
    const behind = await client.callTool({ name: 'modern__think' });
    assert.equal(behind.isError, true);
    assert.match(textOf(behind), /sampling/);
  });
}

test('a question that the client leaves open ends at its deadline, and the client is notified', async (t) => {
  const user = userWith(t, plugins);
  const { mcpUrl } = await runningHost(user);
  const way = { over: 'stdio', era: 'sessions' } as const;
  const client = await clientOf(t, user, mcpUrl, way, { capabilities: ALL });
  const withdrawn = Promise.withResolvers<void>();
  client.setRequestHandler('elicitation/create', async (_request, { mcpReq }) => {
    await new Promise((resolve) => mcpReq.signal.addEventListener('abort', resolve, { once: true }));
    withdrawn.resolve();
    return { action: 'cancel' };
  });
  const failed = await client.callTool({ name: 'insist' });
  assert.match(textOf(failed), /^timeout: /);
  await withdrawn.promise;
});

test('requests that stand alone: answers that do not fit, states that are not known, and answers sent ahead', async (t) => {
  const user = userWith(t, plugins);
  const { mcpUrl } = await runningHost(user);
  const post = poster(mcpUrl);
  let id = 0;
  const call = async (tool: string, more: object = {}, capabilities: object = ALL): Promise<Json> => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': STATELESS,
      'io.modelcontextprotocol/clientCapabilities': capabilities,
    };
    id += 1;
    const body = { jsonrpc: '2.0', id, method: 'tools/call', params: { name: tool, _meta, ...more } };
    const reply = (await (await post(body, statelessHeaders('tools/call', tool))).json()) as Json;
    assert.equal(reply.id, id);
    return reply;
  };
  const accept = (content: object) => ({ action: 'accept', content });

  const first = (await call('greet')).result;
  assert.equal(first.resultType, 'input_required');
  assert.deepEqual(Object.keys(first.inputRequests), ['name']);
  assert.equal(first.inputRequests.name.method, 'elicitation/create');
  const state = { requestState: first.requestState };
  // Answers that do not fit leave the call as it is.
  assert.equal((await call('greet', { ...state, inputResponses: { name: { action: 'maybe' } } })).error.code, -32_602);
  assert.equal((await call('greet', { ...state, inputResponses: { name: 7 } })).error.code, -32_602);
  assert.equal((await call('greet', { ...state, inputResponses: null })).error.code, -32_602);
  // The state belongs to this request alone.
  assert.equal((await call('consult', state)).error.code, -32_602);
  assert.equal((await call('greet', { requestState: `${first.requestState}x` })).error.code, -32_602);
  // Open questions are sent again.
  const again = (await call('greet', { ...state, inputResponses: { other: accept({}) } })).result;
  assert.deepEqual(Object.keys(again.inputRequests), ['name']);
  assert.notEqual(again.requestState, first.requestState);
  assert.equal((await call('greet', state)).error.code, -32_602);
  const inputResponses = { name: accept({ name: 'Ada' }), other: accept({}) };
  const second = (await call('greet', { requestState: again.requestState, inputResponses })).result;
  const [question = ''] = Object.keys(second.inputRequests);
  assert.equal(second.inputRequests[question].params.message, 'Which colour?');
  const done = await call('greet', {
    requestState: second.requestState,
    inputResponses: { [question]: { action: 'decline' } },
  });
  assert.equal(textOf(done.result), 'Hello Ada, in decline');
  assert.equal(done.result.resultType, 'complete');

  const ahead = (await call('greet', { inputResponses })).result;
  assert.equal(ahead.inputRequests[Object.keys(ahead.inputRequests)[0] ?? ''].params.message, 'Which colour?');

  const several = (await call('consult')).result;
  const methods = Object.values<Json>(several.inputRequests).map(({ method }) => method);
  assert.deepEqual(methods.sort(), ['elicitation/create', 'roots/list', 'sampling/createMessage']);

  const lacking = await call('consult', {}, {});
  assert.equal(lacking.error.code, -32_021);
  assert.equal(Object.keys(lacking.error.data.requiredCapabilities).length, 1);
});
