/**
 * A worker as a receiver of the upstream dialect: agent card, health, and tasks by `POST /jsonrpc`, in whatever form they
 * come: a TASK_DISPATCH in a data part, hints in the text, or the bare brief.
 *
 * `handle` is a handler for `node:http`; `http-listener.ts` serves it on a port of its own, a server may mount it. The
 * process that owns the executor makes it, and nobody else.
 * @see docs/protocol/fleet.md#http
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Authenticator, createAuthenticator } from '../../../host/auth.ts';
import { FailureBackoff } from '../../../host/backoff.ts';
import type { Log } from '../../../host/context.ts';
import { isLoopback } from '../../../host/listen-address.ts';
import {
  type Feature,
  FLEET_EXTENSION,
  type FleetMessage,
  type TaskDispatch,
  type TaskResult,
} from '../../../protocol/fleet.ts';
import type { Principal } from '../../../session/principal.ts';
import { asError } from '../../../wire/errors.ts';
import { decodeValue } from '../../messages/decode.ts';
import type { Decoded, Dispatched, Incoming } from '../../messages/decoded.ts';
import { dispatchMessage } from '../../messages/encode.ts';
import { parseInline } from '../../phases/inline.ts';
import { type Answer, ack, Intake } from '../intake.ts';
import type { Reception, WorkerPort } from '../outlet.ts';
import type { Callback, CallbackDeps } from './callbacks.ts';
import { type CardFacts, cardOf } from './card.ts';
import {
  ANNOUNCE_PATH,
  busyAnswer,
  CARD_PATH,
  errorAnswer,
  HEALTH_PATH,
  type HttpMessage,
  messageAnswer,
  RPC,
  RPC_PATH,
  type RpcId,
  readRequest,
} from './dialect.ts';
import { HttpClient } from './exchange.ts';
import { ReceiverOutlet } from './receiver-outlet.ts';
import { announceBlock, queuedText, type ReplyForm, replyText } from './reply-text.ts';
import { answer, bodyOf, callerOf, type Guard, pathOf } from './serve.ts';

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
  readonly backoff?: FailureBackoff;
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

export interface Receiver {
  /** Answers any request: 404 for what is none of this dialect's paths. Never throws, never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Takes no more requests and detaches from the worker; those that wait are told so. */
  close(): void;
}

/** What a client may send beside the three messages, and gets an answer to at once. */
const CARRIED: readonly Feature[] = ['cancel', 'poll', 'announce', 'steer'];
/** Contexts that have had their announce. */
const MOST_CONTEXTS = 10_000;

export function httpReceiver(options: ReceiverOptions): Receiver {
  return new WorkerReceiver(options);
}

/** One request for a task or about one. */
interface Asked {
  readonly id: RpcId;
  readonly message: HttpMessage;
  readonly principal: Principal;
  readonly response: ServerResponse;
  /** The client speaks our extension. */
  readonly fleet: boolean;
  readonly outlet: ReceiverOutlet;
}

class WorkerReceiver implements Receiver {
  readonly #options: ReceiverOptions;
  readonly #guard: Guard;
  readonly #intake: Intake;
  readonly #client = new HttpClient();
  readonly #outlets = new Map<string, { readonly outlet: ReceiverOutlet; readonly detach: () => void }>();
  readonly #announced = new Set<string>();
  readonly #newId: () => string;
  readonly #closing = new AbortController();

  constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#newId = options.newId ?? (() => crypto.randomUUID());
    this.#intake = new Intake(options.worker, options.log);
    this.#guard = {
      auth: options.auth ?? createAuthenticator([]),
      requireToken: options.requireToken ?? false,
      backoff: options.backoff ?? new FailureBackoff(),
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
    this.#closing.abort();
    for (const { detach } of this.#outlets.values()) detach();
    this.#client.close();
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = pathOf(request);
    const method = path === RPC_PATH ? 'POST' : 'GET';
    if (![CARD_PATH, HEALTH_PATH, ANNOUNCE_PATH, RPC_PATH].includes(path)) {
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
    if (this.#closing.signal.aborted) return answer(response, 503, { error: 'the receiver is stopping' });
    const read = readRequest(body);
    if (read.kind === 'error') return answer(response, 200, errorAnswer(read.id, read.code, read.message));
    const named = String(request.headers['a2a-extensions'] ?? request.headers['x-a2a-extensions'] ?? '');
    await this.#message({
      id: read.id,
      message: read.message,
      principal,
      response,
      fleet: named.includes(FLEET_EXTENSION) || fleetParts(read.message).length > 0,
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
    const draining = worker.draining || this.#closing.signal.aborted;
    const facts = { ok: ok && !draining, name, detail: draining ? 'draining' : detail };
    answer(response, facts.ok ? 200 : 503, known ? { ...facts, repo_path: repoPath } : facts);
  }

  #outletOf(principal: string): ReceiverOutlet {
    let found = this.#outlets.get(principal);
    if (found === undefined) {
      const { callbacks, callbackTimeoutMs: timeoutMs = 15_000, log, worker } = this.#options;
      const deps: CallbackDeps = { client: this.#client, log, timeoutMs, newId: this.#newId };
      const outlet = new ReceiverOutlet(`http:${principal}`, callbacks?.get(principal), deps);
      found = { outlet, detach: worker.attach(outlet) };
      this.#outlets.set(principal, found);
    }
    return found.outlet;
  }

  // Messages.

  async #message(asked: Asked): Promise<void> {
    const [structured] = fleetParts(asked.message);
    if (structured === undefined) return this.#text(asked);
    const decoded = decodeValue(structured);
    if (!decoded.valid) return this.#unreadable(asked, decoded);
    const { message } = decoded;
    if (message.type === 'TASK_DISPATCH') {
      const { contextId } = asked.message;
      const { envelope } = message;
      const dispatch = { ...message, envelope: { ...envelope, context_id: envelope.context_id ?? contextId } };
      return this.#dispatch(asked, dispatch, message.reply_schema, contextId ?? envelope.context_id ?? message.task_id);
    }
    await this.#other(asked, message);
  }

  #unreadable(asked: Asked, { taskId, errors }: Extract<Decoded, { valid: false }>): void {
    const answers: Answer[] = [];
    const dispatch = taskId !== undefined && this.#intake.unreadable(taskId, errors, (one) => answers.push(one));
    const found = errors.map(({ code, path }) => `${code} ${path}`).join(', ');
    if (!dispatch) return this.#fail(asked, RPC.params, `the message in the data part is not valid: ${found}`);
    this.#reply(asked, asked.message.contextId ?? taskId, `Not started: ${found}`, answers);
  }

  /** Poll, cancel, steer and the like: answered with what the worker says to it. */
  async #other(asked: Asked, message: Incoming): Promise<void> {
    const answers: Answer[] = [];
    if (!(await this.#intake.take(message, asked.outlet, (one) => answers.push(one)))) {
      return this.#fail(asked, RPC.params, `${message.type} is nothing a worker takes`);
    }
    const taskId = (message as { readonly task_id?: string }).task_id;
    const words = answers.length === 0 ? 'Taken.' : 'The answer is in the data of this message.';
    this.#reply(asked, asked.message.contextId ?? taskId ?? this.#newId(), words, answers);
    for (const one of answers) if (one.type === 'TASK_RESULT') this.#handedOver(asked, one);
  }

