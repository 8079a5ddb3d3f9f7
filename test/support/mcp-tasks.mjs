// An MCP server on stdio without a library: the tool `work` is a task that ends when the file DONE exists in its folder, `fails` one
// that fails. It appends what it is asked for to the file ASKED, and sends a message at each level from the one it was set to.
import { appendFileSync, existsSync } from 'node:fs';
import { createInterface } from 'node:readline';

const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const execution = { taskSupport: 'required' };
const inputSchema = { type: 'object' };
let polls = 0;
let status = 'working';

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (/^(?:tasks|tools\/call|logging)/.test(method)) appendFileSync('ASKED', `${process.pid} ${method}\n`);
  const createdAt = '2026-01-01T00:00:00Z';
  const task = () => ({
    taskId: 't1',
    status,
    statusMessage: `part ${Math.min(polls, 3)}`,
    ttl: null,
    createdAt,
    lastUpdatedAt: createdAt,
    pollInterval: 100,
  });
  const reply = (result) => send({ id, result });
  if (method === 'initialize') {
    const capabilities = { tools: {}, logging: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } };
    reply({ protocolVersion: params.protocolVersion, capabilities, serverInfo: { name: 'tasks', version: '1' } });
  } else if (method === 'tools/list') {
    reply({ tools: ['work', 'fails'].map((name) => ({ name, inputSchema, execution })) });
  } else if (method === 'tools/call') {
    if (params.task === undefined) send({ id, error: { code: -32601, message: 'it is a task' } });
    else {
      status = 'working';
      if (params.name === 'fails') status = 'failed';
      reply({ task: task() });
    }
  } else if (method === 'tasks/get') {
    polls += 1;
    if (existsSync('DONE')) status = 'completed';
    reply(task());
  } else if (method === 'tasks/result') {
    const text = status === 'failed' ? 'no luck' : 'worked';
    reply({ content: [{ type: 'text', text }], ...(status === 'failed' && { isError: true }) });
  } else if (method === 'tasks/cancel') {
    status = 'cancelled';
    reply(task());
  } else if (method === 'logging/setLevel') {
    reply({});
    const logger = 'tests';
    for (const level of LEVELS.slice(LEVELS.indexOf(params.level))) {
      send({ method: 'notifications/message', params: { level, logger, data: { about: level } } });
    }
  } else if (id !== undefined) send({ id, error: { code: -32601, message: 'no such method' } });
}
