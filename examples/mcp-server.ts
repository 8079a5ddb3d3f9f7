/**
 * A host as an MCP server: the official client uses its tools, its memory and a tool that asks the user, over `/mcp`.
 *
 * Run it with `node -C handfast-source examples/mcp-server.ts`. Elsewhere than in a clone it needs `npm install @modelcontextprotocol/client`.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { serve } from 'handfast';

const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
process.env.HANDFAST_HOME = folder;
const plugin = join(folder, 'greet.mjs');
await writeFile(plugin, greeting());
const plugins = JSON.stringify(['tools', 'memory', { use: plugin }]);
await writeFile(join(folder, 'handfast.yaml'), `listen: http://127.0.0.1:0\nplugins: ${plugins}\n`);
const server = await serve(join(folder, 'handfast.yaml'), { announce: false });
const [address = ''] = server.listeners;
const token = (await readFile(server.tokenFile ?? '', 'utf8')).trim();

// Every agent with MCP has a client like this one; "handfast mcp config" writes the settings of some.
const client = new Client({ name: 'example', version: '1' }, { capabilities: { elicitation: {} } });
client.setRequestHandler('elicitation/create', ({ params }) => {
  console.log(`asked: ${params.message}`);
  return { action: 'accept', content: { name: 'Ada' } };
});
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', address), { requestInit }));
console.log(`connected to ${client.getServerVersion()?.name}`);

const call = async (name: string, args: Record<string, unknown> = {}) => {
  const { content, isError } = await client.callTool(
    { name, arguments: args },
    { onprogress: ({ progress }) => console.log(`progress: ${progress} %`) },
  );
  const text = content.map((block) => (block.type === 'text' ? block.text : block.type)).join('\n');
  console.log(`${name}: ${isError ? 'failed, ' : ''}${text}`);
};

const { tools } = await client.listTools();
console.log(`greet reads alone: ${tools.find(({ name }) => name === 'greet')?.annotations?.readOnlyHint}`);
await call('greet');
await call('greet', { language: 7 });
await call('memory_store', { key: 'user/name', content: 'Ada' });
const { resources } = await client.listResources();
for (const { uri } of resources)
  console.log(`${uri}: ${JSON.stringify((await client.readResource({ uri })).contents)}`);

await client.close();
await server.close();
await rm(folder, { recursive: true, force: true });

/** Returns a plugin with a tool that asks. */
function greeting(): string {
  return `
    import { tool, toolsPlugin } from ${JSON.stringify(import.meta.resolve('handfast'))};
    import { askPerson } from ${JSON.stringify(import.meta.resolve('handfast/tools'))};

    export const plugin = toolsPlugin({
      name: 'greeting',
      tools: [
        tool({
          name: 'greet',
          description: 'Greets the user by name',
          input: { type: 'object', properties: { language: { enum: ['en', 'de'] } } },
          risks: [],
          async run({ language = 'en' }, context) {
            await context.emit('progress', { pct: 50, message: 'asking' });
            const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
            const { action, content } = await askPerson(context, { message: 'Who are you?', schema });
            const word = language === 'en' ? 'Hello' : 'Hallo';
            return action === 'accept' ? word + ' ' + content.name : word;
          },
        }),
      ],
    });
  `;
}
