/**
 * One contender of `fleet-a2a.ts`, in a separate process that holds both of its ends: tasks that do nothing, from their
 * dispatcher to a worker and back, over one `node:http` server. Messages request a number of tasks, and the number at a
 * time.
 *
 * Each has its usual parts: the SDK its client, its request handler and its store in memory; the fleet its bus, the
 * strict decoder and a worker without a journal. The A2A agent of the fleet stores its tasks on disk and has its own
 * server.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AgentCard, Role, TaskState } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client';
import {
  AgentEvent,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  type RequestContext,
  ServerCallContext,
} from '@a2a-js/sdk/server';
import { a2aBus } from '../src/fleet/bus/a2a/orchestrator-bus.ts';
import { serveA2a } from '../src/fleet/bus/a2a/worker-server.ts';
import { httpPeerBus } from '../src/fleet/bus/http/orchestrator-bus.ts';
import { httpReceiver } from '../src/fleet/bus/http/worker-server.ts';
import type { FleetPeer, OrchestratorBus, PeerEvents } from '../src/fleet/bus/peer.ts';
import type { DispatchOutcome, ReplyChannel, WorkerPort } from '../src/fleet/bus/reply-channel.ts';
import { joinOverLink } from '../src/fleet/bus/stream/join.ts';
import { streamBus } from '../src/fleet/bus/stream/stream-bus.ts';
import type { Dispatched } from '../src/fleet/messages/decoded.ts';
import { announceMessage, dispatchMessage, resultMessage } from '../src/fleet/messages/encode.ts';
import { FEATURES } from '../src/protocol/fleet.ts';
import { connectHttp } from '../src/transport/http/http-client.ts';
import { httpSseEndpoint } from '../src/transport/http/http-sse.ts';
import type { Link } from '../src/transport/link.ts';
import { connectWebSocket, webSocketAcceptor } from '../src/transport/websocket.ts';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

interface Contender {
  /** Runs one task, there and back. */
  run(): Promise<void>;
  stop(): Promise<void>;
}

/** Returns a worker that does everything at once and stores nothing. */
function idleWorker(): WorkerPort {
  const outlets = new Map<string, ReplyChannel>();
  return {
    agentId: 'worker-1',
    incarnation: 'life-1',
    features: FEATURES,
    pools: [],
    maxConcurrent: 1_000,
    activeTasks: 0,
    draining: false,
    announce: async (contextId = null) =>
      announceMessage({
        worker: { agent_id: 'worker-1', features: [...FEATURES], protocol_versions: ['2.0'] },
        capabilities: { tools: ['terminal'], mcp_servers: [] },
        session: { context_id: contextId, incarnation: 'life-1', seq: 1 },
      }),
    attach(outlet) {
      outlets.set(outlet.name, outlet);
      return () => outlets.delete(outlet.name);
    },
    async receive({ task_id, envelope }: Dispatched, outlet): Promise<DispatchOutcome> {
      const begin = (): void => {
        const result = resultMessage({ task_id, status: 'done', tokens_spent: 0 }, { attempt: envelope.attempt });
        // A channel that has closed by now gets nothing: the run is over.
        (outlets.get(outlet.name) ?? outlet).deliverResult(result).catch(() => {});
      };
      return { kind: 'accepted', start: begin, abandon: async () => {} };
    },
    refuse: () => undefined,
    handle: async () => undefined,
  };
}

/** Runs tasks over a bus to its one worker. */
async function overBus(bus: OrchestratorBus, stop: () => Promise<void>): Promise<Contender> {
  const waiting = new Map<string, () => void>();
  const found = Promise.withResolvers<FleetPeer>();
  const events: PeerEvents = {
    joined() {},
    malformed() {},
    left() {},
    received(peer, message) {
      if (message.type === 'SESSION_ANNOUNCE') found.resolve(peer);
      if (message.type !== 'TASK_RESULT') return;
      waiting.get(message.task_id)?.();
      waiting.delete(message.task_id);
    },
  };
  await bus.start(events);
  let count = 0;
  return {
    async run() {
      const peer = await found.promise;
      const task_id = `t-${count++}`;
      const ended = new Promise<void>((resolve) => waiting.set(task_id, resolve));
      const envelope = { message_id: `${task_id}#1`, attempt: 1, lease: { ttl_s: 45, fence: 1 } };
      await peer.send(dispatchMessage({ task: { task_id }, brief: 'do nothing' }, envelope), { mode: 'structured' });
      await ended;
    },
    async stop() {
      await bus.close();
      await stop();
    },
  };
}

/** The one server. */
class Site {
  readonly #server = createServer((request, response) => {
    const handle = this.#handlers.get(request.url ?? '');
    if (handle !== undefined) return handle(request, response);
    response.writeHead(404).end();
  });
  readonly #handlers = new Map<string, RequestListener>();
  readonly #webSocket = webSocketAcceptor();
  accept: (link: Link) => void = () => {};

  async open(): Promise<this> {
    this.#server.on('upgrade', (request, socket, head) => {
      this.#webSocket.handle(request, socket, head, (link) => this.accept(link));
    });
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  serve(paths: readonly string[], handle: RequestListener): void {
    for (const path of paths) this.#handlers.set(path, handle);
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }
}

/** Returns a worker that has dialled, and its bus. */
async function overLink(listen: (accept: (link: Link) => void) => void, dial: () => Promise<Link>): Promise<Contender> {
  const bus = streamBus({ name: 'orchestrator', log: quiet });
  listen((link) => bus.accept(link));
  const contender = await overBus(bus, () => joined.close());
  const joined = joinOverLink(idleWorker(), dial, { log: quiet });
  await joined.accepted;
  return contender;
}

