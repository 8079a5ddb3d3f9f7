/**
 * A worker as a receiver of the upstream dialect: agent card, health, and tasks by `POST /jsonrpc`, in any form they have: a
 * TASK_DISPATCH in a data part, hints in the text, or the bare brief.
 *
 * `handle` is a handler for `node:http`; `plain/http-listener.ts` gives it a port, or a server mounts it. Only the process
 * that owns the executor makes it.
 * @see docs/protocol/fleet.md#http
 */
import type { Buffer } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { clientAddress } from '../../../base/http/client-address.ts';
import type { Log } from '../../../base/log.ts';
import { isLoopback } from '../../../config/listen-address.ts';
import { FLEET_EXTENSION } from '../../../protocol/fleet.ts';
import { CARD_PATH } from '../plain/card.ts';
import { HttpClient } from '../plain/http-client.ts';
import { type Authenticated, HttpServer, respond, type ServerAccess } from '../plain/http-server.ts';
import { ReplyChannels } from '../plain/reply-channels.ts';
import { errorResponse } from '../plain/rpc.ts';
import type { WorkerPort } from '../reply-channel.ts';
import { HttpAdmission } from './admission.ts';
import type { Callback } from './callbacks.ts';
import { CARRIED, type CardFacts, cardOf } from './card.ts';
import { ANNOUNCE_PATH, HEALTH_PATH, RPC_PATH, readRequest } from './messages.ts';
import { HttpReplyChannel } from './reply-channel.ts';

/** State of the executor behind the port, not only of the port. */
export interface ReceiverHealth {
  readonly ok: boolean;
  /** One line for people. */
  readonly detail: string;
}

export interface ReceiverOptions extends ServerAccess {
  readonly worker: WorkerPort;
  /** Its name on card and health page. Default: the worker's agent id. */
  readonly name?: string;
  /** Absolute path of the repository, for health. */
  readonly repoPath: string;
  /** Address others reach it at, for the card; may change once the port is known. */
  readonly url: () => string;
  /** Version of the program, for the card. */
  readonly version?: string;
  /** Probes the executor: found, signed in. Default: the worker counts as ready. The caller bounds it. */
  readonly ready?: () => Promise<ReceiverHealth>;
  /** Principal → where its results are sent; a principal without one gets a response when the task has ended. */
  readonly callbacks?: ReadonlyMap<string, Callback>;
  /** Longest time that a client may wait for the end of its task, milliseconds. Default 300,000. */
  readonly replyTimeoutMs?: number;
  /** Longest time that a call back may take, milliseconds. Default 15,000. */
  readonly callbackTimeoutMs?: number;
  readonly log: Log;
  readonly newId?: () => string;
}

export interface HttpReceiver {
  /** Responds to any request: 404 for a path that is not of this dialect. Never throws, never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Refuses new requests and detaches from the worker; requests that wait for a task get an error. */
  close(): void;
}

export function httpReceiver(options: ReceiverOptions): HttpReceiver {
  return new WorkerReceiver(options);
}

class WorkerReceiver implements HttpReceiver {
  readonly #options: ReceiverOptions;
  readonly #server: HttpServer;
  readonly #admission: HttpAdmission;
  readonly #client = new HttpClient();
  readonly #channels: ReplyChannels<HttpReplyChannel>;
  #closed = false;

  constructor(options: ReceiverOptions) {
    this.#options = options;
    const { worker, log, callbacks, replyTimeoutMs = 300_000, callbackTimeoutMs: timeoutMs = 15_000 } = options;
    const { newId = () => crypto.randomUUID() } = options;
    const deps = { client: this.#client, log, timeoutMs, newId };
    this.#channels = new ReplyChannels(
      worker,
      (principal) => new HttpReplyChannel(`http:${principal}`, callbacks?.get(principal), deps),
    );
    this.#admission = new HttpAdmission({ worker, log, replyTimeoutMs, newId });
    this.#server = new HttpServer({
      ...options,
      routes: {
        [CARD_PATH]: { open: (_, response) => respond(response, 200, cardOf(this.#card())) },
        [HEALTH_PATH]: { open: (request, response) => this.#health(request, response) },
        [ANNOUNCE_PATH]: {
          needs: 'submit',
          get: async ({ response }) => respond(response, 200, await worker.announce()),
        },
        [RPC_PATH]: { needs: 'submit', post: (call, body) => this.#receive(call, body) },
      },
    });
    // Results of an earlier process may wait for these.
    for (const principal of callbacks?.keys() ?? []) this.#channels.get(principal);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    void this.#server.handle(request, response);
  }

  close(): void {
    this.#closed = true;
    this.#admission.close();
    this.#channels.close();
    this.#client.close();
  }

  async #receive({ request, response, principal }: Authenticated, body: Buffer): Promise<void> {
    if (this.#closed) return respond(response, 503, { error: 'the receiver is stopping' });
    const read = readRequest(body);
    if (read.kind === 'error') return respond(response, 200, errorResponse(read.id, read.code, read.message));
    const { id, message } = read;
    const named = String(request.headers['a2a-extensions'] ?? request.headers['x-a2a-extensions'] ?? '');
    const channel = this.#channels.get(principal.name);
    await this.#admission.receive({
      id,
      message,
      principal,
      response,
      fleet: named.includes(FLEET_EXTENSION),
      channel,
    });
  }

  #card(): CardFacts {
    const { worker, name = worker.agentId, url, version } = this.#options;
    const features = CARRIED.filter((feature) => feature === 'announce' || worker.features.includes(feature));
    return { name, url: url(), version, features, token: this.#server.auth.hasTokens };
  }

  /** Responds with whether tasks would run, not only that the port is open. The path is for callers that may know it. */
  async #health(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { worker, name = worker.agentId, repoPath, ready } = this.#options;
    const { ok, detail } = (await ready?.()) ?? { ok: true, detail: 'ready' };
    const known =
      isLoopback(clientAddress(request)) ||
      (this.#server.auth.hasTokens && typeof (await this.#server.principalOf(request)) === 'object');
    const draining = worker.draining || this.#closed;
    const facts = { ok: ok && !draining, name, detail: draining ? 'draining' : detail };
    respond(response, facts.ok ? 200 : 503, known ? { ...facts, repo_path: repoPath } : facts);
  }
}
