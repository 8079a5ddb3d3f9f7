/**
 * A call names a server and a tool: it never reaches another server whose names concatenate to the same text, even before the
 * first list, and rights for one server do not cover the other.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ServerSettings } from '../../../src/capabilities/mcp/spec.ts';
import type { Principal } from '../../../src/session/principal.ts';
import { agentOf, errorOf, mcpHost } from './support.ts';

const scripted = fileURLToPath(new URL('../../support/mcp-scripted.mjs', import.meta.url));

const server = (name: string, tools: readonly string[]): ServerSettings => ({
  name,
  command: process.execPath,
  args: [scripted],
  env: {
    SCRIPT: JSON.stringify({
      name,
      tools: tools.map((tool) => ({ name: tool, description: tool, inputSchema: { type: 'object' } })),
    }),
  },
});

const textOf = ({ data }: { readonly data?: unknown }): string =>
  String((data as { content: readonly { text: string }[] }).content[0]?.text);

const TOOLS = ['get/user', 'get_user', 'get.user', 'get user', 'näme', 'constructor', '__proto__', 'toString', 'UPPER'];
const LONG = [`${'x'.repeat(127)}1`, `${'x'.repeat(127)}2`];

test('the first call reaches the tool of the server that it names, whichever name it has', async (t) => {
  for (const servers of [
    [server('a', ['b__c']), server('a__b', ['c'])],
    [server('a__b', ['c']), server('a', ['b__c'])],
    [server('a_', ['c']), server('a', ['_c'])],
  ]) {
    for (const { name, env } of servers) {
      const host = await mcpHost(t, { mcp: { servers } });
      const agent = await agentOf(t, host);
      const [tool] = JSON.parse((env as { SCRIPT: string }).SCRIPT).tools;
      assert.equal(textOf(await agent.mcp.call(name, tool.name)), `${name} ${tool.name}`);
    }
  }
});

test('tools of any name are listed once and called by their names', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [server('a', [...TOOLS, ...LONG])] } });
  const agent = await agentOf(t, host);
  const listed = (await agent.tools.list({ tags: ['mcp'] })).map(({ name, description }) => [name, description]);
  assert.equal(new Set(listed.map(([name]) => name)).size, TOOLS.length + LONG.length);
  for (const [name, description] of listed) {
    assert.equal(textOf(await agent.tools.call(String(name))), `a ${description}`);
  }
  for (const tool of [...TOOLS, ...LONG]) assert.equal(textOf(await agent.mcp.call('a', tool)), `a ${tool}`);
  const [first] = await agent.mcp.servers();
  assert.deepEqual(first?.tools_changed, []);
});

test('schemas of two servers with one id are published without it', async (t) => {
  const given = (name: string, type: string): ServerSettings => {
    const outputSchema = { $id: 'https://example.com/result', type: 'object', properties: { a: { type } } };
    const tool = { name: 'tool', inputSchema: { $id: 'arguments', type: 'object' }, outputSchema };
    return { ...server(name, []), env: { SCRIPT: JSON.stringify({ name, tools: [tool] }) } };
  };
  const host = await mcpHost(t, { mcp: { servers: [given('a', 'string'), given('b', 'number')] } });
  const agent = await agentOf(t, host);
  const listed = await agent.tools.list({ tags: ['mcp'] });
  assert.equal(listed.length, 2);
  for (const { input_schema, output_schema } of listed) {
    assert.deepEqual([input_schema?.$id, output_schema?.$id], [undefined, undefined]);
  }
});

test('rights for one server do not reach a server whose name begins alike', async (t) => {
  const principal: Principal = {
    name: 'few',
    tools: { risks: ['destructive', 'network'] },
    grants: { mcp: { servers: ['a__b'] } },
  };
  const servers = [server('a', ['b__c']), server('a__b', ['c'])];
  const host = await mcpHost(t, { principals: [principal], mcp: { servers } });
  const agent = await agentOf(t, host, { principal: 'few' });
  assert.equal(textOf(await agent.mcp.call('a__b', 'c')), 'a__b c');
  assert.equal((await errorOf(agent.mcp.call('a', 'b__c'))).code, 'unknown_tool');
  assert.equal((await errorOf(agent.tools.call('a__b__c'))).code, 'unknown_tool');
  const listed = (await agent.tools.list({ tags: ['mcp'] })).map(({ name }) => name);
  assert.deepEqual(listed, ['a__b__.-.c']);
});

test('an agent cannot add a server whose tools a rule for another server covers', async (t) => {
  const host = await mcpHost(t, {
    mcp: { register: [`${process.execPath} ${scripted}`], servers: [server('a', ['b'])] },
  });
  const agent = await agentOf(t, host);
  for (const server_id of ['a__b', 'a_', '_a']) {
    const refused = await errorOf(agent.mcp.register({ server_id, cmd: [process.execPath, scripted] }));
    assert.deepEqual([refused.code, refused.detail.field], ['mcp.invalid', 'server_id'], server_id);
  }
  await agent.mcp.register({ server_id: 'a-b', cmd: [process.execPath, scripted] });
});
