/**
 * Resources and prompts of real servers: listed over all of them, read, subscribed to over a crash, and sent to the right
 * sessions.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentOf, errorOf, everything, folder, mcpHost, odd, oddCommand, pidsOf, until } from './support.ts';

test('resources of all servers are listed page by page and read, from the server that lists them or the one that is named', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [everything, odd(folder(t))] } });
  const agent = await agentOf(t, host);
  const all = await agent.mcp.resources();
  assert.equal(all.filter(({ server_id }) => server_id === 'odd').length, 250);
  const document = all.find(({ server_id }) => server_id === 'everything') ?? assert.fail('none');
  const [part] = await agent.mcp.read(document.uri);
  assert.equal(part?.type, 'text');
  assert.notEqual(part?.text, '');
  assert.equal((await agent.mcp.resources('odd')).length, 250);
  const parts = await agent.mcp.read('odd:7');
  assert.deepEqual(
    parts.map(({ type, text, blob, mime_type }) => [type, text, blob, mime_type]),
    [
      ['text', parts[0]?.text, '', 'text/plain'],
      ['blob', '', 'AQID', 'application/octet-stream'],
    ],
  );
  // An unlisted resource that the server has.
  assert.equal((await errorOf(agent.mcp.read('odd:9999'))).code, 'mcp_resource_not_found');
  assert.equal((await agent.mcp.read('odd:9999', 'odd')).length, 2);
  assert.equal((await errorOf(agent.mcp.read('other:1', 'odd'))).code, 'mcp_resource_not_found');
  assert.equal((await errorOf(agent.mcp.read('odd:1', 'none'))).code, 'mcp_server_not_found');
  const info = (await agent.mcp.servers()).find(({ server_id }) => server_id === 'odd');
  assert.equal(info?.resources_count, 250);
});

test('a change of a resource reaches the session that subscribed, also after the server crashed, until it unsubscribes', async (t) => {
  const cwd = folder(t);
  const host = await mcpHost(t, { mcp: { servers: [odd(cwd)] } });
  const agent = await agentOf(t, host);
  const other = await agentOf(t, host, { agentId: 'bo' });
  const heard: string[] = [];
  const overheard: string[] = [];
  agent.mcp.onNotification(({ server_id, params }) => void heard.push(`${server_id} ${params.uri}`));
  other.mcp.onNotification(({ method }) => void overheard.push(method));
  await agent.mcp.subscribe('odd:3');
  await until(() => heard.length === 1);
  process.kill(pidsOf(cwd)[0] as number, 'SIGKILL');
  // It restarts by itself, because a session listens.
  await until(() => heard.length === 2);
  assert.deepEqual(heard, ['odd odd:3', 'odd odd:3']);
  assert.deepEqual(overheard, []);
  assert.equal(await agent.mcp.unsubscribe('odd:3'), true);
  assert.equal(await agent.mcp.unsubscribe('odd:3'), false);
  await until(async () => (await agent.mcp.servers())[0]?.stderr?.includes('odd server: unsubscribed odd:3') === true);
  // The end of a session ends its subscriptions.
  await other.mcp.subscribe('odd:4', 'odd');
  await other.close();
  await until(async () => (await agent.mcp.servers())[0]?.stderr?.includes('odd server: unsubscribed odd:4') === true);
});

test('prompts are listed and filled in', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [everything, odd(folder(t))] } });
  const agent = await agentOf(t, host);
  const prompts = await agent.mcp.prompts();
  assert.deepEqual(
    prompts.filter(({ server_id }) => server_id === 'odd').map(({ name, arguments: args }) => [name, args]),
    [['greet', [{ name: 'who', required: true }]]],
  );
  const [words] = await agent.mcp.prompt('greet', { who: 'Ada' });
  assert.deepEqual(words, { role: 'user', content: { type: 'text', text: 'Greet Ada' } });
  const lines = await agent.mcp.prompt('args-prompt', { city: 'Lisbon' }, 'everything');
  assert.match(JSON.stringify(lines), /Lisbon/);
  assert.equal((await errorOf(agent.mcp.prompt('nothing'))).code, 'mcp_prompt_not_found');
  assert.equal((await errorOf(agent.mcp.prompt('args-prompt', {}, 'everything'))).code, 'schema_violation');
});

test('a server that an agent added shows the resources of its allow list alone', async (t) => {
  const host = await mcpHost(t, { mcp: { register: [oddCommand.join(' ')] } });
  const agent = await agentOf(t, host);
  await agent.mcp.register({ server_id: 'mine', cmd: [...oddCommand], resource_allow_list: ['odd:1', 'r2'] });
  assert.deepEqual(
    (await agent.mcp.resources('mine')).map(({ uri }) => uri),
    ['odd:1', 'odd:2'],
  );
  assert.equal((await agent.mcp.read('odd:2', 'mine')).length, 2);
  assert.equal((await errorOf(agent.mcp.read('odd:3', 'mine'))).code, 'mcp_resource_not_found');
});

test('templates are listed, and a resource of one is read without its server, where the template fits', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [everything, odd(folder(t))] } });
  const agent = await agentOf(t, host);
  const templates = await agent.mcp.templates();
  assert.deepEqual(
    templates.map(({ uri_template, server_id }) => [uri_template, server_id]),
    [
      ['demo://resource/dynamic/text/{resourceId}', 'everything'],
      ['demo://resource/dynamic/blob/{resourceId}', 'everything'],
    ],
  );
  const [part] = await agent.mcp.read('demo://resource/dynamic/text/7');
  assert.match(part?.text ?? '', /^Resource 7: This is a plaintext resource/);
  assert.equal((await agent.mcp.read('demo://resource/dynamic/blob/7'))[0]?.type, 'blob');
  assert.equal((await errorOf(agent.mcp.read('demo://resource/static/7'))).code, 'mcp_resource_not_found');
});

test('arguments of prompts and variables of templates are completed', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [everything, odd(folder(t))] } });
  const agent = await agentOf(t, host);
  const of = { prompt: 'completable-prompt' };
  const { values } = await agent.mcp.complete({ of, argument: 'department', value: 'S' });
  assert.deepEqual(values, ['Sales', 'Support']);
  const others = { department: 'Sales' };
  const names = await agent.mcp.complete({ of, argument: 'name', value: 'D', others });
  assert.deepEqual(names.values, ['David']);
  const uriTemplate = 'demo://resource/dynamic/text/{resourceId}';
  assert.deepEqual((await agent.mcp.complete({ of: { uriTemplate }, argument: 'resourceId', value: '5' })).values, [
    '5',
  ]);
  // A server that completes nothing.
  assert.deepEqual((await agent.mcp.complete({ of: { prompt: 'greet' }, argument: 'who' })).values, []);
  const missing = await errorOf(agent.mcp.complete({ of: { prompt: 'nothing' }, argument: 'who' }));
  assert.equal(missing.code, 'mcp_prompt_not_found');
  const elsewhere = { of: { uriTemplate: 'odd:{x}' }, argument: 'x', server: 'everything' };
  assert.equal((await errorOf(agent.mcp.complete(elsewhere))).code, 'mcp_resource_not_found');
});
