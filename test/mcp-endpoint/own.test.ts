/**
 * The parts of a host that MCP clients get beside its tools: skills as prompts and tools, the memory as resources, and
 * the search for tools that are left out of lists.
 */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { clientOf, runningHost, textOf, until, userWith, WAYS } from './support.ts';

const plugins = [
  { use: 'tools' },
  { use: 'memory' },
  { use: 'skill', options: { roots: ['./skills'] } },
  {
    use: 'toolkits',
    options: {
      toolkits: [
        { name: 'search', enabled: true },
        { name: 'sqlite', enabled: true, deferred: true },
      ],
    },
  },
];

for (const way of WAYS.filter(({ over }) => over === 'http')) {
  test(`skills are prompts, those with code are tools, and changed ones are announced (${way.era})`, async (t) => {
    const user = userWith(t, plugins);
    for (const name of ['haiku', 'add-up', 'late']) mkdirSync(join(user.cwd, 'skills', name), { recursive: true });
    user.write('skills/haiku/SKILL.md', '---\nname: haiku\ndescription: Writes a haiku\n---\nThree lines: 5, 7, 5.\n');
    user.write('skills/haiku/season.txt', 'autumn\n');
    const parameters = '{"type":"object","properties":{"by":{"type":"integer"}},"required":["by"]}';
    user.write(
      'skills/add-up/SKILL.md',
      `---\nname: add-up\ndescription: Adds\nentry: main.js\nparameters: ${parameters}\n---\nAdds up.\n`,
    );
    user.write('skills/add-up/main.js', 'export default async ({ by }) => ({ sum: 40 + by });\n');
    const { mcpUrl } = await runningHost(user);
    const changes: unknown[] = [];
    const client = await clientOf(t, user, mcpUrl, way, {
      listChanged: { prompts: { autoRefresh: false, onChanged: () => void changes.push(0) } },
    });
    const { prompts } = await client.listPrompts();
    assert.deepEqual(prompts.map(({ name }) => name).sort(), ['skill__add-up', 'skill__haiku']);
    const { messages } = await client.getPrompt({ name: 'skill__haiku' });
    assert.match(JSON.stringify(messages[0]), /Three lines: 5, 7, 5/);
    assert.match(JSON.stringify(messages[1]), /skill:\/\/haiku\/season\.txt.*autumn/);
    assert.match(JSON.stringify(await client.getPrompt({ name: 'skill__add-up' })), /Adds up/);
    await assert.rejects(client.getPrompt({ name: 'skill__nope' }), { code: -32_602 });

    const { tools } = await client.listTools();
    const names = tools.map(({ name }) => name).filter((name) => name.startsWith('skill__'));
    assert.deepEqual(names, ['skill__add-up']);
    assert.equal(textOf(await client.callTool({ name: 'skill__add-up', arguments: { by: 2 } })), '{"sum":42}');
    const wrong = await client.callTool({ name: 'skill__add-up', arguments: { by: 'two' } });
    assert.match(textOf(wrong), /^schema_violation: /);

    user.write('skills/late/SKILL.md', '---\nname: late\ndescription: Came later\n---\nLater.\n');
    // A list finds the new folder; the push of the host then announces it.
    await until(async () => (await client.listPrompts()).prompts.some(({ name }) => name === 'skill__late'));
    await until(() => changes.length > 0);
  });

  test(`what is remembered is a resource too (${way.era})`, async (t) => {
    const user = userWith(t, plugins);
    const { mcpUrl } = await runningHost(user);
    const client = await clientOf(t, user, mcpUrl, way);
    const store = (key: string, content: unknown) =>
      client.callTool({ name: 'memory_store', arguments: { key, content, tags: ['user'] } });
    await store('user/home town', 'Lisbon');
    await store('user/pets', { cats: 2 });
    const { resources } = await client.listResources();
    assert.deepEqual(resources.map(({ name, mimeType }) => [name, mimeType]).sort(), [
      ['user/home town', 'text/plain'],
      ['user/pets', 'application/json'],
    ]);
    const uri = resources.find(({ name }) => name === 'user/home town')?.uri ?? '';
    const { contents } = await client.readResource({ uri });
    assert.deepEqual(contents, [{ uri, mimeType: 'text/plain', text: 'Lisbon' }]);
    const { resourceTemplates } = await client.listResourceTemplates();
    assert.deepEqual(
      resourceTemplates.map(({ uriTemplate }) => uriTemplate),
      ['memory://mcp/{key}'],
    );
    // The number of later revisions: the client makes it of the earlier one.
    const code = -32_602;
    await assert.rejects(client.readResource({ uri: 'memory://mcp/nothing' }), { code });
    await assert.rejects(client.readResource({ uri: 'other://thing' }), { code });
  });

  test(`tools that are left out of lists are found by a search, and can be called (${way.era})`, async (t) => {
    const user = userWith(t, plugins);
    const { mcpUrl } = await runningHost(user);
    const changes: unknown[] = [];
    const client = await clientOf(t, user, mcpUrl, way, {
      listChanged: { tools: { autoRefresh: false, onChanged: () => void changes.push(0) } },
    });
    const listed = async () => (await client.listTools()).tools.map(({ name }) => name);
    const before = await listed();
    assert.ok(before.includes('tool_search'), before.join());
    assert.ok(before.includes('search_files'), before.join());
    assert.ok(!before.includes('sqlite_query'));
    const found = await client.callTool({ name: 'tool_search', arguments: { query: 'sqlite query', limit: 1 } });
    const [tool] = JSON.parse(textOf(found)).tools;
    assert.equal(tool.name, 'sqlite_query');
    assert.equal(tool.inputSchema.type, 'object');
    if (way.era === 'sessions') {
      await until(() => changes.length > 0);
      assert.ok((await listed()).includes('sqlite_query'));
    } else assert.ok(!(await listed()).includes('sqlite_query'));
    // The tool itself refuses, so it can be called.
    assert.doesNotMatch(textOf(await client.callTool({ name: 'sqlite_query', arguments: {} })), /unknown tool/);
    const none = await client.callTool({ name: 'tool_search', arguments: { query: '' } });
    assert.match(textOf(none), /^schema_violation: /);
  });
}

