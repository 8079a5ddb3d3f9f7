// An MCP server without a library that a test kills at a step of its choice: on stdio, or over HTTP on the port PORT. Each step is a
// line `PID STEP` of the file STEPS. STALL names steps whose first request in this file is never answered. Tools: `once`, and `safe`
// which may be repeated, make progress until they are cancelled when they stall; `ask` and `elicit` ask the client. On stdio it
// starts a program of its own, and with SLOW_END it ends late.
import { spawn } from 'node:child_process';
import { appendFileSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const { STEPS, PORT, STALL = '', SLOW_END } = process.env;
const log = (step) => appendFileSync(STEPS, `${process.pid} ${step}\n`);
const stalls = (step) =>
  STALL.split(',').includes(step) && readFileSync(STEPS, 'utf8').match(new RegExp(` ${step}$`, 'gm')).length === 1;

const inputSchema = { type: 'object' };
const annotations = { readOnlyHint: true };
const tools = [
  { name: 'once', inputSchema },
  { name: 'safe', inputSchema, annotations },
  { name: 'ask', inputSchema },
  { name: 'elicit', inputSchema },
];
const text = (value) => ({ content: [{ type: 'text', text: value }] });
const questions = {
  ask: {
    method: 'sampling/createMessage',
    params: { messages: [{ role: 'user', content: { type: 'text', text: 'think' } }], maxTokens: 5 },
  },
  elicit: {
    method: 'elicitation/create',
    params: { message: 'Who are you?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } },
  },
};
const running = new Map();
const asked = new Map();
let lastId = 0;

/** @param send sends a message within the reply to this one */
function receive({ id, method, params, result, error }, send) {
  const reply = (value) => send({ id, result: value }, true);
  switch (method) {
    case undefined:
      asked.get(id)?.(result ?? error);
      return asked.delete(id);
    case 'initialize': {
      log('initialize');
      if (stalls('initialize')) return;
      const capabilities = { tools: {}, resources: { subscribe: true } };
      return reply({
        protocolVersion: params.protocolVersion,
        capabilities,
        serverInfo: { name: 'steps', version: '1' },
      });
    }
    case 'tools/list':
      log('list');
      return stalls('list') ? undefined : reply({ tools });
    case 'resources/list':
      return reply({ resources: [{ uri: 'steps:one', name: 'one' }] });
    case 'resources/subscribe':
      log('subscribe');
      return reply({});
    case 'resources/unsubscribe':
      log('unsubscribe');
      return reply({});
    case 'tools/call': {
      const { name, _meta } = params;
      log(`call-${name}`);
      if (name in questions) {
        const own = `q${++lastId}`;
        asked.set(own, (said) => reply(text(JSON.stringify(said))));
        return send({ id: own, ...questions[name] });
      }
      if (!stalls(`call-${name}`)) return reply(text('done'));
      let progress = 0;
      const timer = setInterval(() => {
        progress += 1;
        send({ method: 'notifications/progress', params: { progressToken: _meta?.progressToken, progress } });
      }, 20);
      return running.set(id, () => clearInterval(timer));
    }
    case 'notifications/cancelled':
      log('cancelled');
      running.get(params.requestId)?.();
      return running.delete(params.requestId);
    default:
      if (id !== undefined) send({ id, error: { code: -32601, message: 'no such method' } }, true);
  }
}

if (PORT === undefined) {
  const { pid } = spawn('sleep', ['600'], { stdio: 'ignore' });
  appendFileSync(STEPS, `${pid} child\n`);
  log('started');
  if (SLOW_END) process.on('SIGTERM', () => {});
  const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  for await (const line of createInterface({ input: process.stdin })) receive(JSON.parse(line), send);
  log('ending');
  if (SLOW_END) setInterval(() => {}, 1_000);
} else {
  const session = `session-${process.pid}`;
  let lastStream;
  const server = createServer(async (request, response) => {
    const head = { 'mcp-session-id': session };
    if (request.method === 'DELETE') return response.writeHead(200).end();
    if (request.method === 'GET') {
      lastStream = response;
      return response.writeHead(200, { ...head, 'content-type': 'text/event-stream' }).flushHeaders();
    }
    const message = JSON.parse(await new Response(request).text());
    if (message.method !== 'initialize' && request.headers['mcp-session-id'] !== session)
      return response.writeHead(404).end();
    if (message.id === undefined || message.method === undefined) {
      response.writeHead(202, head).end();
      return receive(message, (sent) => lastStream?.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...sent })}\n\n`));
    }
    const opened = () => {
      if (!response.headersSent) response.writeHead(200, { ...head, 'content-type': 'text/event-stream' });
    };
    receive(message, (sent, isLast) => {
      opened();
      response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...sent })}\n\n`);
      if (isLast) response.end();
    });
    if (message.method === 'tools/call') opened();
  });
  server.listen(Number(PORT), '127.0.0.1', () => log('started'));
}
