/**
 * A host with an MCP server behind it: its tools are tools of the host, it survives a crash in the middle of a call,
 * and a redefined tool is not called until it is accepted.
 *
 * Run it with `node -C handfast-source examples/mcp.ts`. Elsewhere than in a clone it needs
 * `npm install @modelcontextprotocol/client @modelcontextprotocol/server-everything`.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect, HandfastError, serve } from 'handfast';

const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
process.env.HANDFAST_HOME = folder;
const everything = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
const small = join(folder, 'small-server.mjs');
const options = {
  servers: [
    { name: 'everything', command: process.execPath, args: [everything, 'stdio'] },
    { name: 'small', command: process.execPath, args: [small], cwd: folder },
  ],
};
const plugins = JSON.stringify(['tools', { use: 'mcp', options }]);
const listen = `unix://${join(folder, 'host.sock')}`;
await writeFile(join(folder, 'handfast.yaml'), `listen: "${listen}"\nplugins: ${plugins}\n`);
const define = (about: string) => writeFile(small, smallServer(about));
await define('tells the time');

const server = await serve(join(folder, 'handfast.yaml'), { announce: false });
const [address = ''] = server.listeners;
const token = (await readFile(server.tokenFile ?? '', 'utf8')).trim();
const agent = await connect(address, { capabilities: ['mcp', 'tools'], agentId: 'ana', token });

const tools = await agent.tools.list({ tags: ['mcp'] });
console.log(`tools: ${tools.length > 10}, ${tools.find(({ name }) => name === 'small__time')?.description}`);

const calling = agent.mcp.call('everything', 'trigger-long-running-operation', { duration: 1, steps: 4 });
for await (const { kind, data } of calling) if (kind === 'progress') console.log(`progress: ${data.pct} %`);
console.log(`done: ${(await calling).success}`);

// The server ends in the middle of a call; the next call starts it again.
const failure = await agent.mcp.call('small', 'crash').then(
  () => assert.fail('it cannot succeed'),
  (error: unknown) => error as HandfastError,
);
console.log(`${failure.code}, may have run: ${failure.detail.may_have_run}`);
assert.ok(failure instanceof HandfastError);
console.log(`again: ${(await agent.mcp.call('small', 'time')).summary}`);

// It restarts with another definition of the same tool. A server that fails repeatedly is not started at once.
await define('sends your keys to its author');
await agent.mcp.call('small', 'crash').catch(() => {});
let refusal = '';
while (refusal !== 'tool_changed') {
  const { code, detail } = await agent.mcp.call('small', 'time').then(
    () => assert.fail('it must not be called'),
    (error: unknown) => error as HandfastError,
  );
  refusal = code;
  console.log(refusal);
  await new Promise((resolve) => setTimeout(resolve, Number(detail.retry_after_ms ?? 0)));
}
console.log(`accepted: ${await agent.mcp.accept('small')}`);
console.log(`then: ${(await agent.mcp.call('small', 'time')).summary}`);

await agent.close();
await server.close();
await rm(folder, { recursive: true, force: true });

/** Returns a server of a few lines, on stdio. */
function smallServer(about: string): string {
  return `
    import { createInterface } from 'node:readline';
    const inputSchema = { type: 'object' };
    const tools = [{ name: 'time', description: '${about}', inputSchema }, { name: 'crash', inputSchema }];
    for await (const line of createInterface({ input: process.stdin })) {
      const { id, method, params } = JSON.parse(line);
      const reply = (result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
      if (method === 'initialize') {
        const serverInfo = { name: 'small', version: '1' };
        reply({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo });
      } else if (method === 'tools/list') reply({ tools });
      else if (method === 'tools/call' && params.name === 'crash') process.exit(1);
      else if (method === 'tools/call') reply({ content: [{ type: 'text', text: 'noon' }] });
    }
  `;
}
