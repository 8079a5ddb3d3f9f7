// An MCP server on stdio, without a library, that has its user open addresses: `sign` asks, `pay` refuses until it is done. What was done
// there is announced once the call has ended, and so is an id that it never asked with.
import { createInterface } from 'node:readline';

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const complete = (elicitationId) => send({ method: 'notifications/elicitation/complete', params: { elicitationId } });
const address = (name) => ({
  mode: 'url',
  message: name,
  url: `https://example.com/${name}`,
  elicitationId: `${name}-${process.pid}`,
});
const asked = new Map();
let number = 0;

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, result } = JSON.parse(line);
  if (method === 'initialize') {
    const { protocolVersion } = params;
    send({
      id,
      result: { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'address', version: '1' } },
    });
  } else if (method === 'tools/list') {
    send({ id, result: { tools: ['sign', 'pay'].map((name) => ({ name, inputSchema: { type: 'object' } })) } });
  } else if (method === 'tools/call' && params.name === 'sign') {
    number += 1;
    asked.set(`ask-${number}`, id);
    send({ id: `ask-${number}`, method: 'elicitation/create', params: address('sign') });
  } else if (method === 'tools/call') {
    send({ id, error: { code: -32042, message: 'pay first', data: { elicitations: [address('pay')] } } });
    complete(address('pay').elicitationId);
  } else if (asked.has(id)) {
    send({ id: asked.get(id), result: { content: [{ type: 'text', text: result?.action ?? 'refused' }] } });
    complete('of another server');
    complete(address('sign').elicitationId);
    complete(address('sign').elicitationId);
  } else if (id !== undefined && method !== undefined) send({ id, result: {} });
}
