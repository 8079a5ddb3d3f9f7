/**
 * Tasks that do nothing, from an orchestrator to a worker and back: over the fleet's own links against `message/send` of
 * `@a2a-js/sdk`, on one machine in one run. Each side has its usual parts: the SDK its client, its request handler and its
 * store in memory on `node:http`; the fleet its bus, the strict decoder and a worker without a journal on a WebSocket of a
 * `node:http` server, and for comparison its HTTP dialect and its own A2A agent.
 *
 * Rounds take turns, so that what slows the machine down slows all; medians are compared. Not part of the check.
 *
 * Run with `node -C handfast-source bench/fleet-a2a.ts [tasks per round]`; about fifteen seconds.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
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
import { serveA2a } from '../src/fleet/bus/a2a/agent-server.ts';
import { a2aBus } from '../src/fleet/bus/a2a/peer-bus.ts';
import { listenHttp } from '../src/fleet/bus/http/http-listener.ts';
import { httpPeerBus } from '../src/fleet/bus/http/http-peer-bus.ts';
import { httpReceiver } from '../src/fleet/bus/http/receiver.ts';
import type { Reception, WorkerOutlet, WorkerPort } from '../src/fleet/bus/outlet.ts';
import type { FleetPeer, OrchestratorBus, PeerEvents } from '../src/fleet/bus/peer.ts';
import { joinOverLink } from '../src/fleet/bus/stream/join.ts';
import { streamBus } from '../src/fleet/bus/stream/stream-bus.ts';
import type { Dispatched } from '../src/fleet/messages/decoded.ts';
import { announceMessage, dispatchMessage, resultMessage } from '../src/fleet/messages/encode.ts';
import { FEATURES } from '../src/protocol/fleet.ts';
import { connectWebSocket, webSocketAcceptor } from '../src/transport/websocket.ts';

const TASKS = Number(process.argv[2] ?? 400);
const ROUNDS = 5;
const TARGET = 3;
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

interface Contender {
  readonly name: string;
  /** One task, there and back. */
  run(): Promise<void>;
  stop(): Promise<void>;
}

/** A worker that has done everything at once and remembers nothing. */
function idleWorker(): WorkerPort {
  const outlets = new Map<string, WorkerOutlet>();
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
    async receive({ task_id, envelope }: Dispatched, outlet): Promise<Reception> {
      const begin = (): void => {
        const result = resultMessage({ task_id, status: 'done', tokens_spent: 0 }, { attempt: envelope.attempt });
        // One that has gone by now is not sent to: the run is over.
        (outlets.get(outlet.name) ?? outlet).deliver(result).catch(() => {});
      };
      return { kind: 'accepted', begin, abandon: async () => {} };
    },
    refuse: () => undefined,
    handle: async () => undefined,
  };
}

/** Runs tasks over a bus to its one worker. */
async function overBus(name: string, bus: OrchestratorBus, stop: () => Promise<void>): Promise<Contender> {
  const waiting = new Map<string, () => void>();
  const found = Promise.withResolvers<FleetPeer>();
  const events: PeerEvents = {
    joined() {},
    unreadable() {},
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
    name,
    async run() {
      const peer = await found.promise;
      const task_id = `t-${count++}`;
      const ended = new Promise<void>((resolve) => waiting.set(task_id, resolve));
      const envelope = { message_id: `${task_id}#1`, attempt: 1, lease: { ttl_s: 45, fence: 1 } };
      await peer.send(dispatchMessage({ task: { task_id }, brief: 'do nothing' }, envelope), { mode: 'structured' });
      await ended;
    },
    async stop() {
      await bus.stop();
      await stop();
    },
  };
}

function listening(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

async function webSocket(): Promise<Contender> {
  const bus = streamBus({ name: 'orchestrator', log: quiet });
  const acceptor = webSocketAcceptor();
  const server = createServer();
  server.on('upgrade', (request, socket, head) => {
    acceptor.handle(request, socket, head, (link) => bus.accept(link));
  });
  const port = await listening(server);
  let leave = async (): Promise<void> => {};
  const contender = await overBus('fleet link, WebSocket', bus, async () => {
    await leave();
    await closed(server);
  });
  const joined = joinOverLink(idleWorker(), () => connectWebSocket(`ws://127.0.0.1:${port}/ws`), { log: quiet });
  leave = () => joined.leave();
  await joined.accepted;
  return contender;
}

async function httpDialect(): Promise<Contender> {
  let url = '';
  const receiver = httpReceiver({ worker: idleWorker(), repoPath: '/', url: () => url, log: quiet });
  const port = await listenHttp({ port: 0, hasTokens: false, handle: (...call) => receiver.handle(...call) });
  url = port.address;
  const bus = httpPeerBus({ name: 'orchestrator', peers: [{ name: 'worker-1', url }], log: quiet });
  return overBus('fleet over HTTP requests', bus, async () => {
    receiver.close();
    await port.close();
  });
}

async function a2aBinding(): Promise<Contender> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
  const agent = await serveA2a(idleWorker(), { port: 0, file: join(folder, 'a2a.db'), log: quiet });
  const bus = a2aBus({ peers: [{ id: 'worker-1', url: agent.address }], log: quiet });
  return overBus('fleet over A2A, tasks on disk', bus, async () => {
    await agent.close();
    rmSync(folder, { recursive: true, force: true });
  });
}

/** The SDK at both ends: `message/send` to an agent that is done at once. */
async function sdk(): Promise<Contender> {
  const text = (value: string) => ({
    content: { $case: 'text' as const, value },
    metadata: undefined,
    filename: '',
    mediaType: 'text/plain',
  });
  let handler: JsonRpcTransportHandler;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const context = new ServerCallContext({ requestedVersion: '1.0' });
      const body = JSON.stringify(await handler.handle(Buffer.concat(chunks).toString(), context));
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
      response.end(body);
    });
  });
  const url = `http://127.0.0.1:${await listening(server)}/`;
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
    name: '@a2a-js/sdk message/send',
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
    stop: () => closed(server),
  };
}

/** Tasks a second, so many at a time. */
async function rate({ run }: Contender, tasks: number, atOnce: number): Promise<number> {
  let left = tasks;
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (left-- > 0) await run();
    }),
  );
  return (tasks * 1000) / (performance.now() - begun);
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

const contenders = [await sdk(), await webSocket(), await httpDialect(), await a2aBinding()];
let reached = true;
try {
  for (const atOnce of [1, 16]) {
    const rates = new Map<Contender, number[]>(contenders.map((one) => [one, []]));
    for (const one of contenders) await rate(one, Math.ceil(TASKS / 4), atOnce);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const one of contenders) rates.get(one)?.push(await rate(one, TASKS, atOnce));
    }
    const base = median(rates.get(contenders[0]!) ?? []);
    console.log(`\n${atOnce} at a time, tasks/s, median of ${ROUNDS} rounds of ${TASKS}:`);
    for (const [{ name }, values] of rates) {
      const middle = median(values);
      console.log(`  ${name.padEnd(32)} ${middle.toFixed(0).padStart(7)}   ${(middle / base).toFixed(2)} x`);
    }
    const ratio = median(rates.get(contenders[1]!) ?? []) / base;
    reached &&= ratio >= TARGET;
  }
} finally {
  for (const one of contenders) await one.stop();
}
console.log(`\nTarget: the fleet link at ${TARGET} x the SDK or better: ${reached ? 'reached' : 'missed'}.`);
