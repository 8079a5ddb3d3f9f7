/**
 * `@agentclientprotocol/sdk`, the Agent Client Protocol: an extension method with a zod parser for the call, and for
 * events the protocol's own stream, a prompt with `session/update` notifications as its reply. TCP carries the same
 * NDJSON stream; the SDK's HTTP and WebSocket transports are experimental and are left out.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, connect as openSocket } from 'node:net';
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';
import { z } from 'zod';
import { endChild, listening } from './carriers.ts';
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

const ECHO = '_bench/echo';
const echoParams = z.object({ text: z.string(), n: z.number().int() });

function agentApp(): acp.AgentApp {
  return acp
    .agent({ name: 'bench' })
    .onRequest(acp.methods.agent.initialize, () => ({
      protocolVersion: acp.PROTOCOL_VERSION,
      agentCapabilities: {},
    }))
    .onRequest(ECHO, echoParams, ({ params }) => ({ text: params.text, n: params.n }))
    .onRequest(acp.methods.agent.session.prompt, async ({ params, client }) => {
      const block = params.prompt[0];
      const count = block?.type === 'text' ? Number(block.text) : 0;
      for (let index = 0; index < count; index++) {
        await client.notify(acp.methods.client.session.update, {
          sessionId: params.sessionId,
          update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: eventText(index) } },
        });
      }
      return { stopReason: 'end_turn' as const };
    });
}

function byteStream(output: Writable, input: Readable): acp.Stream {
  return acp.ndJsonStream(
    Writable.toWeb(output) as WritableStream<Uint8Array>,
    Readable.toWeb(input) as ReadableStream<Uint8Array>,
    { maxMessageBytes: MAX_MESSAGE_BYTES },
  );
}

async function openSession(target: acp.Stream | acp.AgentApp, close: () => Promise<void>): Promise<Session> {
  const listeners = new Map<string, (index: number) => void>();
  let sessions = 0;
  const app = acp.client({ name: 'bench' }).onNotification(acp.methods.client.session.update, ({ params }) => {
    const update = params.update;
    if (update.sessionUpdate !== 'agent_message_chunk' || update.content.type !== 'text') return;
    listeners.get(params.sessionId)?.(eventIndex(update.content.text));
  });
  // The two overloads take one of the two each.
  const connection = target instanceof acp.AgentApp ? app.connect(target) : app.connect(target);
  await connection.agent.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  return {
    echo: async (text, n) => (await connection.agent.request<{ text: string }>(ECHO, { text, n })).text,
    flood: async (count, seen) => {
      const sessionId = `flood-${++sessions}`;
      listeners.set(sessionId, seen);
      await connection.agent.request(acp.methods.agent.session.prompt, {
        sessionId,
        prompt: [{ type: 'text', text: String(count) }],
      });
      listeners.delete(sessionId);
    },
    close: async () => {
      connection.close();
      await close();
    },
  };
}

export const contender: Contender = {
  name: '@agentclientprotocol/sdk',
  transports: ['memory', 'stdio', 'tcp'],
  serve: async (transport) => {
    if (transport === 'stdio') {
      agentApp().connect(byteStream(process.stdout, process.stdin));
      return {};
    }
    if (transport !== 'tcp') return unsupported('@agentclientprotocol/sdk', transport);
    return listening(
      createServer({ noDelay: true }, (socket) => {
        socket.on('error', () => {});
        agentApp().connect(byteStream(socket, socket));
      }),
    );
  },
  connect: async (target) => {
    if (target.transport === 'memory') return openSession(agentApp(), async () => {});
    if (target.transport === 'stdio') {
      const child = spawn(target.command, target.args, { stdio: ['pipe', 'pipe', 'inherit'] });
      await once(child, 'spawn');
      return openSession(byteStream(child.stdin, child.stdout), () => endChild(child));
    }
    if (target.transport !== 'tcp') return unsupported('@agentclientprotocol/sdk', target.transport);
    const socket = openSocket({ port: target.port, host: LOOPBACK, noDelay: true });
    socket.on('error', () => {});
    await once(socket, 'connect');
    return openSession(byteStream(socket, socket), async () => {
      if (socket.closed) return;
      socket.end();
      await once(socket, 'close');
    });
  },
  start: {
    args: [childFile('acp.mjs')],
    opening: initializeLine({ protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} }),
    answers: '"result"',
  },
};
