// An MCP server on stdio, without a library, that follows SCRIPT: an object of JSON with `tools`, and with `replies` by method, or by the name
// of a called tool. A reply that is a text is written as it is, with ID for the id; any other reply is the result.
import { createInterface } from 'node:readline';

const { name = 'scripted', tools = [], replies = {} } = JSON.parse(process.env.SCRIPT ?? '{}');
const ready = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name, version: '1' } };

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const key = method === 'tools/call' && Object.hasOwn(replies, params.name) ? params.name : method;
  const called = { content: [{ type: 'text', text: `${name} ${params?.name}` }] };
  const results = { initialize: ready, 'tools/list': { tools }, 'tools/call': called };
  const reply = Object.hasOwn(replies, key) ? replies[key] : results[key];
  if (typeof reply === 'string') process.stdout.write(`${reply.replaceAll('ID', JSON.stringify(id))}\n`);
  else if (reply === undefined)
    process.stdout.write(
      `${JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } })}\n`,
    );
  else process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result: reply })}\n`);
}
