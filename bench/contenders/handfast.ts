/**
 * `handfast` as its users have it: a host with a tool, `connect`, `agent.tools.call`, events by `for await`. No feature
 * is switched off; limits are only raised for the workloads. The variants add a hash-chained audit or the SQLite
 * journal (with which sessions can be resumed), or take events by callback.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Agent, connect, createHost, type Host, type HostOptions, tool, toolsPlugin } from 'handfast';
import { openAudit } from 'handfast/host';
import { memoryJournal, sqliteJournal } from 'handfast/journal';
import { built } from './built.ts';
import {
  type Contender,
  eventIndex,
  eventText,
  LOOPBACK,
  MAX_MESSAGE_BYTES,
  type Served,
  type Session,
  type Target,
  type TransportName,
} from './contender.ts';
import { handshakeRequest } from './messages.ts';

/** The command as it is installed. */
const command = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

const echo = tool({
  name: 'echo',
  description: 'Sends the text back',
  input: {
    type: 'object',
    properties: { text: { type: 'string' }, n: { type: 'integer' } },
    required: ['text', 'n'],
  },
  run: ({ text, n }: { text: string; n: number }) => ({ text, n }),
});

const flood = tool({
  name: 'flood',
  description: 'Sends events',
  input: { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] },
  run: async ({ count }: { count: number }, context) => {
    for (let index = 0; index < count; index++) {
      // `emit` only gives a promise when the reader is behind.
      const behind = context.emit('log', { level: 'info', message: eventText(index) });
      if (behind !== undefined) await behind;
    }
    return { count };
  },
});

/** Returns the additions of a variant to the host. */
export type Extras = (folder: string) => Promise<Partial<HostOptions>>;

/** Starts a host with the tools of the benchmark, or with the additions of `extras` instead. */
export async function startHost(extras: Extras | undefined): Promise<Host> {
  let added: Partial<HostOptions> = {};
  if (extras !== undefined) {
    const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
    process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
    added = await extras(folder);
  }
  const host = createHost({
    plugins: [toolsPlugin({ tools: [echo, flood] })],
    // The journal's ring, as `handfast up` has it by default: sessions can be resumed.
    journal: memoryJournal(),
    forgetClosed: true,
    limits: {
      maxParallel: 64,
      maxMessageBytes: MAX_MESSAGE_BYTES,
      // The `idle` workload opens 10,000 after its warm-up, some of which may still be closing.
      maxSessions: 20_000,
    },
    ...added,
  });
  await host.start();
  return host;
}

/** Serves that host on a transport. */
export async function serve(transport: TransportName, extras: Extras | undefined): Promise<Served> {
  const host = await startHost(extras);
  const accept = host.accept.bind(host);
  switch (transport) {
    case 'stdio': {
      const { stdioLink } = await built<typeof import('../../src/transport/stdio.ts')>('transport/stdio');
      host.accept(stdioLink());
      return {};
    }
    case 'tcp': {
      const { listenTcp } = await built<typeof import('../../src/transport/socket.ts')>('transport/socket');
      const listener = await listenTcp({ host: LOOPBACK, port: 0 }, accept);
      return { port: Number(new URL(listener.address).port) };
    }
    case 'websocket': {
      const { httpServer } = await built<typeof import('../../src/server/http/http.ts')>('server/http/http');
      const { webSocketAcceptor } =
        await built<typeof import('../../src/transport/websocket.ts')>('transport/websocket');
      const { port } = await httpServer({ webSocket: webSocketAcceptor(), accept });
      return { port };
    }
    case 'http': {
      const { httpServer } = await built<typeof import('../../src/server/http/http.ts')>('server/http/http');
      const { httpSseEndpoint } =
        await built<typeof import('../../src/transport/http/http-sse.ts')>('transport/http/http-sse');
      const { port } = await httpServer({ endpoint: httpSseEndpoint({ accept }) });
      return { port };
    }
    case 'memory':
      throw new Error('in memory both ends are made by connect');
  }
}

