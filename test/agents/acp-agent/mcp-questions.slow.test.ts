/**
 * Questions that the MCP servers of a session ask while a call runs: real servers of both generations, answered by the user of an
 * editor, refused, and withdrawn.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { CreateElicitationResponse, McpServer } from '@agentclientprotocol/sdk';
import { choose, type EditorAnswers, type LocalEditor, served } from './editor.ts';

const program = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** The official server that uses every feature, of the generation with sessions. */
const everything: McpServer = {
  name: 'everything',
  command: process.execPath,
  args: [program('../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js'), 'stdio'],
  env: [],
};

const modern = (project: string): McpServer => ({
  name: 'modern',
  command: process.execPath,
  args: [program('../../support/mcp-modern.mjs')],
  env: [{ name: 'PID_FILE', value: join(project, 'pid') }],
});

const results = (editor: LocalEditor): string =>
  JSON.stringify(editor.told('tool_call_update').map(({ rawOutput, content }) => rawOutput ?? content));

async function opened(t: TestContext, answers: EditorAnswers) {
  const { editor: start, project } = await served(t);
  const editor = await start({ permission: () => choose('once'), ...answers });
  const mcpServers = [everything, modern(project)];
  const { sessionId } = await editor.agent.request('session/new', { cwd: project, mcpServers });
  return { editor, project, sessionId };
}

test('the user fills in the form of a server, of either generation, and the call has the answer', async (t) => {
  const form = (): CreateElicitationResponse => ({ action: 'accept', content: { name: 'Ada' } });
  const { editor, sessionId } = await opened(t, { form });
  await editor.prompt(sessionId, 'call everything.trigger-elicitation-request');
  assert.match(results(editor), /Ada/);
  await editor.prompt(sessionId, 'call modern.greet');
  assert.match(results(editor), /Hello Ada/);
  const [first, second] = editor.forms as unknown as Record<string, { properties: object }>[];
  assert.match(String(first?.message), /^MCP server "everything" asks: Please provide inputs/);
  assert.ok(Object.keys(first?.requestedSchema?.properties ?? {}).includes('name'));
  assert.equal(second?.message, 'MCP server "modern" asks: Who are you?');
});

test('the user declines a form and an address, which is shown whole; the server reads that', async (t) => {
  const form = (): CreateElicitationResponse => ({ action: 'decline' });
  const { editor, sessionId } = await opened(t, { form });
  await editor.prompt(sessionId, 'call everything.trigger-elicitation-request');
  assert.match(results(editor), /declined/);
  const address = { url: 'https://example.com/sign-in?\u202Enigol', message: 'Sign in' };
  await editor.prompt(sessionId, `call everything.trigger-url-elicitation with ${JSON.stringify(address)}`);
  const { message } = editor.forms[1] as { message: string };
  assert.equal(
    message,
    'MCP server "everything" asks you to open https://example.com/sign-in?%E2%80%AEnigol : Sign in',
  );
  assert.equal(results(editor).match(/declined/g)?.length, 2);
  // No program is opened, and none is shown either.
  const file = { url: 'file:///etc/passwd', message: 'Look' };
  await editor.prompt(sessionId, `call everything.trigger-url-elicitation with ${JSON.stringify(file)}`);
  assert.equal(editor.forms.length, 2);
});

test('any client of the session may answer; a question whose server has died is withdrawn, and the turn continues', async (t) => {
  const { editor, project, sessionId } = await opened(t, { form: () => new Promise(() => {}) });
  const approvals = async () => (await editor.control.rpc.approvalList({ session_id: sessionId, all: true })).approvals;
  const questions = async () => (await approvals()).filter(({ kind }) => kind === 'question');
  const turn = editor.prompt(sessionId, 'call modern.greet then call modern.greet then say "at last"');
  await editor.until(() => editor.forms.length === 1);
  const [first] = await questions();
  const content = { name: 'Bo' };
  await editor.control.rpc.approvalAnswer({ approval_id: String(first?.id), decision: 'allow', content });
  await editor.until(() => editor.forms.length === 2);
  process.kill(Number(readFileSync(join(project, 'pid'), 'utf8').trim().split('\n').at(-1)), 'SIGKILL');
  assert.equal((await turn).stopReason, 'end_turn');
  assert.match(results(editor), /Hello Bo/);
  assert.match(editor.said(sessionId), /at last/);
  assert.deepEqual((await questions()).map(({ state }) => state).sort(), ['allowed', 'cancelled']);
});

test('the user reads that what a server asked to be opened is done', async (t) => {
  const { editor: start, project } = await served(t);
  const editor = await start({ permission: () => choose('once'), form: () => ({ action: 'accept', content: {} }) });
  const address: McpServer = {
    name: 'address',
    command: process.execPath,
    args: [program('../../support/mcp-address.mjs')],
    env: [],
  };
  const { sessionId } = await editor.agent.request('session/new', { cwd: project, mcpServers: [address] });
  await editor.prompt(sessionId, 'call address.sign');
  const line = 'MCP server "address" says that it is done: https://example.com/sign';
  await editor.until(() => editor.said(sessionId, 'agent_thought_chunk').includes(line));
  assert.equal(editor.said(sessionId, 'agent_thought_chunk').split(line).length, 2);
});
