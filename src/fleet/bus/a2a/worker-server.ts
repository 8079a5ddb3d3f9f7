/**
 * A worker as an A2A 1.0 agent: its card, JSON-RPC with streaming, tasks that outlive the process, and the fleet protocol as
 * an extension for clients that name it.
 *
 * `a2aAgent` makes a handler for `node:http`, which a server may mount; `serveA2a` gives it a port of its own. The process
 * that owns the executor makes it, and nobody else.
 * @see docs/a2a.md
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Log } from '../../../base/log.ts';
import { type Authenticator, createAuthenticator } from '../../../session/auth.ts';
import { AuthThrottle } from '../../../session/auth-throttle.ts';
import type { Principal } from '../../../session/principal.ts';
import { asError } from '../../../wire/errors.ts';
import { readStrictJson } from '../../messages/strict-json.ts';
import { errorAnswer, RPC, type RpcId } from '../http/messages.ts';
import { type HttpListener, listenHttp } from '../plain/http-listener.ts';
import { answer, bodyOf, callerOf, type Guard, pathOf } from '../plain/http-server.ts';
import type { WorkerPort } from '../reply-channel.ts';
import { busyIn } from './admission.ts';
import { CARD_PATH, extendedCard, JSON_RPC, publicCard } from './card.ts';
import { A2aExecutions, isPassing } from './executions.ts';
import { outletOwner } from './reply-channel.ts';
import { FleetRequestHandler } from './request-handler.ts';
import { type A2aServerSdk, loadA2aServer, type ServerCallContext } from './sdk.ts';
import type { PartialState } from './settings.ts';
import { streamEvents } from './sse.ts';
import { openA2aTaskStore } from './task-store.ts';
import { A2aWorkerAdapter } from './worker-adapter.ts';

/** Where JSON-RPC is served, below the address of the agent. */
export const AGENT_PATH = '/a2a';

export interface A2aAgentOptions {
  /** Address others reach the agent at, without a path of its own; may change once the port is known. */
  readonly url: () => string;
  /** Path everything is below, where a server mounts it. Default: none. */
  readonly base?: string;
  /** Database of its tasks. This process's alone while it runs. */
  readonly file: string;
  /** What the card calls it. Default: the worker's agent id. */
  readonly name?: string;
  readonly description?: string;
  /** Version of the program, for the card. */
  readonly version?: string;
  /** Whose token is this? Default: no token, whoever reaches the port may send tasks. */
  readonly auth?: Authenticator;
  /** True: without a configured token everything but the card is refused with 503. Default false. */
  readonly requireToken?: boolean;
  readonly backoff?: AuthThrottle;
  /** What work that is not finished looks like to clients that know nothing of fleets. Default `failed`. */
  readonly partialState?: PartialState;
  /** How long a task that has ended is kept, milliseconds. Default 7 days. */
  readonly retainMs?: number;
  readonly log: Log;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  readonly newId?: () => string;
}

export interface A2aAgent {
  /** Answers any request: 404 for what is none of the agent's paths. Never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** Takes no more requests, detaches from the worker, ends open streams and closes the store. Idempotent, never rejects. */
  close(): Promise<void>;
}

/**
 * Makes the agent. Fails with `not_configured` when the SDK is not installed, and as its store does: `journal_locked`,
 * `journal_corrupt`, `disk_full`, `runtime_error`.
 */
export async function a2aAgent(worker: WorkerPort, options: A2aAgentOptions): Promise<A2aAgent> {
  const agent = new WorkerAgent(worker, options, await loadA2aServer());
  agent.recover();
  return agent;
}

export interface ServedA2a {
  readonly address: string;
  readonly port: number;
  close(): Promise<void>;
}

