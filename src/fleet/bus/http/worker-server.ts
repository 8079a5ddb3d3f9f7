/**
 * A worker as a receiver of the upstream dialect: agent card, health, and tasks by `POST /jsonrpc`, in whatever form they
 * come: a TASK_DISPATCH in a data part, hints in the text, or the bare brief.
 *
 * `handle` is a handler for `node:http`; `fleet/bus/plain/http-listener.ts` serves it on a port of its own, a server may mount it. The
 * process that owns the executor makes it, and nobody else.
 * @see docs/protocol/fleet.md#http
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Log } from '../../../base/log.ts';
import { isLoopback } from '../../../config/listen-address.ts';
import { type Feature, FLEET_EXTENSION } from '../../../protocol/fleet.ts';
import { type Authenticator, createAuthenticator } from '../../../session/auth.ts';
import { AuthThrottle } from '../../../session/auth-throttle.ts';
import { asError } from '../../../wire/errors.ts';
import { HttpClient } from '../plain/http-client.ts';
import { answer, bodyOf, callerOf, type Guard, pathOf } from '../plain/http-server.ts';
import type { WorkerPort } from '../reply-channel.ts';
import { ReceiverTasks } from './admission.ts';
import type { Callback, CallbackDeps } from './callbacks.ts';
import { type CardFacts, cardOf } from './card.ts';
import { ANNOUNCE_PATH, CARD_PATH, errorAnswer, HEALTH_PATH, RPC_PATH, readRequest } from './messages.ts';
import { HttpReplyChannel } from './reply-channel.ts';

/** Whether the path behind the port works, not only the port. */
export interface ReceiverHealth {
  readonly ok: boolean;
  /** One line for people. */
  readonly detail: string;
}

export interface ReceiverOptions {
  readonly worker: WorkerPort;
  /** What card and health call it. Default: the worker's agent id. */
  readonly name?: string;
  /** Absolute path of the repository, for health. */
  readonly repoPath: string;
  /** Address others reach it at, for the card; may change once the port is known. */
  readonly url: () => string;
  /** Version of the program, for the card. */
  readonly version?: string;
  /** Whose token is this? Default: no token, whoever reaches the port may send tasks. */
  readonly auth?: Authenticator;
  /** True: without a configured token everything but the card is refused with 503. Default false. */
  readonly requireToken?: boolean;
  readonly backoff?: AuthThrottle;
  /** Proves the path: executor found, signed in. Default: the worker is taken to be ready. Bounded by whoever gives it. */
  readonly ready?: () => Promise<ReceiverHealth>;
  /** Principal → where its results are sent; a principal without one is answered when the task has ended. */
  readonly callbacks?: ReadonlyMap<string, Callback>;
  /** How long a client may wait for the end of its task, milliseconds. Default 300,000. */
  readonly replyTimeoutMs?: number;
  /** How long a call back may take, milliseconds. Default 15,000. */
  readonly callbackTimeoutMs?: number;
  readonly log: Log;
  readonly newId?: () => string;
}

export interface HttpReceiver {
  /** Answers any request: 404 for what is none of this dialect's paths. Never throws, never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Takes no more requests and detaches from the worker; those that wait are told so. */
  close(): void;
}

/** What a client may send beside the three messages, and gets an answer to at once. */
const CARRIED: readonly Feature[] = ['cancel', 'poll', 'announce', 'steer'];
/** Everything there is. */
const PATHS: readonly string[] = [CARD_PATH, HEALTH_PATH, ANNOUNCE_PATH, RPC_PATH];

export function httpReceiver(options: ReceiverOptions): HttpReceiver {
  return new WorkerReceiver(options);
}

class WorkerReceiver implements HttpReceiver {
  readonly #options: ReceiverOptions;
  readonly #guard: Guard;
  readonly #tasks: ReceiverTasks;
  readonly #client = new HttpClient();
  readonly #outlets = new Map<string, { readonly outlet: HttpReplyChannel; readonly detach: () => void }>();
  readonly #newId: () => string;
  #closed = false;

  constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#newId = options.newId ?? (() => crypto.randomUUID());
    const { worker, log, replyTimeoutMs = 300_000 } = options;
    this.#tasks = new ReceiverTasks({ worker, log, replyTimeoutMs, newId: this.#newId });
    this.#guard = {
      auth: options.auth ?? createAuthenticator([]),
      requireToken: options.requireToken ?? false,
      backoff: options.backoff ?? new AuthThrottle(),
    };
    // Results of an earlier process may wait for these.
    for (const principal of options.callbacks?.keys() ?? []) this.#outletOf(principal);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#route(request, response).catch((thrown: unknown) => {
      this.#options.log.error('a request failed', { path: pathOf(request), error: asError(thrown).message });
      answer(response, 500, { error: 'the request failed' });
    });
  }

  close(): void {
    this.#closed = true;
    this.#tasks.close();
    for (const { detach } of this.#outlets.values()) detach();
    this.#client.close();
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = pathOf(request);
    const method = path === RPC_PATH ? 'POST' : 'GET';
    if (!PATHS.includes(path)) {
      return answer(response, 404, { error: 'there is nothing here' });
    }
    if (request.method !== method) return answer(response, 405, { error: `use ${method}` }, { Allow: method });
    if (path === CARD_PATH) return answer(response, 200, cardOf(this.#card()));
    if (path === HEALTH_PATH) return this.#health(request, response);
    const principal = await callerOf(this.#guard, request, response);
    if (principal === undefined) {
      request.resume();
      return;
    }
    if (path === ANNOUNCE_PATH) return answer(response, 200, await this.#options.worker.announce());
    const body = await bodyOf(request, response);
    if (body === undefined) return;
    if (this.#closed) return answer(response, 503, { error: 'the receiver is stopping' });
    const read = readRequest(body);
    if (read.kind === 'error') return answer(response, 200, errorAnswer(read.id, read.code, read.message));
    const named = String(request.headers['a2a-extensions'] ?? request.headers['x-a2a-extensions'] ?? '');
    await this.#tasks.take({
      id: read.id,
      message: read.message,
      principal,
      response,
      fleet: named.includes(FLEET_EXTENSION),
      outlet: this.#outletOf(principal.name),
    });
  }

  #card(): CardFacts {
    const { worker, name = worker.agentId, url, version } = this.#options;
    const features = CARRIED.filter((feature) => feature === 'announce' || worker.features.includes(feature));
    return { name, url: url(), version, features, token: this.#guard.auth.hasTokens };
  }

  /** Says whether tasks would be done, not only that somebody listens; where the repository is, to whom it may be told. */
  async #health(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { worker, name = worker.agentId, repoPath, ready } = this.#options;
    const { ok, detail } = (await ready?.()) ?? { ok: true, detail: 'ready' };
    const token = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
    const known =
      isLoopback(request.socket.remoteAddress ?? '') ||
      (this.#guard.auth.hasTokens && this.#guard.auth.authenticate(token) !== undefined);
    const draining = worker.draining || this.#closed;
    const facts = { ok: ok && !draining, name, detail: draining ? 'draining' : detail };
    answer(response, facts.ok ? 200 : 503, known ? { ...facts, repo_path: repoPath } : facts);
  }

  #outletOf(principal: string): HttpReplyChannel {
    let found = this.#outlets.get(principal);
    if (found === undefined) {
      const { callbacks, callbackTimeoutMs: timeoutMs = 15_000, log, worker } = this.#options;
      const deps: CallbackDeps = { client: this.#client, log, timeoutMs, newId: this.#newId };
      const outlet = new HttpReplyChannel(`http:${principal}`, callbacks?.get(principal), deps);
      found = { outlet, detach: worker.attach(outlet) };
      this.#outlets.set(principal, found);
    }
    return found.outlet;
  }
}
