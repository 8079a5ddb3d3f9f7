/**
 * The MCP servers that an editor passes with a new session: real servers of the official kind, whose tools the session
 * has like any other, with approvals, until it is closed; and the editor's notices about unusable ones.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { McpServer } from '@agentclientprotocol/sdk';
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { McpServer as OfficialServer } from '@modelcontextprotocol/server';
import { silentLog } from '../../../src/base/log.ts';
import { connect } from '../../../src/control-client/connect.ts';
import { assembleControl } from '../../../src/server/control/control-assembly.ts';
import { defaultConfig } from '../../../src/server/default-config.ts';
import { type ScriptedRound, startModelServer } from '../../../src/testing/model-server.ts';
import { modelEnvironment, SCRIPTED_MODEL } from '../../control/support/composed-control.ts';
import { choose, desktop, type LocalEditor, served, startEditor } from './editor.ts';

const program = fileURLToPath(new URL('../../support/mcp-notes.mjs', import.meta.url));

const odd = fileURLToPath(new URL('../../support/mcp-odd.mjs', import.meta.url));

const notes = (project: string, name = 'notes'): McpServer => ({
  name,
  command: process.execPath,
  args: [program],
  env: [{ name: 'PID_FILE', value: join(project, 'pid') }],
});

const opened = async (editor: LocalEditor, cwd: string, mcpServers: McpServer[]): Promise<string> =>
  (await editor.agent.request('session/new', { cwd, mcpServers })).sessionId;

const results = (editor: LocalEditor): unknown[] =>
  editor.told('tool_call_update').flatMap(({ rawOutput }) => (rawOutput === undefined ? [] : [rawOutput]));

/** Resolves when the process is no more. */
async function ended(pid: number): Promise<void> {
  for (const until = Date.now() + 30_000; Date.now() < until; await new Promise((resolve) => setTimeout(resolve, 20))) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
  }
  assert.fail(`process ${pid} still runs`);
}

test('its tools are called after an approval in the editor, in the folder of the session, and it ends with the session', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start({ permission: () => choose('once') });
  const id = await opened(editor, project, [notes(project)]);
  assert.equal(existsSync(join(project, 'pid')), false, 'nothing is started before the first turn');
  await editor.prompt(id, 'call notes.note with {"text": "from the editor"}');
  assert.equal(readFileSync(join(project, 'NOTES'), 'utf8'), 'from the editor\n');
  assert.equal(editor.permissions.length, 1);
  assert.match(String(editor.permissions[0]?.toolCall.title), /notes\.note: from the editor/);
  const pid = Number(readFileSync(join(project, 'pid'), 'utf8'));
  await editor.prompt(id, 'call notes.add with {"a": 2, "b": 40}');
  assert.equal(Number(readFileSync(join(project, 'pid'), 'utf8')), pid, 'one process for the session');
  assert.ok(JSON.stringify(results(editor)).includes('42'));
  await editor.agent.request('session/close', { sessionId: id });
  await ended(pid);
});

test('a denied call is not made, and a tool that fails is a failed call', async (t) => {
  const { editor: start, project } = await served(t);
  let answer = 'deny';
  const editor = await start({ permission: () => choose(answer) });
  const id = await opened(editor, project, [notes(project)]);
  await editor.prompt(id, 'call notes.note with {"text": "never"}');
  assert.equal(existsSync(join(project, 'NOTES')), false);
  answer = 'once';
  await editor.prompt(id, 'call notes.fail');
  const statuses = editor.told('tool_call_update').flatMap(({ status }) => status ?? []);
  assert.deepEqual(
    statuses.filter((status) => status === 'completed'),
    [],
  );
  assert.ok(JSON.stringify(editor.told('tool_call_update')).includes('no luck'));
});

test('one that cannot be used is named with the reason, once, and the turn has all other tools', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start({ permission: () => choose('once') });
  const absent: McpServer = { name: 'absent', command: join(project, 'no-such-program'), args: [], env: [] };
  const old: McpServer = { type: 'sse', name: 'old', url: 'http://127.0.0.1:9/sse', headers: [] };
  const id = await opened(editor, project, [absent, old, notes(project)]);
  await editor.prompt(id, 'call notes.add with {"a": 1, "b": 2}');
  await editor.prompt(id, 'read notes.txt and count its lines');
  const lines = editor
    .said(id, 'agent_thought_chunk')
    .split('\n')
    .filter((line) => line.startsWith('MCP server'));
  assert.equal(lines.length, 2, lines.join('\n'));
  assert.match(lines.join('\n'), /MCP server "absent" cannot be used: cannot start .*no-such-program/);
  assert.match(lines.join('\n'), /MCP server "old" cannot be used: MCP servers over sse are not supported here/);
  assert.ok(JSON.stringify(results(editor)).includes('3'));
  assert.match(editor.said(id), /notes\.txt has 2 lines/);
});

