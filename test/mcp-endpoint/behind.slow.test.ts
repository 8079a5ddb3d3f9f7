/**
 * MCP servers behind a host, as MCP clients of that host see them: the official server with one of everything, and one
 * that changes its tools while clients listen.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { clientOf, runningHost, textOf, until, userWith, WAYS } from './support.ts';

const program = (name: string, ...args: string[]) => ({ name, command: process.execPath, args });
const everything = program(
  'everything',
  fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js')),
  'stdio',
);
const modern = program('modern', fileURLToPath(new URL('../support/mcp-modern.mjs', import.meta.url)));
const plugins = [{ use: 'tools' }, { use: 'mcp', options: { servers: [everything, modern] } }];

for (const way of WAYS) {
  const name = `${way.over}, ${way.era}`;
  test(`tools, resources, templates, prompts and completion of servers pass through (${name})`, async (t) => {
    const user = userWith(t, plugins);
    const { mcpUrl } = await runningHost(user);
    const client = await clientOf(t, user, mcpUrl, way);
    const { tools } = await client.listTools();
    const sum = tools.find((tool) => tool.name === 'everything__get-sum');
    assert.deepEqual(Object.keys(sum?.inputSchema.properties ?? {}), ['a', 'b']);
    const added = await client.callTool({ name: 'everything__get-sum', arguments: { a: 2, b: 40 } });
    assert.match(textOf(added), /42/);
    const structured = await client.callTool({
      name: 'everything__get-structured-content',
      arguments: { location: 'Chicago' },
    });
    assert.equal(typeof (structured.structuredContent as { temperature: unknown }).temperature, 'number');
    const image = await client.callTool({ name: 'everything__get-tiny-image' });
    assert.ok(image.content.some((block) => block.type === 'image' && block.mimeType === 'image/png'));

    const { resources } = await client.listResources();
    const document = resources.find(({ uri }) => uri.startsWith('demo://'));
    const { contents } = await client.readResource({ uri: document?.uri ?? '' });
    assert.equal(contents[0]?.uri, document?.uri);
    const { resourceTemplates } = await client.listResourceTemplates();
    const template = resourceTemplates.find(({ uriTemplate }) => uriTemplate.includes('text'));
    const filled = (template?.uriTemplate ?? '').replace(/\{[^}]*\}/, '3');
    assert.match(JSON.stringify(await client.readResource({ uri: filled })), /Resource 3/);
    await assert.rejects(client.readResource({ uri: 'demo://no/such' }), /no MCP server lists/);

    const { prompts } = await client.listPrompts();
    const withArguments = prompts.find((prompt) => prompt.name === 'args-prompt');
    assert.deepEqual(
      withArguments?.arguments?.map((argument) => [argument.name, argument.required]),
      [
        ['city', true],
        ['state', false],
      ],
    );
    const { messages } = await client.getPrompt({ name: 'args-prompt', arguments: { city: 'Lisbon' } });
    assert.match(JSON.stringify(messages), /Lisbon/);
    const ref = { type: 'ref/prompt', name: 'completable-prompt' } as const;
    const departments = await client.complete({ ref, argument: { name: 'department', value: 'S' } });
    assert.ok(departments.completion.values.includes('Sales'), JSON.stringify(departments));
    const context = { arguments: { department: 'Sales' } };
    const people = await client.complete({ ref, argument: { name: 'name', value: '' }, context });
    assert.ok(people.completion.values.length > 0);
    const uri = template?.uriTemplate ?? '';
    const numbers = await client.complete({
      ref: { type: 'ref/resource', uri },
      argument: { name: 'resourceId', value: '4' },
    });
    assert.deepEqual(numbers.completion.values, ['4']);
    const unknown = { type: 'ref/prompt', name: 'no-such' } as const;
    await assert.rejects(client.complete({ ref: unknown, argument: { name: 'a', value: '' } }), /no-such/);
  });

  test(`a tool that a server adds, once accepted, and a changed resource are announced (${name})`, async (t) => {
    const user = userWith(t, plugins);
    const { ready, mcpUrl } = await runningHost(user);
    const seen: string[] = [];
    const client = await clientOf(t, user, mcpUrl, way, {
      listChanged: { tools: { autoRefresh: false, onChanged: () => void seen.push('tools') } },
    });
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => void seen.push(params.uri));
    const before = await client.listTools();
    assert.ok(before.tools.some((tool) => tool.name === 'modern__grow'));
    assert.ok(!before.tools.some((tool) => tool.name === 'modern__grown'));
    if (way.era === 'sessions') await client.subscribeResource({ uri: 'modern:notes' });
    else {
      const listening = await client.listen({ resourceSubscriptions: ['modern:notes'] });
      t.after(() => listening.close());
    }
    await client.callTool({ name: 'modern__touch' });
    await until(() => seen.includes('modern:notes'));

    await client.callTool({ name: 'modern__grow' });
    const connect = ['--connect', ready.url, '--token-file', 'token'];
    const servers = async () => (await user.json(['mcp', 'ls', ...connect])) as { tools_changed: string[] }[];
    await until(async () => (await servers()).some((server) => server.tools_changed.includes('grown')));
    // A tool that is new is not offered before a person has accepted it.
    assert.ok(!(await client.listTools()).tools.some((tool) => tool.name === 'modern__grown'));
    const announced = seen.filter((what) => what === 'tools').length;
    assert.equal((await user.run(['mcp', 'accept', 'modern', ...connect])).code, 0);
    await until(() => seen.filter((what) => what === 'tools').length > announced);
    assert.ok((await client.listTools()).tools.some((tool) => tool.name === 'modern__grown'));
    assert.equal(textOf(await client.callTool({ name: 'modern__grown' })), 'grown');
  });
}