/** The agent on a port of its own. Fails as {@link a2aAgent} and `listenHttp` do. */
export async function serveA2a(
  worker: WorkerPort,
  options: Omit<A2aAgentOptions, 'url' | 'base'> & {
    readonly host?: string;
    /** 0: any free one. */
    readonly port: number;
    /** Address for the card, where it is not that of the port. */
    readonly url?: () => string;
  },
): Promise<ServedA2a> {
  let listener: HttpListener | undefined;
  const { host, port, url = () => listener?.address ?? '', ...rest } = options;
  const agent = await a2aAgent(worker, { ...rest, url });
  try {
    listener = await listenHttp({
      host,
      port,
      hasTokens: options.auth?.hasTokens === true,
      handle: (request, response) => void agent.handle(request, response),
    });
  } catch (thrown) {
    await agent.close();
    throw thrown;
  }
  const { address, port: bound, close } = listener;
  return {
    address,
    port: bound,
    async close() {
      await agent.close();
      await close();
    },
  };
}

class WorkerAgent implements A2aAgent {
  readonly #worker: WorkerPort;
  readonly #options: A2aAgentOptions;
  readonly #sdk: A2aServerSdk;
  readonly #store: ReturnType<typeof openA2aTaskStore>;
  readonly #runs: A2aExecutions;
  readonly #end: A2aWorkerAdapter;
  readonly #rpc: InstanceType<A2aServerSdk['server']['JsonRpcTransportHandler']>;
  readonly #guard: Guard;
  readonly #base: string;
  /** Why the worker said goodbye. */
  #asleep: string | undefined;
  #closed = false;

