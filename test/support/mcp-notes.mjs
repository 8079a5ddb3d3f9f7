// An MCP server of the official kind on stdio, as an editor configures one: `add` adds numbers, `note` appends to the file
// NOTES in its folder, `fail` fails. Writes its process id to the file that PID_FILE names.
import { appendFileSync, writeFileSync } from 'node:fs';
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

if (process.env.PID_FILE) writeFileSync(process.env.PID_FILE, String(process.pid));
serveStdio(() => {
  const server = new McpServer({ name: 'notes', version: '1.0.0' });
  const numbers = z.object({ a: z.number(), b: z.number() });
  server.registerTool('add', { description: 'adds two numbers', inputSchema: numbers }, ({ a, b }) => ({
    content: [{ type: 'text', text: String(a + b) }],
  }));
  const text = z.object({ text: z.string() });
  server.registerTool('note', { description: 'stores a note', inputSchema: text }, ({ text: line }) => {
    appendFileSync('NOTES', `${line}\n`);
    return { content: [{ type: 'text', text: 'stored' }] };
  });
  server.registerTool('fail', { description: 'fails' }, () => ({
    content: [{ type: 'text', text: 'no luck' }],
    isError: true,
  }));
  return server;
});
