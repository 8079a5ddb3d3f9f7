/**
 * An A2A agent that has never heard of fleets: the SDK's own server, store and all, on `node:http`, controlled by a test.
 */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import {
  AgentCard,
  formatSSEErrorEvent,
  formatSSEEvent,
  type Message,
  Role,
  SSE_HEADERS,
  type Task,
  TaskState,
} from '@a2a-js/sdk';
import {
  AgentEvent,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  type RequestContext,
  ServerCallContext,
} from '@a2a-js/sdk/server';
import { text } from './agent-stand.ts';

/** The agent's reaction to a message. `say` and the rest publish; it has ended when this resolves. */
export type Doing = (at: Doings) => Promise<void> | void;

export interface Doings {
  readonly words: string;
  readonly request: RequestContext;
  /** Publishes the task, at work, with these words. */
  working(words?: string): void;
  /** Publishes the end, or a pause, with these words. */
  end(state: TaskState, words?: string): void;
  artifact(words: string): void;
  /** Answers with a message and no task. */
  message(words: string): void;
  /** Resolves when the client cancels the task. */
  readonly canceled: Promise<void>;
}

export interface PlainAgent {
  readonly address: string;
  readonly port: number;
  /** Messages that came, in order. */
  readonly heard: Message[];
  /** Headers of the calls, in order. */
  readonly headers: IncomingMessage['headers'][];
  close(): Promise<void>;
}

export async function plainAgent(
  test: TestContext,
  doing: Doing,
  { streaming = true, port = 0, token }: { streaming?: boolean; port?: number; token?: string } = {},
): Promise<PlainAgent> {
  const heard: Message[] = [];
  const headers: IncomingMessage['headers'][] = [];
  const cancels = new Map<string, () => void>();
  let address = '';
  const card = (): AgentCard =>
    AgentCard.fromJSON({
      name: 'plain',
      description: 'An agent.',
      version: '1.0.0',
      supportedInterfaces: [{ url: `${address}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
      capabilities: { streaming },
      defaultInputModes: ['text/plain'],
      defaultOutputModes: ['text/plain'],
      skills: [],
    });
  const executor = {
    async execute(request: RequestContext, bus: ExecutionEventBus): Promise<void> {
      heard.push(request.userMessage);
      const { promise, resolve } = Promise.withResolvers<void>();
      cancels.set(request.taskId, resolve);
      await doing(doings(request, bus, promise));
    },
    async cancelTask(taskId: string): Promise<void> {
      cancels.get(taskId)?.();
    },
  };
  const rpc = (): JsonRpcTransportHandler => handler;
  let handler: JsonRpcTransportHandler;
  const server = createServer((request, response) => {
    const answer = (status: number, value: unknown): void => {
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
    };
    if (request.url === '/.well-known/agent-card.json') return answer(200, AgentCard.toJSON(card()));
    headers.push(request.headers);
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) return answer(401, {});
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', async () => {
      const said = await rpc().handle(JSON.parse(body), new ServerCallContext({ requestedVersion: '1.0' }));
      if (!(Symbol.asyncIterator in said)) return answer(200, said);
      try {
        const first = await said.next();
        response.writeHead(200, SSE_HEADERS);
        if (!first.done) response.write(formatSSEEvent(first.value));
        for await (const event of said) response.write(formatSSEEvent(event));
      } catch (error) {
        const failed = {
          jsonrpc: '2.0',
          id: JSON.parse(body).id,
          error: JsonRpcTransportHandler.mapToJSONRPCError(error),
        };
        if (!response.headersSent) return answer(200, failed);
        response.write(formatSSEErrorEvent(failed));
      }
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  handler = new JsonRpcTransportHandler(new DefaultRequestHandler(card(), new InMemoryTaskStore(), executor));
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  test.after(close);
  return { address, port: (server.address() as AddressInfo).port, heard, headers, close };
}

function doings(request: RequestContext, bus: ExecutionEventBus, canceled: Promise<void>): Doings {
  const { taskId, contextId, userMessage } = request;
  const message = (words: string): Message => ({
    messageId: crypto.randomUUID(),
    role: Role.ROLE_AGENT,
    parts: [text(words)],
    taskId,
    contextId,
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  });
  const statusOf = (state: TaskState, words?: string): Task['status'] => ({
    state,
    message: words === undefined ? undefined : message(words),
    timestamp: new Date().toISOString(),
  });
  let begun = false;
  const begin = (state: TaskState, words?: string): void => {
    begun = true;
    const status = statusOf(state, words);
    bus.publish(
      AgentEvent.task({ id: taskId, contextId, status, artifacts: [], history: [userMessage], metadata: undefined }),
    );
  };
  return {
    words: userMessage.parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join(''),
    request,
    canceled,
    message: (words) => bus.publish(AgentEvent.message({ ...message(words), taskId: '' })),
    working(words) {
      if (!begun) return begin(TaskState.TASK_STATE_WORKING, words);
      const status = statusOf(TaskState.TASK_STATE_WORKING, words);
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: undefined }));
    },
    artifact(words) {
      if (!begun) begin(TaskState.TASK_STATE_WORKING);
      const artifact = {
        artifactId: 'reply',
        name: '',
        description: '',
        parts: [text(words)],
        metadata: undefined,
        extensions: [],
      };
      bus.publish(
        AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: false, lastChunk: true, metadata: undefined }),
      );
    },
    end(state, words) {
      if (!begun) begin(TaskState.TASK_STATE_WORKING);
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: statusOf(state, words), metadata: undefined }));
    },
  };
}
