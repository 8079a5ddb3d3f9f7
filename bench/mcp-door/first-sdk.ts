/** The first generation of the official SDK, `@modelcontextprotocol/sdk`. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';
import { listening } from '../contenders/carriers.ts';
import type { Served } from '../contenders/contender.ts';
import { DESCRIPTION, echoed, INFO, serveSessions, type Way } from './echo.ts';

// Its types are not written for `exactOptionalPropertyTypes`.
type Transport = Parameters<McpServer['connect']>[0];

function echoServer(): McpServer {
  const server = new McpServer(INFO);
  const inputSchema = { text: z.string(), n: z.number().int() };
  server.registerTool('echo', { description: DESCRIPTION, inputSchema }, echoed);
  return server;
}

export async function serve(way: Way): Promise<Served> {
  if (way === 'stdio') {
    await echoServer().connect(new StdioServerTransport());
    return {};
  }
  if (way === 'sessions') {
    return serveSessions(async (onsessioninitialized) => {
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        enableJsonResponse: true,
        onsessioninitialized,
      });
      await echoServer().connect(transport as Transport);
      return transport;
    });
  }
  return listening(
    createServer(async (request, response) => {
      const own = echoServer();
      const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
      await own.connect(transport as Transport);
      response.on('close', () => {
        void transport.close();
        void own.close();
      });
      await transport.handleRequest(request, response);
    }),
  );
}
