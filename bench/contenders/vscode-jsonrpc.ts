/**
 * `vscode-jsonrpc`, the JSON-RPC layer of the language server protocol: messages with a length header, typed requests,
 * and its own progress support for events. It has no WebSocket or HTTP transport.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, connect as openSocket } from 'node:net';
import {
  createMessageConnection,
  type MessageConnection,
  ProgressType,
  RequestType,
  SocketMessageReader,
  SocketMessageWriter,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-jsonrpc/node';
import { endChild, listening } from './carriers.ts';
import {
  type Contender,
  childFile,
  eventIndex,
  eventText,
  initializeLine,
  LOOPBACK,
  type Session,
  unsupported,
} from './contender.ts';

const initialize = new RequestType<{ client: string }, { capabilities: string[] }, void>('initialize');
const echo = new RequestType<{ text: string; n: number }, { text: string; n: number }, void>('echo');
const flood = new RequestType<{ count: number; token: number }, { count: number }, void>('flood');
const step = new ProgressType<{ level: string; message: string }>();

const OPENING = initializeLine({ client: 'bench' });

function serveConnection(connection: MessageConnection): void {
  connection.onRequest(initialize, () => ({ capabilities: ['tools'] }));
  connection.onRequest(echo, ({ text, n }) => ({ text, n }));
  connection.onRequest(flood, async ({ count, token }) => {
    let sent: Promise<void> | undefined;
    for (let index = 0; index < count; index++) {
      sent = connection.sendProgress(step, token, { level: 'info', message: eventText(index) });
    }
    await sent;
    return { count };
  });
  connection.listen();
}

async function openSession(connection: MessageConnection, close: () => Promise<void>): Promise<Session> {
  connection.listen();
  await connection.sendRequest(initialize, { client: 'bench' });
  let tokens = 0;
  return {
    echo: async (text, n) => (await connection.sendRequest(echo, { text, n })).text,
    flood: async (count, seen) => {
      const token = ++tokens;
      const listener = connection.onProgress(step, token, ({ message }) => seen(eventIndex(message)));
      await connection.sendRequest(flood, { count, token });
      listener.dispose();
    },
    close: async () => {
      connection.end();
      await close();
      connection.dispose();
    },
  };
}

export const contender: Contender = {
  name: 'vscode-jsonrpc',
  transports: ['stdio', 'tcp'],
  serve: async (transport) => {
    if (transport === 'stdio') {
      serveConnection(
        createMessageConnection(new StreamMessageReader(process.stdin), new StreamMessageWriter(process.stdout)),
      );
      return {};
    }
    if (transport !== 'tcp') return unsupported('vscode-jsonrpc', transport);
    return listening(
      createServer({ noDelay: true }, (socket) => {
        serveConnection(createMessageConnection(new SocketMessageReader(socket), new SocketMessageWriter(socket)));
      }),
    );
  },
  connect: async (target) => {
    if (target.transport === 'stdio') {
      const child = spawn(target.command, target.args, { stdio: ['pipe', 'pipe', 'inherit'] });
      await once(child, 'spawn');
      return openSession(
        createMessageConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin)),
        () => endChild(child),
      );
    }
    if (target.transport !== 'tcp') return unsupported('vscode-jsonrpc', target.transport);
    const socket = openSocket({ port: target.port, host: LOOPBACK, noDelay: true });
    await once(socket, 'connect');
    return openSession(
      createMessageConnection(new SocketMessageReader(socket), new SocketMessageWriter(socket)),
      async () => {
        if (!socket.closed) await once(socket, 'close');
      },
    );
  },
  start: {
    args: [childFile('vscode-jsonrpc.mjs')],
    opening: `Content-Length: ${OPENING.length}\r\n\r\n${OPENING}`,
    answers: '"result"',
  },
};
