/** Tools that their servers run as tasks: polled until they end, with questions and cancel; and messages of servers. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createLog } from '../../../src/base/log.ts';
import type { ServerSettings } from '../../../src/capabilities/mcp/spec.ts';
import { agentOf, errorOf, everything, folder, mcpHost, until } from './support.ts';

const program = fileURLToPath(new URL('../../support/mcp-tasks.mjs', import.meta.url));
const modern = fileURLToPath(new URL('../../support/mcp-modern.mjs', import.meta.url));

async function tasks(t: TestContext, more: Partial<ServerSettings> = {}) {
  const cwd = folder(t);
  writeFileSync(join(cwd, 'ASKED'), '');
  const lines: string[] = [];
  const log = createLog({ level: 'debug', format: 'text', write: (line) => void lines.push(line) });
  const settings = { name: 'tasks', command: process.execPath, args: [program], cwd, ...more };
  const host = await mcpHost(t, { mcp: { servers: [settings] }, log });
  const agent = await agentOf(t, host);
  const asked = (): string[] => readFileSync(join(cwd, 'ASKED'), 'utf8').trim().split('\n');
  const count = (method: string): number => asked().filter((line) => line.endsWith(` ${method}`)).length;
  const pid = (): number => Number(asked()[0]?.split(' ')[0]);
  return { agent, cwd, lines, count, pid };
}

test('a call that becomes a task gives its result, its messages are progress, and it may ask', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [{ ...everything, mayAsk: ['elicitation'] }] } });
  const agent = await agentOf(t, host);
  const asked: string[] = [];
  agent.mcp.onElicitation(({ message }) => {
    asked.push(message);
    return { action: 'accept', content: { interpretation: 'technical' } };
  });
  const calling = agent.mcp.call('everything', 'simulate-research-query', { topic: 'links', ambiguous: true });
  const seen: unknown[] = [];
  for await (const { kind, data } of calling) if (kind === 'progress') seen.push(data.message);
  assert.match(JSON.stringify((await calling).data), /simulated research report/);
  assert.ok(seen.includes('Gathering sources...'), JSON.stringify(seen));
  assert.match(asked.join(), /multiple interpretations/);
});

test('a task is asked for until it ends; one that fails is a failure of the tool', async (t) => {
  const { agent, cwd, count } = await tasks(t);
  const calling = agent.mcp.call('tasks', 'work');
  for await (const { kind, data } of calling) {
    if (kind === 'progress' && data.message === 'part 3') writeFileSync(join(cwd, 'DONE'), '');
  }
  assert.equal((await calling).summary, 'worked');
  assert.equal(count('tools/call'), 1);
  assert.ok(count('tasks/get') >= 4);
  const failure = await errorOf(agent.mcp.call('tasks', 'fails'));
  assert.deepEqual([failure.code, failure.message], ['tool_error', 'no luck']);
});

test('a cancelled call, and one whose task does not change for too long, cancel the task', async (t) => {
  const { agent, count } = await tasks(t, { timeoutS: 1 });
  const calling = agent.mcp.call('tasks', 'work');
  const failed = errorOf(calling);
  await until(() => count('tasks/get') > 0);
  calling.cancel();
  assert.equal((await failed).code, 'cancelled');
  await until(() => count('tasks/cancel') === 1);
  const { code, detail } = await errorOf(agent.mcp.call('tasks', 'work'));
  assert.deepEqual([code, detail.may_have_run], ['timeout', true]);
  await until(() => count('tasks/cancel') === 2);
});

test('a server killed while a task runs: the call says that it may have run, and is not made again', async (t) => {
  const { agent, count, pid } = await tasks(t);
  const failed = errorOf(agent.mcp.call('tasks', 'work'));
  await until(() => count('tasks/get') > 0);
  process.kill(pid(), 'SIGKILL');
  const { code, detail } = await failed;
  assert.deepEqual([code, detail.may_have_run], ['mcp_transport_error', true]);
  assert.equal(count('tools/call'), 1);
});

test('messages of a server go to the log of the host and to its agents, from the level that is configured', async (t) => {
  const { agent, lines, count } = await tasks(t, { logLevel: 'warning' });
  const seen: unknown[] = [];
  agent.mcp.onNotification(
    ({ method, params }) => void (method === 'notifications/message' && seen.push(params.level)),
  );
  await agent.tools.list();
  await until(() => seen.length === 5);
  assert.deepEqual(seen, ['warning', 'error', 'critical', 'alert', 'emergency']);
  assert.equal(count('logging/setLevel'), 1);
  const logged = lines.filter((line) => line.includes('message of an MCP server'));
  assert.equal(logged.length, 5);
  assert.match(
    logged[0] ?? '',
    /warn {2}message of an MCP server: \{"about":"warning"\} server="tasks" logger="tests"/,
  );
  assert.match(logged[4] ?? '', /error message of an MCP server: \{"about":"emergency"\}/);
});

test('without sessions each call says the level', async (t) => {
  const { agent, lines } = await tasks(t, { args: [modern], logLevel: 'info' });
  await agent.mcp.call('tasks', 'say');
  await until(() => lines.some((line) => /info {2}message of an MCP server: said/.test(line)));
  const quiet = await tasks(t, { args: [modern], logLevel: 'error' });
  await quiet.agent.mcp.call('tasks', 'say');
  await until(() => quiet.lines.some((line) => /error message of an MCP server: loud/.test(line)));
  assert.ok(!quiet.lines.some((line) => line.includes('said')));
});
