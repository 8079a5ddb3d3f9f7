/**
 * The shared part of the servers beside the MCP endpoint: the tool `echo`, which returns its arguments as JSON.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import { listening } from '../contenders/carriers.ts';
import type { Served } from '../contenders/contender.ts';

/** The kinds of connections of clients: pipes, HTTP with a session, HTTP requests that stand alone. */
export type Way = 'stdio' | 'sessions' | 'stateless';

export const INFO = { name: 'bench', version: '1.0.0' };
export const DESCRIPTION = 'Sends the text back';

export const echoed = (args: object) => ({ content: [{ type: 'text' as const, text: JSON.stringify(args) }] });

interface SessionTransport {
  handleRequest(request: IncomingMessage, response: ServerResponse): Promise<void>;
}

/** Serves a transport for each session: `open` connects one that calls back with the id of its session. */
export function serveSessions(open: (opened: (id: string) => void) => Promise<SessionTransport>): Promise<Served> {
  const transports = new Map<string, SessionTransport>();
  return listening(
    createServer(async (request, response) => {
      const id = request.headers['mcp-session-id'];
      let transport = transports.get(String(id));
      if (transport === undefined) {
        const made = await open((given) => void transports.set(given, made));
        transport = made;
      }
      await transport.handleRequest(request, response);
    }),
  );
}
