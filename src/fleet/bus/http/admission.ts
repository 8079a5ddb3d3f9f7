/**
 * Tasks at a receiver: a message becomes a dispatch or a message about a task, and the worker's decision becomes the
 * response, at once or when the task has ended.
 *
 * One for each worker. @see docs/protocol/fleet.md#http
 */
import type { ServerResponse } from 'node:http';
import type { Log } from '../../../base/log.ts';
import type { FleetMessage, SessionAnnounce, TaskResult } from '../../../protocol/fleet.ts';
import type { Principal } from '../../../session/principal.ts';
import { asError } from '../../../wire/errors.ts';
import type { Dispatched, Incoming } from '../../messages/decoded.ts';
import { AnnounceTracker } from '../plain/announce-tracker.ts';
import { respond } from '../plain/http-server.ts';
import { type ClientMessage, isFleetMessage, readStructured, readText } from '../plain/incoming.ts';
import { announceBlock, queuedText, type ReplyForm, replyText } from '../plain/reply-text.ts';
import { busyError, errorResponse, RPC, type RpcId } from '../plain/rpc.ts';
import type { DispatchOutcome, WorkerPort } from '../reply-channel.ts';
import { ack, WorkerMessageHandler, type WorkerReply } from '../worker-messages.ts';
import { type HttpMessage, messageResponse } from './messages.ts';
import type { HttpReplyChannel } from './reply-channel.ts';

/** Longest wait for the worker's announce before a reply goes without it, milliseconds: the bound of the worker itself. */
const ANNOUNCE_TIMEOUT_MS = 15_000;

/** One request for a task or about one. */
export interface TaskRequest {
  readonly id: RpcId;
  readonly message: HttpMessage;
  readonly principal: Principal;
  readonly response: ServerResponse;
  /** The client speaks the fleet extension. */
  readonly fleet: boolean;
  readonly channel: HttpReplyChannel;
}

export interface HttpAdmissionOptions {
  readonly worker: WorkerPort;
  readonly log: Log;
  /** Longest time that a client may wait for the end of its task, milliseconds. */
  readonly replyTimeoutMs: number;
  readonly newId: () => string;
}

export class HttpAdmission {
  readonly #options: HttpAdmissionOptions;
  readonly #handler: WorkerMessageHandler;
  readonly #announced: AnnounceTracker;
  /** Each ends the wait of one request for the end of its task. */
  readonly #waiting = new Set<() => void>();

  constructor(options: HttpAdmissionOptions) {
    this.#options = options;
    this.#handler = new WorkerMessageHandler(options.worker, options.log);
    this.#announced = new AnnounceTracker(options.worker, options.log);
  }

  /** Responds to all requests that wait: their tasks continue. */
  close(): void {
    for (const stopping of [...this.#waiting]) stopping();
  }

  /** Accepts a message; resolves when it was answered, or its response waits for the end of the task. */
  async receive(received: TaskRequest): Promise<void> {
    const { message } = received;
    const structured = message.data.find(isFleetMessage);
    if (structured !== undefined) {
      // A client that sends fleet messages speaks the fleet extension, named or not.
      const read = readStructured(structured, message.contextId);
      return this.#admit({ ...received, fleet: true }, read, message.contextId);
    }
    const contextId = message.contextId ?? this.#options.newId();
    const { messageId } = message;
    const newId = (): string => messageId ?? this.#options.newId();
    const read = readText(message.text, { contextId, messageId: messageId ?? undefined, newId });
    await this.#admit(received, read, contextId);
  }

  async #admit(request: TaskRequest, read: ClientMessage, contextId: string | null): Promise<void> {
    switch (read.kind) {
      case 'dispatch': {
        const { dispatch, form } = read;
        return this.#dispatch(request, dispatch, form, contextId ?? dispatch.envelope.context_id ?? dispatch.task_id);
      }
      case 'malformed':
        return this.#malformed(request, read, contextId);
      case 'message':
        return this.#other(request, read.message);
    }
  }

  #malformed(
    request: TaskRequest,
    { taskId, errors, form, by }: Extract<ClientMessage, { kind: 'malformed' }>,
    contextId: string | null,
  ): void {
    const { log, worker } = this.#options;
    if (by === 'text') {
      const result = worker.refuse(taskId, errors);
      log.info('refused a task that came as text', { principal: request.principal.name, ...result?.blocked });
      if (result === undefined) return this.#fail(request, RPC.params, 'the task cannot be read');
      return this.#reply(request, contextId, replyText(result, form), []);
    }
    const answers: WorkerReply[] = [];
    const dispatch = taskId !== undefined && this.#handler.malformed(taskId, errors, (one) => answers.push(one));
    const found = errors.map(({ code, path }) => `${code} ${path}`).join(', ');
    if (!dispatch) return this.#fail(request, RPC.params, `the message in the data part is not valid: ${found}`);
    this.#reply(request, contextId ?? taskId, `Not started: ${found}`, answers);
  }

  /** Handles poll, cancel, steer and the like: the response is the worker's reply. */
  async #other(request: TaskRequest, message: Incoming): Promise<void> {
    const answers: WorkerReply[] = [];
    if (!(await this.#handler.receive(message, request.channel, (one) => answers.push(one)))) {
      return this.#fail(request, RPC.params, `${message.type} is nothing a worker takes`);
    }
    const taskId = (message as { readonly task_id?: string }).task_id;
    const text = answers.length === 0 ? 'Taken.' : 'The answer is in the data of this message.';
    this.#reply(request, request.message.contextId ?? taskId ?? this.#options.newId(), text, answers);
    for (const one of answers) if (one.type === 'TASK_RESULT') this.#acknowledge(request, one);
  }

