/**
 * The A2A agent of a worker: routes its HTTP requests, runs them through the SDK, and recovers the tasks of an earlier process.
 *
 * @see docs/a2a.md#agent
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { noteLoss } from '../../../base/sqlite/losses.ts';
import { processTimer } from '../../../base/timer-queue.ts';
import { trimmedEnd } from '../../../base/trim-end.ts';
import { asError } from '../../../wire/errors.ts';
import type { Members } from '../../../wire/strict-json.ts';
import { CARD_PATH } from '../plain/card.ts';
import { type Authenticated, HttpServer, respond } from '../plain/http-server.ts';
import { errorResponse, type RpcId, readRpcBody, rpcId } from '../plain/rpc.ts';
import type { WorkerPort } from '../reply-channel.ts';
import { busyIn } from './admission.ts';
import { extendedCard, JSON_RPC, publicCard } from './card.ts';
import { A2aExecutions, isPassing } from './executions.ts';
import { STATE } from './messages.ts';
import { questionAskedIn } from './questions.ts';
import { speaksFleet } from './reply-channel.ts';
import { FleetRequestHandler } from './request-handler.ts';
import { invalidParams, isA2aMethod } from './request-params.ts';
import type { A2aServerSdk, ServerCallContext } from './sdk.ts';
import { streamEvents } from './sse.ts';
import { openA2aTaskStore } from './task-store.ts';
import { A2aWorkerAdapter } from './worker-adapter.ts';
import type { A2aAgent, A2aAgentOptions } from './worker-server.ts';

export { loadA2aServer } from './sdk.ts';

/** Path of JSON-RPC, below the address of the agent. */
const AGENT_PATH = '/a2a';

export class WorkerAgent implements A2aAgent {
  readonly #worker: WorkerPort;
  readonly #options: A2aAgentOptions;
  readonly #sdk: A2aServerSdk;
  readonly #store: ReturnType<typeof openA2aTaskStore>;
  readonly #executions: A2aExecutions;
  readonly #adapter: A2aWorkerAdapter;
  readonly #rpc: InstanceType<A2aServerSdk['server']['JsonRpcTransportHandler']>;
  readonly #server: HttpServer;
  readonly #base: string;
  /** Reason of the worker's SESSION_BYE. */
  #asleep: string | undefined;
  #closed = false;

  constructor(worker: WorkerPort, options: A2aAgentOptions, sdk: A2aServerSdk) {
    const { log, file, retainMs, now = Date.now, newId = () => crypto.randomUUID() } = options;
    this.#worker = worker;
    this.#options = options;
    this.#sdk = sdk;
    this.#base = trimmedEnd(options.base ?? '', '/');
    this.#server = new HttpServer({
      ...options,
      routes: {
        [this.#base + CARD_PATH]: {
          open: (_, response) =>
            respond(response, 200, sdk.core.AgentCard.toJSON(this.#card()), { 'Cache-Control': 'no-cache' }),
        },
        [this.#base + AGENT_PATH]: { needs: 'submit', post: (call, body) => this.#call(call, body) },
      },
      unavailable: () => {
        if (!this.#closed && this.#asleep === undefined) return undefined;
        const state = this.#closed ? 'stopping' : 'asleep';
        return { error: 'the agent is not at work', state, reason: this.#asleep ?? 'stopping' };
      },
    });
    this.#store = openA2aTaskStore({
      file,
      sdk,
      retainMs,
      now,
      // Progress is streamed and not stored: the next one replaces it.
      passing: isPassing,
      onCorrupt: ({ reason, movedTo }) =>
        log.error('quarantined damaged A2A tasks; started a new file', { reason, movedTo }),
      onLoss: (loss) => noteLoss(log, loss),
    });
    this.#executions = new A2aExecutions({
      store: this.#store,
      partialState: options.partialState ?? 'failed',
      now,
      newId,
      timer: options.timer ?? processTimer,
      cancel: (channel, taskId) => this.#adapter.cancel(channel, taskId),
      answer: (channel, question, verdict) => this.#adapter.answer(channel, question, verdict),
    });
    const { DefaultRequestHandler, JsonRpcTransportHandler } = sdk.server;
    const inner = new DefaultRequestHandler(
      this.#card(),
      this.#store,
      this.#executions,
      undefined,
      undefined,
      undefined,
      async () => extendedCard(this.#card(), await worker.announce()),
      undefined,
      // While a task waits for its client, no worker publishes on its bus.
      { keepBusAliveStates: [] },
    );
    const { store, executions } = { store: this.#store, executions: this.#executions };
    this.#adapter = new A2aWorkerAdapter({
      worker,
      executions,
      log,
      onBye: (reason) => {
        this.#asleep = reason;
      },
      onAnnounce: () => {
        this.#asleep = undefined;
      },
    });
    const handler = new FleetRequestHandler({ sdk, inner, executions, store, adapter: this.#adapter, newId });
    this.#rpc = new JsonRpcTransportHandler(handler);
  }

  /** Recovers from an earlier process: results that wait for their clients, and tasks that no worker will report. */
  recover(): void {
    const { log } = this.#options;
    for (const name of this.#store.channels()) this.#adapter.channels.get(name);
    for (const { task, link, scope } of this.#store.open()) {
      // A partial result waits for the client's own next message.
      if (task.status?.state === STATE.inputRequired && questionAskedIn(task) === undefined) continue;
      if (link === undefined) this.#executions.fail(scope, task, LOST);
      else {
        this.#settleOrphan(task.id, link.channel, link.taskId).catch((thrown: unknown) =>
          log.warn('the end of a task could not be recovered', {
            task_id: link.taskId,
            error: asError(thrown).message,
          }),
        );
      }
    }
  }

  async #settleOrphan(id: string, channel: string, taskId: string): Promise<void> {
    const known = await this.#adapter.poll(channel, taskId);
    if (this.#closed) return;
    if (known?.type === 'TASK_RESULT') {
      await this.#executions.settle(channel, speaksFleet(channel), known);
    } else if (known?.state === 'unknown') {
      const open = this.#store.open().find(({ task }) => task.id === id);
      if (open !== undefined) this.#executions.fail(open.scope, open.task, LOST);
    }
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await this.#server.handle(request, response);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#adapter.close();
    this.#executions.close();
    // The SDK stores published events in the turns of the event loop that follow.
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#store.close();
  }

  #card(): ReturnType<typeof publicCard> {
    const { name, description, version, url } = this.#options;
    return publicCard({
      worker: this.#worker,
      name,
      description,
      version,
      url: `${trimmedEnd(url(), '/')}${this.#base}${AGENT_PATH}`,
      token: this.#server.auth.hasTokens,
    });
  }

