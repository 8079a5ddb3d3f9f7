// A stdio server on the Model Context Protocol SDK for the `start` workload: answers `initialize`, has an `echo` tool.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

serveStdio(() => {
  const server = new McpServer({ name: 'bench', version: '1.0.0' });
  server.registerTool(
    'echo',
    { description: 'Sends the text back', inputSchema: z.object({ text: z.string(), n: z.number().int() }) },
    ({ text }) => ({ content: [{ type: 'text', text }] }),
  );
  return server;
});