for (const way of WAYS) {
  test(`what another client remembers and forgets is announced, also as changes of one resource (${way.over}, ${way.era})`, async (t) => {
    const user = userWith(t, plugins);
    const { mcpUrl } = await runningHost(user);
    let lists = 0;
    const updated: string[] = [];
    const uri = 'memory://mcp/user%2Ftown';
    const client = await clientOf(t, user, mcpUrl, way, {
      listChanged: { resources: { autoRefresh: false, onChanged: () => void lists++ } },
    });
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => void updated.push(params.uri));
    if (way.era === 'sessions') await client.subscribeResource({ uri });
    else {
      const { honoredFilter } = await client.listen({
        resourcesListChanged: true,
        resourceSubscriptions: [uri, 'no:such'],
      });
      assert.deepEqual(honoredFilter, { resourcesListChanged: true, resourceSubscriptions: [uri] });
    }
    const other = await clientOf(t, user, mcpUrl, { over: 'http', era: 'sessions' });
    const call = (name: string, args: Record<string, unknown>) => other.callTool({ name, arguments: args });
    await call('memory_store', { key: 'user/pets', content: 'none' });
    await until(() => lists > 0);
    assert.deepEqual(updated, []);
    lists = 0;
    await call('memory_store', { key: 'user/town', content: 'Lisbon' });
    await until(() => lists > 0 && updated.length === 1);
    await call('memory_forget', { keys: ['user/town'] });
    await until(() => updated.length === 2);
    assert.deepEqual([...new Set(updated)], [uri]);
    if (way.era !== 'sessions') return;
    await client.unsubscribeResource({ uri });
    lists = 0;
    await call('memory_store', { key: 'user/town', content: 'Rome' });
    await until(() => lists > 0);
    assert.equal(updated.length, 2);
    await assert.rejects(client.subscribeResource({ uri: 'no:such' }), /there is no resource no:such/);
  });
}