  async #call({ request, response, principal }: Authenticated, body: Buffer): Promise<void> {
    const read = readRpcBody(body);
    if (!read.ok) return respond(response, 200, errorResponse(null, read.code, read.message));
    const id = rpcId(read.value.id);
    const { server, core } = this.#sdk;
    const named = request.headers['a2a-extensions'];
    const context = new server.ServerCallContext({
      requestedExtensions: String(named ?? '')
        .split(',')
        .map((uri) => uri.trim())
        .filter(Boolean),
      user: { isAuthenticated: this.#server.auth.hasTokens, userName: principal.name },
      requestedVersion: String(request.headers['a2a-version'] ?? '') || undefined,
    });
    try {
      server.validateVersion(context.requestedVersion, this.#card(), JSON_RPC);
      const reply = await this.#rpc.handle(this.#checked(read.value), context);
      if (!(Symbol.asyncIterator in reply)) {
        const busy = busyIn(context);
        return respond(
          response,
          200,
          busy === undefined ? reply : { jsonrpc: '2.0', id, error: busy },
          active(context),
        );
      }
      const first = await reply.next();
      if (first.done) throw new Error('the stream ended before it started');
      await streamEvents(response, first.value, reply, {
        headers: { ...core.SSE_HEADERS, ...active(context) },
        format: core.formatSSEEvent,
        failed: (error) => core.formatSSEErrorEvent(this.#failure(id, error, context)),
      });
    } catch (thrown) {
      respond(response, 200, this.#failure(id, thrown, context), active(context));
    }
  }

  /** Returns the request as the SDK reads it correctly. Fails with its error for invalid parameters. */
  #checked(request: Members): Record<string, unknown> {
    const { method, params } = request;
    // The SDK looks at the parameters first, and calls an unknown method with odd ones invalid parameters.
    if (!isA2aMethod(method)) return { ...request, params: {} };
    const wrong = invalidParams(method, params);
    if (wrong !== undefined) throw new this.#sdk.errors.RequestMalformedError({ message: wrong });
    return { ...request };
  }

  #failure(id: RpcId, thrown: unknown, context: ServerCallContext): object {
    const error = busyIn(context) ?? this.#sdk.server.JsonRpcTransportHandler.mapToJSONRPCError(thrown);
    return { jsonrpc: '2.0', id, error };
  }
}

const LOST = 'The agent was restarted, and its worker does not know this task.';

/** Returns the header that names the extensions this call used. */
function active({ activatedExtensions = [] }: ServerCallContext): Record<string, string> {
  return activatedExtensions.length === 0 ? {} : { 'A2A-Extensions': activatedExtensions.join(', ') };
}