/** Returns the address that `connect` takes. */
export function addressOf(target: Exclude<Target, { transport: 'memory' }>): string {
  switch (target.transport) {
    case 'stdio':
      return `stdio:${[target.command, ...target.args].join(' ')}`;
    case 'tcp':
      return `tcp://${LOOPBACK}:${target.port}`;
    case 'websocket':
      return `ws://${LOOPBACK}:${target.port}/ws`;
    case 'http':
      return `http://${LOOPBACK}:${target.port}`;
  }
}

function sessionOf(agent: Agent<'tools'>, byCallback: boolean, stop: () => Promise<void>): Session {
  return {
    echo: async (text, n) => (await agent.tools.call<{ text: string }>('echo', { text, n })).data?.text ?? '',
    flood: async (count, seen) => {
      if (byCallback) {
        await agent.tools.call('flood', { count }, { onEvent: ({ data }) => seen(eventIndex(String(data.message))) });
        return;
      }
      const call = agent.tools.call('flood', { count }, { streaming: true });
      for await (const { data } of call) seen(eventIndex(String(data.message)));
      await call;
    },
    close: async () => {
      await agent.close();
      await stop();
    },
  };
}

function variant(name: string, options: { extras?: Extras; byCallback?: boolean } = {}): Contender {
  const { extras, byCallback = false } = options;
  return {
    name,
    transports: ['memory', 'stdio', 'tcp', 'websocket', 'http'],
    serve: (transport) => serve(transport, extras),
    connect: async (target) => {
      const asked = { agentId: 'bench', capabilities: ['tools'], maxMessageBytes: MAX_MESSAGE_BYTES } as const;
      if (target.transport !== 'memory') {
        return sessionOf(await connect(addressOf(target), asked), byCallback, async () => {});
      }
      const host = await startHost(extras);
      return sessionOf(await connect(host, asked), byCallback, () => host.close());
    },
    start: {
      args: [command, 'stdio'],
      opening: `${JSON.stringify(handshakeRequest('1'))}\n`,
      answers: '"ok":true',
    },
    scanner: async (onText) => {
      const { LineReader } = await built<typeof import('../../src/wire/frame.ts')>('wire/frame');
      // All of a chunk at once: the measurement is about the cutting.
      const share = { spend: () => false, renew: () => {} };
      const reader = new LineReader({ line: onText, malformed: () => {} }, MAX_MESSAGE_BYTES, false, share);
      return (chunk) => reader.push(chunk);
    },
  };
}

export const contender: Contender = variant('handfast');

export const withCallback: Contender = variant('handfast+onevent', { byCallback: true });

export const withAudit: Contender = variant('handfast+audit', {
  extras: async (folder) => ({
    audit: openAudit({ file: join(folder, 'audit.jsonl'), maxBytes: 64 * 1024 * 1024, maxFiles: 2 }),
  }),
});

export const withSqlite: Contender = variant('handfast+sqlite', {
  extras: async (folder) => ({ journal: await sqliteJournal({ file: join(folder, 'journal.sqlite') }) }),
});

/** With `handfast record` between agent and host, in a separate process that writes a bundle. */
export const withRecorder: Contender = {
  ...contender,
  name: 'handfast+record',
  transports: ['tcp'],
  serve: async (transport) => {
    const { port } = await serve(transport, undefined);
    const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
    const words = ['--connect', `tcp://${LOOPBACK}:${port}`, '--listen', `tcp://${LOOPBACK}:0`, '--json'];
    const args = [command, 'record', '--out', join(folder, 'recording'), ...words];
    const recorder = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    process.on('exit', () => {
      recorder.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    });
    const [line] = await once(createInterface({ input: recorder.stdout }), 'line');
    return { port: Number(new URL(JSON.parse(String(line)).address).port) };
  },
};
