// An MCP server of the generation without sessions (2026-07-28) without a library, on stdio, or with HTTP as its argument over HTTP: each
// of its tools is a task. `work` ends when the file DONE exists in its folder, `fails` fails, `leaves` cancels itself, `asks` wants two names,
// one behind the other, `forgets` makes a task that it does not know. It appends what it is asked for to the file ASKED, and what is wrong
// with that.
import { appendFileSync, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const TASKS = 'io.modelcontextprotocol/tasks';
const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
const tasks = new Map();
const asked = (line) => appendFileSync('ASKED', `${process.pid} ${line}\n`);
const done = (result) => ({ result: { resultType: 'complete', ...result } });
const failed = (code, message, data) => ({ error: { code, message, data } });
const text = (said) => ({ content: [{ type: 'text', text: said }] });
const elicit = (message) => ({
  method: 'elicitation/create',
  params: { mode: 'form', message, requestedSchema: schema },
});

function stateOf(task) {
  const { tool, polls, names } = task;
  if (tool === 'fails') return { status: 'failed', error: { code: -32_602, message: 'no luck' } };
  if (tool === 'leaves') return { status: 'cancelled', statusMessage: 'nothing to do' };
  if (tool === 'asks') {
    if (names.length === 2) return { status: 'completed', result: text(`Hello ${names.join(' and ')}`) };
    // What was asked for first stays in the list for a while, as the protocol allows.
    const first = polls < 4 || names.length === 0 ? { first: elicit('the first?') } : {};
    return {
      status: 'input_required',
      inputRequests: names.length === 0 ? first : { ...first, second: elicit('the second?') },
    };
  }
  if (existsSync('DONE')) return { status: 'completed', result: text('worked') };
  return { status: 'working', statusMessage: `part ${Math.min(polls, 3)}` };
}

function described(task, resultType) {
  const at = '2026-01-01T00:00:00Z';
  const common = { taskId: task.taskId, createdAt: at, lastUpdatedAt: at, ttlMs: null, pollIntervalMs: 100 };
  return { result: { resultType, ...common, ...stateOf(task) } };
}

function reply(method, params) {
  if (/^(?:tasks|tools\/call)/.test(method)) asked(method);
  if (method === 'initialize') return failed(-32_601, 'without sessions alone');
  if (method === 'server/discover') {
    const capabilities = { tools: {}, extensions: { [TASKS]: {} } };
    const serverInfo = { name: 'tasks', version: '1' };
    const supportedVersions = ['2026-07-28'];
    return done({ supportedVersions, capabilities, serverInfo, ttlMs: 0, cacheScope: 'private' });
  }
  if (method === 'tools/list') {
    const tools = ['work', 'fails', 'leaves', 'asks', 'forgets'].map((name) => ({
      name,
      inputSchema: { type: 'object' },
    }));
    return done({ tools, ttlMs: 0, cacheScope: 'private' });
  }
  if (params?._meta?.['io.modelcontextprotocol/clientCapabilities']?.extensions?.[TASKS] === undefined) {
    asked(`WRONG ${method} without the extension`);
    return failed(-32_021, 'missing capability', { requiredCapabilities: { extensions: { [TASKS]: {} } } });
  }
  if (method === 'tools/call') {
    const taskId = `t${tasks.size + 1}`;
    const task = { taskId, tool: params.name, polls: 0, names: [] };
    if (params.name !== 'forgets') tasks.set(taskId, task);
    return described(task, 'task');
  }
  const task = tasks.get(params?.taskId);
  if (task === undefined) return failed(-32_602, `no task ${params?.taskId}`);
  if (method === 'tasks/get') {
    task.polls += 1;
    return described(task, 'complete');
  }
  if (method === 'tasks/update') {
    for (const [name, { content }] of Object.entries(params.inputResponses)) {
      if (name === (task.names.length === 0 ? 'first' : 'second')) task.names.push(content.name);
      else asked(`WRONG answer ${name}`);
    }
    return done({});
  }
  if (method === 'tasks/cancel') return done({});
  return failed(-32_601, 'no such method');
}

if (process.argv[2] === 'HTTP') {
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method, params } = JSON.parse(body);
    if (id === undefined) return void response.writeHead(202).end();
    if (method.startsWith('tasks/') && request.headers['mcp-name'] !== params.taskId) asked(`WRONG name of ${method}`);
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...reply(method, params) }));
  });
  server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, method, params } = JSON.parse(line);
    if (method === 'notifications/cancelled') asked('WRONG cancel');
    if (id !== undefined) process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...reply(method, params) })}\n`);
  }
}
