/**
 * Calls that a server of the generation without sessions answers with a task in place of their result (the extension
 * `io.modelcontextprotocol/tasks`). The official client reads a task as an error, so tasks are followed between it and
 * its transport: the client sees a call that makes progress, may ask, and ends with its result.
 *
 * - A task is polled until it has ended, at the interval of its server. Its messages are progress of the call.
 * - The client gets the questions of a task as those of a result; its answers are sent as `tasks/update`.
 * - A call that ends before its task cancels it.
 *
 * `tasks.ts` has the tasks of the generation with sessions.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { sleep } from '../base/sleep.ts';
import { isObject } from '../wire/json.ts';
import { cutOff } from './cut-off.ts';
import type { Id, Message } from './read-message.ts';
import { readResult } from './results.ts';
import type { Transport } from './sdk.ts';
import { pollDelay } from './tasks.ts';

/** The name of the extension. A server returns a task to a client that declares it alone. */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';

/** Numbers of JSON-RPC: for a failure of the other side, and for one that a server defines. */
const INTERNAL_ERROR = -32_603;
const SERVER_ERROR = -32_000;

/** A call of a tool, from its first request to its end. */
interface Call {
  readonly ended: AbortController;
  /** Cancels the task that works for it, until the task has ended. */
  cancel?: (() => void) | undefined;
}

/** A task that works for a call. */
interface Run {
  readonly call: Call;
  readonly taskId: string;
  /** Metadata that every request of this client carries about the client. */
  readonly meta: Readonly<Record<string, unknown>>;
  /** The request of the client that waits for the result now; another one after each question. */
  id: Id;
  progressToken: unknown;
  /** The names of the questions. */
  readonly asked: Set<string>;
  message: string;
  changes: number;
}

/** The outcome that the client gets in place of the task. */
type Outcome = { readonly result: Readonly<Record<string, unknown>> } | { readonly error: unknown };

/** Follows the tasks of one connection, from its construction on. */
export class StatelessTasks {
  readonly #send: Transport['send'];
  readonly #receive: NonNullable<Transport['onmessage']>;
  readonly #call = new AsyncLocalStorage<Call>();
  /** Calls without a response, each with the function that continues in its context. */
  readonly #sent = new Map<Id, (response: Record<string, unknown>) => void>();
  /** Requests of the client whose task runs. */
  readonly #working = new Set<Id>();
  /** Tasks that wait for answers, by the state that the client sends with them. */
  readonly #asking = new Map<string, Run>();
  /** Requests that this file sends itself. */
  readonly #waiting = new Map<Id, (response: Message) => void>();

