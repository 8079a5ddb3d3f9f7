/**
 * docs/mcp-server.md: its quick start works as written, and its example prints the output on the page.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { User } from '../cli/command.ts';
import { root } from '../rules/scan.ts';
import { ADMIN, PATIENCE_MS, runningHost, textOf, userWith } from './support.ts';

const page = readFileSync(join(root, 'docs/mcp-server.md'), 'utf8');
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\\\`\\\`\\\`${language}\\n([\\s\\S]*?)^\\\`\\\`\\\``, 'gm'))].map(
    ([, text = '']) => text,
  );
const entries = blocks('json').map((text) => JSON.parse(text).mcpServers.handfast);

function newClient(t: TestContext): Client {
  const client = new Client({ name: 'reader', version: '1' });
  t.after(() => client.close());
  return client;
}

test('the entry that starts a program gives the tools of its folder and the memory', async (t) => {
  const entry = entries.find(({ command }) => command !== undefined);
  assert.equal(entry.command, 'handfast');
  const user = new User();
  t.after(() => user.leave());
  user.write('greeting.txt', 'hello\n');
  const [command = '', ...args] = user.line(entry.args);
  const client = newClient(t);
  const pipes = new StdioClientTransport({ command, args, env: user.environment(), cwd: user.cwd, stderr: 'pipe' });
  await client.connect(pipes, { timeout: PATIENCE_MS });
  const read = await client.callTool({ name: 'read_file', arguments: { path: 'greeting.txt' } });
  assert.match(textOf(read), /hello/);
  assert.ok((await client.listTools()).tools.some(({ name }) => name === 'memory_search'));
});

test('the entry with an address reaches a host that runs', async (t) => {
  const { url, headers } = entries.find((entry) => entry.url !== undefined);
  const { mcpUrl } = await runningHost(userWith(t, [{ use: 'tools' }]));
  assert.equal(new URL(url).pathname, mcpUrl.pathname);
  const authorization = headers.Authorization.replace('TOKEN', ADMIN);
  const client = newClient(t);
  const requestInit = { headers: { Authorization: authorization } };
  await client.connect(new StreamableHTTPClientTransport(mcpUrl, { requestInit }), { timeout: PATIENCE_MS });
  assert.ok((await client.listTools()).tools.length > 0);
});

test('the example prints what the page shows', async () => {
  const example = join(root, 'examples/mcp-server.ts');
  const { stdout } = await promisify(execFile)(process.execPath, ['-C', 'handfast-source', example], {
    timeout: 2 * PATIENCE_MS,
  });
  assert.ok(blocks('text').includes(stdout), stdout);
});