const webSocket = (site: Site): Promise<Contender> =>
  overLink(
    (accept) => {
      site.accept = accept;
    },
    () => connectWebSocket(`ws://127.0.0.1:${site.port}/ws`),
  );

const httpEvents = (site: Site): Promise<Contender> =>
  overLink(
    (accept) => {
      const { routes } = httpSseEndpoint({ accept });
      site.serve(['/session', '/send', '/stream'], (request, response) => {
        const route = routes.find(({ method, path }) => method === request.method && path === request.url);
        void route?.handle(request, response, route.path);
      });
    },
    () => connectHttp(`http://127.0.0.1:${site.port}`),
  );

async function httpDialect(site: Site): Promise<Contender> {
  const url = `http://127.0.0.1:${site.port}`;
  const receiver = httpReceiver({ worker: idleWorker(), repoPath: '/', url: () => url, log: quiet });
  const paths = ['/jsonrpc', '/health', '/announce', '/.well-known/agent-card.json'];
  site.serve(paths, (request, response) => receiver.handle(request, response));
  const bus = httpPeerBus({ name: 'orchestrator', peers: [{ name: 'worker-1', url }], log: quiet });
  return overBus(bus, async () => receiver.close());
}

async function a2aBinding(): Promise<Contender> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
  const agent = await serveA2a(idleWorker(), { port: 0, file: join(folder, 'a2a.db'), log: quiet });
  const bus = a2aBus({ peers: [{ name: 'worker-1', url: agent.address }], log: quiet });
  return overBus(bus, async () => {
    await agent.close();
    rmSync(folder, { recursive: true, force: true });
  });
}

/** Runs the SDK at both ends: `message/send` to an agent that is done at once. */
async function sdk(site: Site): Promise<Contender> {
  const text = (value: string) => ({
    content: { $case: 'text' as const, value },
    metadata: undefined,
    filename: '',
    mediaType: 'text/plain',
  });
  let handler: JsonRpcTransportHandler;
  site.serve(['/sdk'], (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const context = new ServerCallContext({ requestedVersion: '1.0' });
      const body = JSON.stringify(await handler.handle(Buffer.concat(chunks).toString(), context));
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
      response.end(body);
    });
  });
  const url = `http://127.0.0.1:${site.port}/sdk`;
  const card = AgentCard.fromJSON({
    name: 'idle',
    supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: { streaming: false },
  });
  const executor = {
    async execute({ taskId, contextId, userMessage }: RequestContext, bus: ExecutionEventBus) {
      const status = (state: TaskState) => ({ state, message: undefined, timestamp: new Date().toISOString() });
      const task = { id: taskId, contextId, artifacts: [], history: [userMessage], metadata: undefined };
      bus.publish(AgentEvent.task({ ...task, status: status(TaskState.TASK_STATE_WORKING) }));
      const artifact = {
        artifactId: 'reply',
        name: '',
        description: '',
        parts: [text('done')],
        metadata: undefined,
        extensions: [],
      };
      bus.publish(
        AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: false, lastChunk: true, metadata: undefined }),
      );
      bus.publish(
        AgentEvent.statusUpdate({
          taskId,
          contextId,
          status: status(TaskState.TASK_STATE_COMPLETED),
          metadata: undefined,
        }),
      );
    },
    async cancelTask() {},
  };
  handler = new JsonRpcTransportHandler(new DefaultRequestHandler(card, new InMemoryTaskStore(), executor));
  const client = await new ClientFactory({ transports: [new JsonRpcTransportFactory()] }).createFromAgentCard(card);
  let count = 0;
  return {
    async run() {
      const messageId = `m-${count++}`;
      const answer = await client.sendMessage({
        tenant: '',
        message: {
          messageId,
          contextId: '',
          taskId: '',
          role: Role.ROLE_USER,
          parts: [text('do nothing')],
          metadata: undefined,
          extensions: [],
          referenceTaskIds: [],
        },
        configuration: undefined,
        metadata: undefined,
      });
      if (!('status' in answer) || answer.status?.state !== TaskState.TASK_STATE_COMPLETED) throw new Error('not done');
    },
    stop: async () => {},
  };
}

/** A request to a contender. */
export interface Asked {
  readonly tasks: number;
  readonly atOnce: number;
}

/** The reply of a contender. */
export interface Measured {
  readonly tasksPerSecond: number;
  /** Of both ends together. */
  readonly cpuMicrosPerTask: number;
}

/** Runs a number of tasks, a number of them at a time. */
async function measured({ run }: Contender, { tasks, atOnce }: Asked): Promise<Measured> {
  let left = tasks;
  const cpu = process.cpuUsage();
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (left-- > 0) await run();
    }),
  );
  const tasksPerSecond = (tasks * 1000) / (performance.now() - begun);
  const { user, system } = process.cpuUsage(cpu);
  return { tasksPerSecond, cpuMicrosPerTask: (user + system) / tasks };
}

const begin = {
  sdk,
  'websocket-link': webSocket,
  'http-link': httpEvents,
  'http-dialect': httpDialect,
  a2a: a2aBinding,
};

export type ContenderName = keyof typeof begin;

const site = await new Site().open();
const contender = await begin[process.argv[2] as ContenderName](site);
process.on('message', async (asked: Asked) => process.send?.(await measured(contender, asked)));
process.once('disconnect', async () => {
  await contender.stop();
  await site.close();
});
process.send?.('ready');
