/** The second generation of the official SDK, `@modelcontextprotocol/server`. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { listening } from '../contenders/carriers.ts';
import type { Served } from '../contenders/contender.ts';
import { DESCRIPTION, echoed, INFO, serveSessions, type Way } from './echo.ts';

function echoServer(): McpServer {
  const server = new McpServer(INFO);
  const inputSchema = z.object({ text: z.string(), n: z.number().int() });
  server.registerTool('echo', { description: DESCRIPTION, inputSchema }, echoed);
  return server;
}

export async function serve(way: Way): Promise<Served> {
  if (way === 'stdio') {
    serveStdio(echoServer);
    return {};
  }
  if (way === 'stateless') return listening(createServer(toNodeHandler(createMcpHandler(echoServer))));
  return serveSessions(async (onsessioninitialized) => {
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: true,
      onsessioninitialized,
    });
    await echoServer().connect(transport);
    return transport;
  });
}
