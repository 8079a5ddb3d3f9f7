// An MCP server of the generation without sessions alone (2026-07-28), of the official kind, on stdio. The tool `touch` changes
// the resource modern:notes, `grow` adds a tool, `greet` asks a person for a name, `think` a model; `count` makes progress until it is cancelled,
// and `say` sends two messages.
import { appendFileSync } from 'node:fs';
import { acceptedContent, inputRequired, inputResponse, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

// Its process id, for tests that end it.
if (process.env.PID_FILE) appendFileSync(process.env.PID_FILE, `${process.pid}\n`);

const text = (value) => ({ content: [{ type: 'text', text: value }] });
const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };

serveStdio(
  () => {
    const capabilities = {
      resources: { subscribe: true, listChanged: true },
      tools: { listChanged: true },
      logging: {},
    };
    const server = new McpServer({ name: 'modern', version: '1.0.0' }, { capabilities });
    server.registerResource('notes', 'modern:notes', {}, (uri) => ({ contents: [{ uri: uri.href, text: 'notes' }] }));
    server.registerTool('touch', { description: 'touch' }, async () => {
      await server.server.sendResourceUpdated({ uri: 'modern:notes' });
      return text('touched');
    });
    server.registerTool('grow', { description: 'grow' }, () => {
      server.registerTool('grown', { description: 'grown' }, () => text('grown'));
      return text('grown');
    });
    server.registerTool('greet', { description: 'greet' }, ({ mcpReq }) => {
      const said = acceptedContent(mcpReq.inputResponses, 'who');
      if (said !== undefined) return text(`Hello ${said.name}`);
      return inputRequired({
        inputRequests: { who: inputRequired.elicit({ message: 'Who are you?', requestedSchema: schema }) },
      });
    });
    server.registerTool('think', { description: 'think' }, ({ mcpReq }) => {
      const said = inputResponse(mcpReq.inputResponses, 'thought');
      if (said.kind === 'sampling') return text(`Thought: ${said.result.content.text}`);
      const messages = [{ role: 'user', content: { type: 'text', text: 'think' } }];
      return inputRequired({ inputRequests: { thought: inputRequired.createMessage({ messages, maxTokens: 10 }) } });
    });
    server.registerTool('count', { description: 'count' }, async ({ mcpReq }) => {
      const { progressToken } = mcpReq._meta ?? {};
      for (let progress = 1; !mcpReq.signal.aborted; progress += 1) {
        await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress } });
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      console.error('modern server: cancelled');
      return text('cancelled');
    });
    server.registerTool('say', { description: 'say' }, async ({ mcpReq }) => {
      await mcpReq.log('info', 'said');
      await mcpReq.log('error', 'loud');
      return text('said');
    });
    return server;
  },
  { legacy: 'reject' },
);