  // Tasks.

  async #dispatch(request: TaskRequest, dispatch: Dispatched, form: ReplyForm, contextId: string): Promise<void> {
    const { channel } = request;
    const stopWaiting = channel.managed ? undefined : this.#wait(request, dispatch.task_id, form, contextId);
    channel.remember(dispatch.task_id, form, contextId);
    let outcome: DispatchOutcome;
    try {
      // The response is written below, in the form of this dialect.
      outcome = await this.#handler.dispatch(dispatch, channel, () => {});
    } catch (thrown) {
      stopWaiting?.();
      const { message: error } = asError(thrown);
      this.#options.log.error('task could not be accepted', { task_id: dispatch.task_id, error });
      return this.#fail(request, RPC.failed, 'inbox: the task could not be accepted');
    }
    switch (outcome.kind) {
      case 'busy':
      case 'taken': {
        stopWaiting?.();
        const { retryAfterS } = outcome;
        const reason = outcome.kind === 'taken' ? 'in_flight' : outcome.reason;
        const error = busyError(request.fleet, { retryAfterS, reason });
        return respond(request.response, 200, { jsonrpc: '2.0', id: request.id, error });
      }
      case 'refused':
      case 'replay':
        stopWaiting?.();
        await this.#result(request, outcome.result, form, contextId);
        if (outcome.kind === 'replay') this.#acknowledge(request, outcome.result);
        return;
      case 'accepted':
        if (stopWaiting === undefined) await this.#queued(request, dispatch, form, contextId);
    }
  }

  /** Leaves the request open until the task has ended. Returns the function that stops the wait. */
  #wait(request: TaskRequest, taskId: string, form: ReplyForm, contextId: string): () => void {
    const { response, channel } = request;
    const end = (): void => {
      clearTimeout(timer);
      undo();
      response.removeListener('close', end);
      this.#waiting.delete(stopping);
    };
    const abandon = (reason: string): void => {
      end();
      this.#fail(request, RPC.failed, `${reason}: the task continues; poll it by its id`, { task_id: taskId });
    };
    const stopping = (): void => abandon('the receiver is stopping');
    const undo = channel.wait(taskId, async (result) => {
      end();
      return this.#result(request, result, form, contextId);
    });
    const timer = setTimeout(() => abandon('timeout'), this.#options.replyTimeoutMs);
    response.on('close', end);
    this.#waiting.add(stopping);
    return end;
  }

  async #queued(
    request: TaskRequest,
    { task_id, envelope }: Dispatched,
    form: ReplyForm,
    contextId: string,
  ): Promise<void> {
    const announce = await this.#announce(request, contextId);
    const accepted = ack(task_id, { accepted: true, state: 'accepted' }, { attempt: envelope.attempt });
    const data = request.fleet || form === 'json' ? [...announce, accepted] : [];
    const block = data.length === 0 ? announce.map((one) => announceBlock(one)).join('\n\n') : '';
    this.#reply(request, contextId, queuedText(block), data);
  }

  /** Responds with a result; resolves with whether the client has received it, as far as known here. */
  async #result(request: TaskRequest, result: TaskResult, form: ReplyForm, contextId: string): Promise<boolean> {
    const announce = await this.#announce(request, contextId);
    const inData = request.fleet || form === 'json';
    const text = replyText(result, form);
    const blocks = inData ? [] : announce.map((one) => announceBlock(one));
    const data: FleetMessage[] = inData ? [...announce] : [];
    if (request.fleet) data.push(result);
    const flushed = finished(request.response);
    this.#reply(request, contextId, [...blocks, text].join('\n\n'), data);
    return flushed;
  }

  /** Returns the worker's announce, where the client has not received it in this context. */
  async #announce({ principal, message }: TaskRequest, contextId: string): Promise<readonly SessionAnnounce[]> {
    // A client that names no context gets a new one with each request, and the announce once.
    const key = `${principal.name} ${message.contextId ?? ''}`;
    if (this.#announced.has(key)) return [];
    this.#announced.add(key);
    const announce = await this.#announced.describe(contextId, ANNOUNCE_TIMEOUT_MS);
    if (announce !== undefined) return [announce];
    this.#announced.delete(key);
    return [];
  }

  /** Acknowledges a result that may still wait in the outbox, once the client has received it. */
  #acknowledge({ response, channel }: TaskRequest, { task_id, envelope }: TaskResult): void {
    void finished(response).then((received) => {
      if (!received) return;
      const stored = ack(task_id, { accepted: true, state: 'finished' }, { attempt: envelope?.attempt });
      return this.#handler.receive(stored, channel, () => {});
    });
  }

  #reply({ id, response }: TaskRequest, given: string | null, text: string, data: readonly FleetMessage[]): void {
    const { newId } = this.#options;
    respond(response, 200, messageResponse(id, { text, data, contextId: given ?? newId(), messageId: newId() }));
  }

  #fail({ id, response }: TaskRequest, code: number, text: string, data?: unknown): void {
    respond(response, 200, errorResponse(id, code, text, data));
  }
}

/** True when the whole response was given to the system; false when the client closed the connection before. */
function finished(response: ServerResponse): Promise<boolean> {
  if (response.writableFinished) return Promise.resolve(true);
  if (response.destroyed) return Promise.resolve(false);
  return new Promise((resolve) => {
    response.once('finish', () => resolve(true));
    response.once('close', () => resolve(response.writableFinished));
  });
}