  constructor(transport: Transport) {
    this.#send = transport.send.bind(transport);
    this.#receive = (message, extra) => receive?.(message, extra);
    const receive = transport.onmessage;
    transport.send = (message, options) => (this.#isTaken(message) ? Promise.resolve() : this.#send(message, options));
    transport.onmessage = (message, extra) => {
      if (!this.#isOfTask(message)) this.#receive(message, extra);
    };
  }

  /** Runs a call; a task that works for it when it ends is cancelled. */
  async during<Result>(calling: () => Promise<Result>): Promise<Result> {
    const call: Call = { ended: new AbortController() };
    try {
      return await this.#call.run(call, calling);
    } finally {
      call.ended.abort();
      call.cancel?.();
    }
  }

  /** Returns true if a message of the client must not reach the server unchanged. */
  #isTaken(message: Message): boolean {
    if (!('method' in message)) return false;
    const { method, params = {} } = message;
    // The request was answered; its task is cancelled in another way.
    if (method === 'notifications/cancelled') return this.#working.has(params.requestId as Id);
    const call = this.#call.getStore();
    if (method !== 'tools/call' || !('id' in message) || call === undefined) return false;
    const { _meta = {}, requestState, inputResponses } = params;
    const { progressToken, ...meta } = _meta as Record<string, unknown>;
    const run = typeof requestState === 'string' ? this.#asking.get(requestState) : undefined;
    const { id } = message;
    if (run === undefined) {
      const followed = (task: Record<string, unknown>): void => {
        const taskId = task.taskId as string;
        void this.#follow({ call, taskId, meta, id, progressToken, asked: new Set(), message: '', changes: 0 }, task);
      };
      this.#sent.set(id, AsyncLocalStorage.bind(followed));
      call.ended.signal.addEventListener('abort', () => this.#sent.delete(id), { once: true });
      return false;
    }
    this.#asking.delete(requestState as string);
    Object.assign(run, { id, progressToken });
    void this.#follow(run, undefined, inputResponses);
    return true;
  }

  /** Returns true if a message of the server is about a task, and not for the client. */
  #isOfTask(message: Message): boolean {
    if ('method' in message || message.id === undefined) return false;
    const { id } = message;
    const waiting = this.#waiting.get(id);
    if (waiting !== undefined) {
      waiting(message);
      return true;
    }
    // Over HTTP the end of a stream is a second response.
    if (this.#working.has(id)) return true;
    const followed = this.#sent.get(id);
    this.#sent.delete(id);
    const result = 'result' in message ? (message.result as Record<string, unknown>) : {};
    if (followed === undefined || result.resultType !== 'task' || typeof result.taskId !== 'string') return false;
    followed(result);
    return true;
  }

  /** Gives the client the outcome of a task: its result, its failure, or its questions. */
  async #follow(run: Run, first: Record<string, unknown> | undefined, inputResponses?: unknown): Promise<void> {
    const { call, taskId, id } = run;
    this.#working.add(id);
    call.cancel = () => void this.#request('tasks/cancel', { taskId }, run.meta, AbortSignal.abort()).catch(() => {});
    let outcome: Outcome;
    try {
      if (first === undefined) await this.#ask(run, 'tasks/update', { inputResponses });
      outcome = await this.#outcome(run, first ?? (await this.#ask(run, 'tasks/get')));
    } catch (thrown) {
      // A request without any response is one whose server was lost.
      outcome = { error: thrown instanceof Error ? cutOff(id).error : thrown };
    }
    this.#working.delete(id);
    if (!call.ended.signal.aborted) this.#receive({ jsonrpc: '2.0', id, ...outcome } as Message);
  }

  /** Asks for the task until it has ended, or asks for something. Rejects as its requests do. */
  async #outcome(run: Run, first: Record<string, unknown>): Promise<Outcome> {
    const { call } = run;
    for (let task = first; ; task = await this.#ask(run, 'tasks/get')) {
      const { status, statusMessage, inputRequests, pollIntervalMs } = task;
      if (status === 'completed' || status === 'failed' || status === 'cancelled') call.cancel = undefined;
      if (status === 'completed' && isObject(task.result))
        return { result: { ...(readResult('tools/call', task.result, true) as object), resultType: 'complete' } };
      if (status === 'failed' && isObject(task.error)) return { error: task.error };
      if (status === 'cancelled') {
        const message = typeof statusMessage === 'string' ? statusMessage : 'the server cancelled the task';
        return { error: { code: SERVER_ERROR, message } };
      }
      if (status !== 'working' && status !== 'input_required') {
        return { error: { code: INTERNAL_ERROR, message: 'the server should have replied with a task' } };
      }
      if (typeof statusMessage === 'string') this.#progress(run, statusMessage);
      const open = Object.entries(isObject(inputRequests) ? inputRequests : {}).filter(
        ([name]) => !run.asked.has(name),
      );
      if (status === 'input_required' && open.length > 0) {
        for (const [name] of open) run.asked.add(name);
        const requestState = randomUUID();
        this.#asking.set(requestState, run);
        call.ended.signal.addEventListener('abort', () => this.#asking.delete(requestState), { once: true });
        return { result: { resultType: 'input_required', inputRequests: Object.fromEntries(open), requestState } };
      }
      await sleep(pollDelay(pollIntervalMs), call.ended.signal);
      call.ended.signal.throwIfAborted();
    }
  }

  #progress(run: Run, message: string): void {
    const { progressToken } = run;
    if (run.message === message || progressToken === undefined) return;
    run.message = message;
    run.changes += 1;
    const params = { progressToken, progress: run.changes, message };
    this.#receive({ jsonrpc: '2.0', method: 'notifications/progress', params } as Message);
  }

  #ask({ call, taskId, meta }: Run, method: string, params: Record<string, unknown> = {}) {
    return this.#request(method, { taskId, ...params }, meta, call.ended.signal);
  }

  /** Makes a request. Rejects with an error for the client, and as sending does; with an aborted signal it does not wait. */
  async #request(
    method: string,
    params: Record<string, unknown>,
    meta: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<Record<string, unknown>> {
    const id = `task-${randomUUID()}`;
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const abandon = () => reject(signal.reason);
    promise.catch(() => {});
    this.#waiting.set(id, resolve);
    signal.addEventListener('abort', abandon, { once: true });
    try {
      await Promise.race([this.#send({ jsonrpc: '2.0', id, method, params: { ...params, _meta: meta } }), promise]);
      signal.throwIfAborted();
      const response = await promise;
      // Its number would be read as that of the call.
      if ('error' in response)
        throw { ...response.error, code: INTERNAL_ERROR, message: `the task was lost: ${response.error.message}` };
      return 'result' in response ? (response.result as Record<string, unknown>) : {};
    } finally {
      this.#waiting.delete(id);
      signal.removeEventListener('abort', abandon);
    }
  }
}
