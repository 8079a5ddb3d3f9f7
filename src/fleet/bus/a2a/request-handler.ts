/**
 * What an A2A client asks of a worker, one step before the SDK: what is decided by the worker goes by `admission.ts`, all
 * else to the SDK's own handler.
 *
 * Made by `worker-server.ts`.
 * @see docs/a2a.md#agent
 */
import { A2aAdmission, type Decided, type DecisionsOptions } from './admission.ts';
import { A2aExecutions } from './executions.ts';
import { isEnded } from './messages.ts';
import type { A2ARequestHandler, Message, SendMessageRequest, ServerCallContext, StreamResponse, Task } from './sdk.ts';
import { scopeOf } from './task-store.ts';

export interface RequestHandlerOptions extends DecisionsOptions {
  /** The SDK's own handler, on `runs` and `store`. */
  readonly inner: A2ARequestHandler;
}

export class FleetRequestHandler implements A2ARequestHandler {
  readonly #options: RequestHandlerOptions;
  readonly #decisions: A2aAdmission;

  constructor(options: RequestHandlerOptions) {
    this.#options = options;
    this.#decisions = new A2aAdmission(options);
  }

  // What the SDK does by itself.

  getAgentCard: A2ARequestHandler['getAgentCard'] = () => this.#options.inner.getAgentCard();
  getAuthenticatedExtendedAgentCard: A2ARequestHandler['getAuthenticatedExtendedAgentCard'] = (...call) =>
    this.#options.inner.getAuthenticatedExtendedAgentCard(...call);
  getTask: A2ARequestHandler['getTask'] = (...call) => this.#options.inner.getTask(...call);
  listTasks: A2ARequestHandler['listTasks'] = (...call) => this.#options.inner.listTasks(...call);
  resubscribe: A2ARequestHandler['resubscribe'] = (...call) => this.#options.inner.resubscribe(...call);
  createTaskPushNotificationConfig: A2ARequestHandler['createTaskPushNotificationConfig'] = (...call) =>
    this.#options.inner.createTaskPushNotificationConfig(...call);
  getTaskPushNotificationConfig: A2ARequestHandler['getTaskPushNotificationConfig'] = (...call) =>
    this.#options.inner.getTaskPushNotificationConfig(...call);
  listTaskPushNotificationConfigs: A2ARequestHandler['listTaskPushNotificationConfigs'] = (...call) =>
    this.#options.inner.listTaskPushNotificationConfigs(...call);
  deleteTaskPushNotificationConfig: A2ARequestHandler['deleteTaskPushNotificationConfig'] = (...call) =>
    this.#options.inner.deleteTaskPushNotificationConfig(...call);

  // Tasks.

  sendMessage: A2ARequestHandler['sendMessage'] = async (params, context) => {
    const decided = await this.#decisions.decide(params, context);
    switch (decided.kind) {
      case 'message':
        return decided.message;
      case 'task':
        return trimmed(decided.task, params);
      case 'refuse':
        return this.#options.inner.sendMessage(params, context);
      case 'run':
        decided.hear();
        return this.#begin(decided, params, context);
    }
  };

  sendMessageStream: A2ARequestHandler['sendMessageStream'] = (params, context) => this.#stream(params, context);

  /**
   * The SDK stores what it streams only while its client listens, so the task is begun as one that nobody waits for, and the
   * stream is a subscription to it. Nothing is worked on before that stands.
   */
  async *#stream(
    params: SendMessageRequest,
    context: ServerCallContext,
  ): AsyncGenerator<StreamResponse, void, undefined> {
    const decided = await this.#decisions.decide(params, context);
    const { inner } = this.#options;
    if (decided.kind === 'message') return yield { payload: { $case: 'message', value: decided.message } };
    if (decided.kind === 'refuse') return yield* inner.sendMessageStream(params, context);
    let task: Task;
    if (decided.kind === 'task') task = decided.task;
    else {
      const configuration = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, ...params.configuration };
      const now = { ...params, configuration: { ...configuration, returnImmediately: true } };
      task = (await this.#begin(decided, now, context)) as Task;
    }
    try {
      if (isEnded(task.status?.state)) return yield { payload: { $case: 'task', value: trimmed(task, params) } };
      const events = inner.resubscribe({ tenant: params.tenant, id: task.id }, context);
      for await (const event of events) {
        if (decided.kind === 'run') decided.hear();
        yield event;
      }
    } finally {
      if (decided.kind === 'run') decided.hear();
    }
  }

  cancelTask: A2ARequestHandler['cancelTask'] = async (params, context) => {
    const { store, runs, end } = this.#options;
    const scope = scopeOf(context);
    const task = params.id === '' ? undefined : store.find(scope, params.id);
    // Of an earlier process: the SDK would only write it down, and the worker would go on.
    if (task !== undefined && !isEnded(task.status?.state) && runs.liveOf(scope, params.id) === undefined) {
      const link = store.linkOfTask(scope, params.id);
      if (link !== undefined) await end.cancel(link.outlet, link.taskId);
    }
    return this.#options.inner.cancelTask(params, context);
  };

  async #begin(
    { run, message }: Extract<Decided, { kind: 'run' }>,
    params: SendMessageRequest,
    context: ServerCallContext,
  ): Promise<Message | Task> {
    A2aExecutions.prepare(context, run);
    try {
      return await this.#options.inner.sendMessage({ ...params, message }, context);
    } finally {
      // The SDK found something wrong with the request itself.
      if (!run.used && run.what.kind === 'begin') await run.what.abandon();
    }
  }
}

/** No more history than was asked for. */
function trimmed(task: Task, { configuration }: SendMessageRequest): Task {
  const most = configuration?.historyLength;
  return most === undefined ? task : { ...task, history: most <= 0 ? [] : task.history.slice(-most) };
}