  /** A brief with hints, or without. */
  async #text(asked: Asked): Promise<void> {
    const { message, principal } = asked;
    const { is_dispatch, hints, brief } = parseInline(message.text);
    const contextId = message.contextId ?? this.#newId();
    const form: ReplyForm = is_dispatch ? (hints.reply_schema ?? 'structured') : 'plain';
    const dispatch: TaskDispatch = dispatchMessage(
      {
        task: {
          task_id: hints.task_id ?? message.messageId ?? this.#newId(),
          priority: hints.priority,
          reply_schema: form === 'plain' ? 'prose' : form,
          token_budget: hints.token_budget,
        },
        requirements: {
          required_mcp: hints.required_mcp,
          required_capabilities: hints.required_capabilities,
        },
        deadline: hints.deadline,
        brief,
      },
      { context_id: contextId, attempt: 1, ...(message.messageId !== null && { message_id: message.messageId }) },
    );
    const decoded = decodeValue(dispatch);
    if (decoded.valid) return this.#dispatch(asked, decoded.message as Dispatched, form, contextId);
    const result = this.#options.worker.refuse(dispatch.task.task_id, decoded.errors);
    this.#options.log.info('a task that came as text was refused', { principal: principal.name, ...result?.blocked });
    if (result === undefined) return this.#fail(asked, RPC.params, 'the task cannot be read');
    this.#reply(asked, contextId, replyText(result, form), []);
  }

  // Tasks.

  async #dispatch(asked: Asked, dispatch: Dispatched, form: ReplyForm, contextId: string): Promise<void> {
    const { outlet } = asked;
    const waiting = outlet.managed ? undefined : this.#wait(asked, dispatch.task_id, form, contextId);
    outlet.remember(dispatch.task_id, form, contextId);
    let reception: Reception;
    try {
      // Answers are written below, in the words of this dialect.
      reception = await this.#intake.dispatch(dispatch, outlet, () => {});
    } catch (thrown) {
      waiting?.();
      this.#options.log.error('a task could not be taken', {
        task_id: dispatch.task_id,
        error: asError(thrown).message,
      });
      return this.#fail(asked, RPC.failed, 'inbox: the task could not be taken');
    }
    switch (reception.kind) {
      case 'busy':
        waiting?.();
        answer(asked.response, 200, busyAnswer(asked.id, asked.fleet, reception.retryAfterS, reception.reason));
        return;
      case 'refused':
      case 'replay':
        waiting?.();
        await this.#result(asked, reception.result, form, contextId);
        if (reception.kind === 'replay') this.#handedOver(asked, reception.result);
        return;
      case 'accepted':
        if (waiting === undefined) await this.#queued(asked, dispatch, form, contextId);
    }
  }

  /** Keeps the request open until the task has ended. Returns what gives that up. */
  #wait(asked: Asked, taskId: string, form: ReplyForm, contextId: string): () => void {
    const { response, outlet } = asked;
    const { signal } = this.#closing;
    const end = (): void => {
      clearTimeout(timer);
      undo();
      response.removeListener('close', end);
      signal.removeEventListener('abort', stopping);
    };
    const giveUp = (why: string): void => {
      end();
      this.#fail(asked, RPC.failed, `${why}: the task goes on; ask for it again by its id`, { task_id: taskId });
    };
    const stopping = (): void => giveUp('the receiver is stopping');
    const undo = outlet.wait(taskId, {
      take: async (result) => {
        end();
        return this.#result(asked, result, form, contextId);
      },
    });
    const timer = setTimeout(() => giveUp('timeout'), this.#options.replyTimeoutMs ?? 300_000);
    response.on('close', end);
    signal.addEventListener('abort', stopping, { once: true });
    return end;
  }

  async #queued(asked: Asked, { task_id, envelope }: Dispatched, form: ReplyForm, contextId: string): Promise<void> {
    const announce = await this.#announce(asked, contextId);
    const taken = ack(task_id, { accepted: true, state: 'accepted' }, { attempt: envelope.attempt });
    const data = asked.fleet || form === 'json' ? [...announce, taken] : [];
    const block = data.length === 0 ? announce.map((one) => announceBlock(one)).join('\n\n') : '';
    this.#reply(asked, contextId, queuedText(block), data);
  }

  /** Answers with a result; resolves with whether the client has it, as far as can be told from here. */
  async #result(asked: Asked, result: TaskResult, form: ReplyForm, contextId: string): Promise<boolean> {
    const announce = await this.#announce(asked, contextId);
    const inData = asked.fleet || form === 'json';
    const text = replyText(result, form);
    const blocks = inData ? [] : announce.map((one) => announceBlock(one));
    const data: FleetMessage[] = inData ? [...announce] : [];
    if (asked.fleet) data.push(result);
    const flushed = finished(asked.response);
    this.#reply(asked, contextId, [...blocks, text].join('\n\n'), data);
    return flushed;
  }

  /** The description of the worker, where the client has not had it in this context. */
  async #announce({ principal, message }: Asked, contextId: string) {
    // A client that names no context gets another one each time.
    const key = `${principal.name} ${message.contextId ?? ''}`;
    if (this.#announced.has(key)) return [];
    this.#announced.add(key);
    if (this.#announced.size > MOST_CONTEXTS) this.#announced.delete(this.#announced.values().next().value as string);
    try {
      return [await this.#options.worker.announce(contextId)];
    } catch (thrown) {
      this.#announced.delete(key);
      this.#options.log.warn('the worker could not describe itself', { error: asError(thrown).message });
      return [];
    }
  }

  /** The client has seen a result that may still wait in the outbox. */
  #handedOver({ response, outlet }: Asked, { task_id, envelope }: TaskResult): void {
    void finished(response).then((seen) => {
      if (!seen) return;
      const kept = ack(task_id, { accepted: true, state: 'finished' }, { attempt: envelope?.attempt });
      return this.#intake.take(kept, outlet, () => {});
    });
  }

  #reply({ id, response }: Asked, contextId: string, text: string, data: readonly FleetMessage[]): void {
    answer(response, 200, messageAnswer(id, { text, data, contextId, messageId: this.#newId() }));
  }

  #fail({ id, response }: Asked, code: number, text: string, data?: unknown): void {
    answer(response, 200, errorAnswer(id, code, text, data));
  }
}

/** The data parts that are messages of this protocol. */
function fleetParts({ data }: HttpMessage): unknown[] {
  return data.filter((one) => {
    const { type, protocol_version } = one as { readonly type?: unknown; readonly protocol_version?: unknown };
    return typeof type === 'string' && /^[A-Z]+_[A-Z_]+$/.test(type) && protocol_version !== undefined;
  });
}

/** True when the whole answer was given to the system; false when the client had gone before. */
function finished(response: ServerResponse): Promise<boolean> {
  if (response.writableFinished) return Promise.resolve(true);
  if (response.destroyed) return Promise.resolve(false);
  return new Promise((resolve) => {
    response.once('finish', () => resolve(true));
    response.once('close', () => resolve(response.writableFinished));
  });
}