test('a server that was killed is started again for the next turn', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start({ permission: () => choose('once') });
  const id = await opened(editor, project, [notes(project)]);
  await editor.prompt(id, 'call notes.add with {"a": 1, "b": 1}');
  const pid = Number(readFileSync(join(project, 'pid'), 'utf8'));
  process.kill(pid, 'SIGKILL');
  await ended(pid);
  await editor.prompt(id, 'call notes.add with {"a": 20, "b": 3}');
  assert.ok(JSON.stringify(results(editor)).includes('23'));
});

test('a tool whose definition changes while the session lives is no longer offered, and the user learns of it', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start({ permission: () => choose('once') });
  const server: McpServer = { name: 'odd', command: process.execPath, args: [odd], env: [] };
  const id = await opened(editor, project, [server]);
  await editor.prompt(id, 'call odd.shifty');
  assert.ok(JSON.stringify(results(editor)).includes('harmless'));
  await editor.prompt(id, 'call odd.change');
  const line = /MCP server "odd" changed its tools, .*: shifty;/;
  // The list is read again behind the call.
  for (const until = Date.now() + 30_000; Date.now() < until; await editor.prompt(id, 'call odd.pid')) {
    if (line.test(editor.said(id, 'agent_thought_chunk'))) break;
  }
  assert.match(editor.said(id, 'agent_thought_chunk'), line);
  await editor.prompt(id, 'call odd.shifty');
  assert.ok(!JSON.stringify(results(editor)).includes('sends your keys'));
});

test('a model is offered its tools, and what they return goes back to it', async (t) => {
  const { home, project } = desktop(t);
  const rounds: ScriptedRound[] = [
    { tool_calls: [{ id: 'c1', name: 'notes_add', input: { a: 2, b: 3 } }] },
    { text: 'it is five' },
  ];
  const model = await startModelServer({ models: [SCRIPTED_MODEL.model_id], otherwise: () => rounds.shift() });
  t.after(() => model[Symbol.asyncDispose]());
  const server = await modelServer(t, home, project, modelEnvironment(model));
  await using control = await connect(server.rpc);
  await control.rpc.modelSelect({ ...SCRIPTED_MODEL, provider: 'openai' });
  const session = await control.create({ cwd: project, mcpServers: [{ ...notes(project) }], approvals: 'allow' });
  const { text, stopReason } = await (await session.prompt('what is 2 and 3?')).result();
  assert.deepEqual([stopReason, text], ['end_turn', 'it is five']);
  const [first, second] = model.requests.map(({ body }) => body);
  assert.ok(first.tools.some(({ name }: { name: string }) => name === 'notes_add'));
  assert.match(JSON.stringify(second.input), /\b5\b/);
});

function modelServer(t: TestContext, home: string, project: string, env: Readonly<Record<string, string>>) {
  const config = defaultConfig({ env: { HANDFAST_HOME: home, ...env }, cwd: project });
  const server = assembleControl(config, {
    log: silentLog,
    version: () => '0.0.0',
    backend: 'model',
    env: { HOME: home, HANDFAST_KEYRING: 'off', ...env },
  });
  t.after(async () => (await server).rpc.stop('shutdown'));
  return server;
}

/**
 * Starts a server of the official kind over streamable HTTP that requires a header; its tool returns the folder it was
 * given.
 */
async function overHttp(t: TestContext): Promise<{ url: string; refused: () => number }> {
  const transports = new Map<string, NodeStreamableHTTPServerTransport>();
  let refused = 0;
  const server = createServer(async (request, response) => {
    if (request.headers.authorization !== 'Bearer of-the-editor') {
      refused += 1;
      response.writeHead(403).end();
      return;
    }
    let transport = transports.get(String(request.headers['mcp-session-id']));
    if (transport === undefined) {
      const opened = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (session) => void transports.set(session, opened),
      });
      const web = new OfficialServer({ name: 'web', version: '1.0.0' });
      web.registerTool('where', { description: 'says where' }, () => ({
        content: [{ type: 'text', text: 'over HTTP' }],
      }));
      await web.connect(opened);
      transport = opened;
    }
    await transport.handleRequest(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, refused: () => refused };
}

test('a server over HTTP is called with the headers of the editor, by the real command', async (t) => {
  const { url, refused } = await overHttp(t);
  const place = desktop(t);
  const editor = await startEditor(t, place, { permission: () => choose('once') });
  const { agentCapabilities } = await editor.initialize();
  assert.deepEqual(agentCapabilities?.mcpCapabilities, { http: true, sse: false });
  const web = (name: string, value: string): McpServer => {
    return { type: 'http', name, url, headers: [{ name: 'Authorization', value }] };
  };
  const mcpServers = [web('web', 'Bearer of-the-editor'), web('refused', 'Bearer of-another')];
  const { sessionId } = await editor.agent.request('session/new', { cwd: place.project, mcpServers });
  await editor.prompt(sessionId, 'call web.where');
  await editor.until(() => JSON.stringify(editor.told('tool_call_update')).includes('over HTTP'));
  assert.match(String(editor.permissions[0]?.toolCall.title), /^web\.where/);
  assert.match(editor.said(sessionId, 'agent_thought_chunk'), /MCP server "refused" cannot be used: /);
  assert.ok(refused() > 0);
});
