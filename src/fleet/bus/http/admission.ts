/**
 * Tasks at a receiver: a message becomes a dispatch or a word about one, and what the worker makes of it becomes the answer,
 * at once or when the task has ended.
 *
 * Made by `worker-server.ts`, one for each worker. @see docs/protocol/fleet.md#http
 */
import type { ServerResponse } from 'node:http';
import type { Log } from '../../../base/log.ts';
import type { FleetMessage, TaskDispatch, TaskResult } from '../../../protocol/fleet.ts';
import type { Principal } from '../../../session/principal.ts';
import { asError } from '../../../wire/errors.ts';
import { decodeValue } from '../../messages/decode.ts';
import type { Decoded, Dispatched, Incoming } from '../../messages/decoded.ts';
import { dispatchMessage } from '../../messages/encode.ts';
import { parseInline } from '../../phases/inline.ts';
import { evictOldest } from '../evict-oldest.ts';
import { answer } from '../plain/http-server.ts';
import { announceBlock, queuedText, type ReplyForm, replyText } from '../plain/reply-text.ts';
import type { DispatchOutcome, WorkerPort } from '../reply-channel.ts';
import { type Answer, ack, WorkerMessageHandler } from '../worker-messages.ts';
import { busyAnswer, errorAnswer, type HttpMessage, messageAnswer, RPC, type RpcId } from './messages.ts';
import type { HttpReplyChannel } from './reply-channel.ts';

/** Contexts that have had their announce. */
const MAX_CONTEXTS = 10_000;

/** One request for a task or about one. */
export interface Asked {
  readonly id: RpcId;
  readonly message: HttpMessage;
  readonly principal: Principal;
  readonly response: ServerResponse;
  /** Its request names our extension. */
  readonly fleet: boolean;
  readonly outlet: HttpReplyChannel;
}

export interface ReceiverTasksOptions {
  readonly worker: WorkerPort;
  readonly log: Log;
  /** How long a client may wait for the end of its task, milliseconds. */
  readonly replyTimeoutMs: number;
  readonly newId: () => string;
}

export class ReceiverTasks {
  readonly #options: ReceiverTasksOptions;
  readonly #intake: WorkerMessageHandler;
  /** Contexts whose client has had the description of the worker. */
  readonly #announced = new Set<string>();
  /** Tells those who wait for the end of a task that it will not be told here. */
  readonly #waiting = new Set<() => void>();

  constructor(options: ReceiverTasksOptions) {
    this.#options = options;
    this.#intake = new WorkerMessageHandler(options.worker, options.log);
  }

  /** Answers everybody who waits: the tasks go on. */
  close(): void {
    for (const stopping of [...this.#waiting]) stopping();
  }

  /** Takes a message; resolves when it was answered, or its answer waits for the end of the task. */
  async take(request: Asked): Promise<void> {
    const structured = request.message.data.find(isFleetMessage);
    if (structured === undefined) return this.#text(request);
    // Whoever sends messages of ours speaks our extension, named or not.
    const asked = { ...request, fleet: true };
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
    this.#reply(asked, asked.message.contextId ?? taskId ?? this.#options.newId(), words, answers);
    for (const one of answers) if (one.type === 'TASK_RESULT') this.#handedOver(asked, one);
  }

  /** A brief with hints, or without. */
  async #text(asked: Asked): Promise<void> {
    const { message, principal } = asked;
    const { is_dispatch, hints, brief } = parseInline(message.text);
    const contextId = message.contextId ?? this.#options.newId();
    const form: ReplyForm = is_dispatch ? (hints.reply_schema ?? 'structured') : 'plain';
    const dispatch: TaskDispatch = dispatchMessage(
      {
        task: {
          task_id: hints.task_id ?? message.messageId ?? this.#options.newId(),
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
      { context_id: contextId, ...(message.messageId !== null && { message_id: message.messageId }) },
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
    let reception: DispatchOutcome;
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
      case 'taken': {
        waiting?.();
        const reason = reception.kind === 'taken' ? 'in_flight' : reception.reason;
        answer(asked.response, 200, busyAnswer(asked.id, asked.fleet, reception.retryAfterS, reason));
        return;
      }
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
    const end = (): void => {
      clearTimeout(timer);
      undo();
      response.removeListener('close', end);
      this.#waiting.delete(stopping);
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
    const timer = setTimeout(() => giveUp('timeout'), this.#options.replyTimeoutMs);
    response.on('close', end);
    this.#waiting.add(stopping);
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
    evictOldest(this.#announced, MAX_CONTEXTS);
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
    answer(response, 200, messageAnswer(id, { text, data, contextId, messageId: this.#options.newId() }));
  }

  #fail({ id, response }: Asked, code: number, text: string, data?: unknown): void {
    answer(response, 200, errorAnswer(id, code, text, data));
  }
}

/** True for a data part that is a message of this protocol. */
function isFleetMessage(part: unknown): boolean {
  const { type, protocol_version } = part as { readonly type?: unknown; readonly protocol_version?: unknown };
  return typeof type === 'string' && /^[A-Z]+_[A-Z_]+$/.test(type) && protocol_version !== undefined;
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
