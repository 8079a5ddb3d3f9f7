/** An MCP server of few lines, without a library: a tool that returns its arguments, a prompt and a resource. */
import { createInterface } from 'node:readline';

const results = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {}, prompts: {}, resources: {}, completions: {} },
    serverInfo: { name: 'notes', version: '1' },
  }),
  'tools/list': () => ({
    tools: [{ name: 'same', description: 'Gives it back', inputSchema: { type: 'object', properties: { value: {} } } }],
  }),
  'tools/call': ({ arguments: given }) => ({ content: [{ type: 'text', text: JSON.stringify(given) }] }),
  'prompts/list': () => ({ prompts: [{ name: 'ask', arguments: [{ name: 'about' }] }] }),
  'prompts/get': ({ arguments: given }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: JSON.stringify(given ?? {}) } }],
  }),
  'resources/list': () => ({ resources: [{ uri: 'note://one', name: 'one' }] }),
  'resources/templates/list': () => ({ resourceTemplates: [] }),
  'resources/read': ({ uri }) => ({ contents: [{ uri, text: 'a note' }] }),
  'completion/complete': () => ({ completion: { values: ['one'] } }),
  ping: () => ({}),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined || method === undefined) continue;
  const result = results[method];
  const body = result ? { result: result(params) } : { error: { code: -32601, message: 'no such method' } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...body })}\n`);
}
