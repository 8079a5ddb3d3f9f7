/**
 * The mcp API of the A2E Python SDK against Handfast's host over stdio, with a server of the official project behind
 * it: its messages work, and so does sampling; its helpers read members that the SDK's own hosts do not send.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { commandOf, skip, start } from './python-sdk.ts';

const home = mkdtempSync(join(tmpdir(), 'handfast-interop-mcp-'));
const COMMAND = join(import.meta.dirname, '../../src/cli/main.ts');
const everything = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));

describe('the MCP servers of the Python SDK’s agent', { skip }, () => {
  // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as the SDK decoded it
  let results: Record<string, any> = {};

  before(async () => {
    const server = [process.execPath, everything, 'stdio'];
    const file = join(home, 'handfast.yaml');
    const plugins = ['tools', { use: 'mcp', options: { register: [server.join(' ')] } }];
    writeFileSync(file, `plugins: ${JSON.stringify(plugins)}\n`);
    const target = ['stdio', process.execPath, '-C', 'handfast-source', COMMAND, 'stdio', '--config', file];
    process.env.HANDFAST_HOME = home;
    const agent = start(commandOf('python-mcp.py', JSON.stringify(target), JSON.stringify(server)), home);
    const lines = await agent.rest();
    assert.equal(agent.child.exitCode, 0, agent.stderr());
    results = JSON.parse(lines.at(-1) as string);
  });
  after(() => rmSync(home, { recursive: true, force: true }));

  test('adds a server, lists it, calls its tools, and removes it', () => {
    const { ok, server, error } = results['raw register'];
    assert.deepEqual([ok, error, server.status, server.server_name], [true, '', 'ready', 'mcp-servers/everything']);
    const [raw] = results['raw list'].filter(({ server_id }: { server_id: string }) => server_id === 'raw');
    assert.deepEqual([raw.name, raw.transport, raw.status], ['Raw', 'stdio', 'ready']);
    assert.match(JSON.stringify(results.call), /Echo: hello/);
    assert.deepEqual([results.unregister.ok, results.unknown.ok], [true, false]);
  });

  test('is sampled by the server, and answers with the type of the request', () => {
    assert.equal(results.sampled.length, 1);
    assert.deepEqual([results.sampled[0].server_id, results.sampled[0].max_tokens], ['raw', 7]);
    assert.match(JSON.stringify(results['sampled call']), /as Python says/);
  });

  test('reads resources and prompts, and learns what was refused', () => {
    assert.ok(results.resources.every(({ server_id }: { server_id: string }) => server_id === 'raw'));
    assert.match(results.read.contents[0].text, /^Resource 7/);
    assert.match(results.unread.error, /^mcp_resource_not_found/);
    assert.equal(results.subscribe.ok, true);
    assert.ok(results.prompts.some(({ name }: { name: string }) => name === 'args-prompt'));
    assert.match(JSON.stringify(results.prompt.messages), /Lisbon/);
    assert.deepEqual([results.refused.ok, /^mcp\.not_allowed/.test(results.refused.error)], [false, true]);
  });

  test('its helpers fail on their own: they read `tools` of a server, which their own model does not have', () => {
    assert.equal(results.register.failed, 'AttributeError', JSON.stringify(results.register));
  });
});
