/**
 * The Model Context Protocol SDK (`@modelcontextprotocol/client` with `/server` and `/node`): a tool with a zod input
 * schema; progress notifications for events; its own stdio, streamable HTTP and in-memory transports.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import { Client, InMemoryTransport, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { listening } from './carriers.ts';
import {
  type Contender,
  childFile,
  eventIndex,
  eventText,
  initializeLine,
  LOOPBACK,
  MAX_MESSAGE_BYTES,
  type Session,
  unsupported,
} from './contender.ts';

function mcpServer(): McpServer {
  const server = new McpServer({ name: 'bench', version: '1.0.0' });
  server.registerTool(
    'echo',
    { description: 'Sends the text back', inputSchema: z.object({ text: z.string(), n: z.number().int() }) },
    ({ text }) => ({ content: [{ type: 'text', text }] }),
  );
  server.registerTool(
    'flood',
    { description: 'Sends events', inputSchema: z.object({ count: z.number().int() }) },
    async ({ count }, context) => {
      const progressToken = context.mcpReq._meta?.progressToken;
      for (let index = 0; index < count && progressToken !== undefined; index++) {
        await context.mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken, progress: index, total: count, message: eventText(index) },
        });
      }
      return { content: [{ type: 'text', text: String(count) }] };
    },
  );
  return server;
}

/**
 * Returns the handler with one transport and server for each MCP session: measured here, it is the fastest documented
 * way with events.
 */
function sessionHandler(): RequestListener {
  const transports = new Map<string, NodeStreamableHTTPServerTransport>();
  const transportOf = async (id: string | undefined): Promise<NodeStreamableHTTPServerTransport> => {
    const known = id === undefined ? undefined : transports.get(id);
    if (known !== undefined) return known;
    const opened: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => {
        transports.set(session, opened);
      },
    });
    await mcpServer().connect(opened);
    return opened;
  };
  return async (request, response) => {
    const id = request.headers['mcp-session-id'];
    await (await transportOf(typeof id === 'string' ? id : undefined)).handleRequest(request, response);
  };
}

async function openSession(transport: Transport): Promise<Session> {
  const client = new Client({ name: 'bench', version: '1.0.0' });
  await client.connect(transport);
  return {
    echo: async (text, n) => {
      const { content } = await client.callTool({ name: 'echo', arguments: { text, n } });
      const block = content[0];
      return block?.type === 'text' ? block.text : '';
    },
    flood: async (count, seen) => {
      await client.callTool(
        { name: 'flood', arguments: { count } },
        { onprogress: ({ message }) => seen(eventIndex(message ?? '')) },
      );
    },
    close: () => client.close(),
  };
}

export const contender: Contender = {
  name: '@modelcontextprotocol/client',
  transports: ['memory', 'stdio', 'http'],
  serve: async (transport) => {
    if (transport === 'stdio') {
      serveStdio(mcpServer);
      return {};
    }
    if (transport !== 'http') return unsupported('@modelcontextprotocol/client', transport);
    return listening(createServer(sessionHandler()));
  },
  connect: async (target) => {
    if (target.transport === 'memory') {
      const [near, far] = InMemoryTransport.createLinkedPair();
      await mcpServer().connect(far);
      return openSession(near);
    }
    if (target.transport === 'stdio') {
      return openSession(
        new StdioClientTransport({
          command: target.command,
          args: [...target.args],
          maxBufferSize: MAX_MESSAGE_BYTES,
        }),
      );
    }
    if (target.transport !== 'http') return unsupported('@modelcontextprotocol/client', target.transport);
    return openSession(new StreamableHTTPClientTransport(new URL(`http://${LOOPBACK}:${target.port}/mcp`)));
  },
  start: {
    args: [childFile('mcp.mjs')],
    opening: initializeLine({
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'bench', version: '1.0.0' },
    }),
    answers: '"result"',
  },
};