  constructor(worker: WorkerPort, options: A2aAgentOptions, sdk: A2aServerSdk) {
    const { log, file, retainMs, now = Date.now, newId = () => crypto.randomUUID() } = options;
    this.#worker = worker;
    this.#options = options;
    this.#sdk = sdk;
    this.#base = (options.base ?? '').replace(/\/+$/, '');
    this.#guard = {
      auth: options.auth ?? createAuthenticator([]),
      requireToken: options.requireToken ?? false,
      backoff: options.backoff ?? new AuthThrottle(),
    };
    this.#store = openA2aTaskStore({
      file,
      sdk,
      retainMs,
      now,
      // Progress is told, and over with the next that comes.
      passing: isPassing,
      onCorrupt: ({ reason, movedTo }) =>
        log.error('the A2A tasks were damaged; a new file was begun', { reason, movedTo }),
    });
    this.#runs = new A2aExecutions({
      store: this.#store,
      partialState: options.partialState ?? 'failed',
      now,
      newId,
      cancel: (outlet, taskId) => this.#end.cancel(outlet, taskId),
    });
    const { DefaultRequestHandler, JsonRpcTransportHandler } = sdk.server;
    const inner = new DefaultRequestHandler(
      this.#card(),
      this.#store,
      this.#runs,
      undefined,
      undefined,
      undefined,
      async () => extendedCard(this.#card(), await worker.announce()),
      undefined,
      // Where a task waits for its client there is nobody who would go on publishing.
      { keepBusAliveStates: [] },
    );
    const { store, runs } = { store: this.#store, runs: this.#runs };
    this.#end = new A2aWorkerAdapter({
      worker,
      runs,
      log,
      left: (reason) => {
        this.#asleep = reason;
      },
      came: () => {
        this.#asleep = undefined;
      },
    });
    const handler = new FleetRequestHandler({ sdk, inner, runs, store, end: this.#end, newId });
    this.#rpc = new JsonRpcTransportHandler(handler);
  }

  /** Takes up what an earlier process left: results that wait for their clients, and tasks nobody will report. */
  recover(): void {
    const { log } = this.#options;
    for (const name of this.#store.outlets()) this.#end.outlet(name);
    for (const { task, link, scope } of this.#store.open()) {
      if (link === undefined) this.#runs.giveUp(scope, task, LOST);
      else {
        this.#settleOrphan(task.id, link.outlet, link.taskId).catch((thrown: unknown) =>
          log.warn('it could not be found out how a task ended', {
            task_id: link.taskId,
            error: asError(thrown).message,
          }),
        );
      }
    }
  }

  async #settleOrphan(id: string, outlet: string, taskId: string): Promise<void> {
    const known = await this.#end.poll(outlet, taskId);
    if (this.#closed) return;
    if (known?.type === 'TASK_RESULT') {
      await this.#runs.settle(outlet, outletOwner(outlet).fleet, known);
    } else if (known?.state === 'unknown') {
      const open = this.#store.open().find(({ task }) => task.id === id);
      if (open !== undefined) this.#runs.giveUp(open.scope, open.task, LOST);
    }
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#route(request, response);
    } catch (thrown) {
      this.#options.log.error('a request failed', { path: pathOf(request), error: asError(thrown).message });
      answer(response, 500, { error: 'the request failed' });
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#end.close();
    this.#runs.close();
    // What the SDK has in hand is stored in the turns that follow.
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
      url: `${url().replace(/\/+$/, '')}${this.#base}${AGENT_PATH}`,
      token: this.#guard.auth.hasTokens,
    });
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = pathOf(request);
    const isCard = path === this.#base + CARD_PATH;
    if (!isCard && path !== this.#base + AGENT_PATH) return answer(response, 404, { error: 'there is nothing here' });
    const method = isCard ? 'GET' : 'POST';
    if (request.method !== method) return answer(response, 405, { error: `use ${method}` }, { Allow: method });
    if (this.#closed || this.#asleep !== undefined) {
      const state = this.#closed ? 'stopping' : 'asleep';
      return answer(response, 503, { error: 'the agent is not at work', state, reason: this.#asleep ?? 'stopping' });
    }
    if (isCard) {
      return answer(response, 200, this.#sdk.core.AgentCard.toJSON(this.#card()), { 'Cache-Control': 'no-cache' });
    }
    const principal = await callerOf(this.#guard, request, response);
    if (principal === undefined) {
      request.resume();
      return;
    }
    const body = await bodyOf(request, response);
    if (body !== undefined) await this.#call(request, response, body, principal);
  }

  async #call(
    request: IncomingMessage,
    response: ServerResponse,
    body: Uint8Array,
    principal: Principal,
  ): Promise<void> {
    const json = readStrictJson(body);
    if (!json.ok) {
      const codes = json.errors.map(({ code }) => code);
      const number = codes.includes('E_NOT_JSON') ? RPC.parse : RPC.request;
      return answer(response, 200, errorAnswer(null, number, `not a request: ${codes.join(', ')}`));
    }
    const id = idOf(json.value.id);
    const { server, core } = this.#sdk;
    const named = request.headers['a2a-extensions'];
    const context = new server.ServerCallContext({
      requestedExtensions: String(named ?? '')
        .split(',')
        .map((uri) => uri.trim())
        .filter(Boolean),
      user: { isAuthenticated: this.#guard.auth.hasTokens, userName: principal.name },
      requestedVersion: String(request.headers['a2a-version'] ?? '') || undefined,
    });
    try {
      server.validateVersion(context.requestedVersion, this.#card(), JSON_RPC);
      const said = await this.#rpc.handle({ ...json.value }, context);
      if (!(Symbol.asyncIterator in said)) {
        const busy = busyIn(context);
        return answer(response, 200, busy === undefined ? said : { jsonrpc: '2.0', id, error: busy }, active(context));
      }
      const first = await said.next();
      if (first.done) throw new Error('the stream ended before it began');
      await streamEvents(response, first.value, said, {
        headers: { ...core.SSE_HEADERS, ...active(context) },
        format: core.formatSSEEvent,
        failed: (error) => core.formatSSEErrorEvent(this.#failure(id, error, context)),
      });
    } catch (thrown) {
      answer(response, 200, this.#failure(id, thrown, context), active(context));
    }
  }

  #failure(id: RpcId, thrown: unknown, context: ServerCallContext): object {
    const error = busyIn(context) ?? this.#sdk.server.JsonRpcTransportHandler.mapToJSONRPCError(thrown);
    return { jsonrpc: '2.0', id, error };
  }
}

const LOST = 'The agent was started anew, and its worker knows nothing of this task.';

const idOf = (id: unknown): RpcId => (typeof id === 'string' || typeof id === 'number' ? id : null);

/** Tells the client which of its extensions counted. */
function active({ activatedExtensions = [] }: ServerCallContext): Record<string, string> {
  return activatedExtensions.length === 0 ? {} : { 'A2A-Extensions': activatedExtensions.join(', ') };
}
