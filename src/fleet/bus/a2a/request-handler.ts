/**
 * The requests of A2A clients, one step before the SDK: `admission.ts` admits new messages, all other calls go to the SDK's own
 * handler.
 *
 * @see docs/a2a.md#agent
 */
import { A2aAdmission, type A2aAdmissionOptions, type Admitted } from './admission.ts';
import { A2aExecutions } from './executions.ts';
import { isEnded } from './messages.ts';
import type { A2ARequestHandler, Message, SendMessageRequest, ServerCallContext, StreamResponse, Task } from './sdk.ts';
import { scopeOf } from './task-store.ts';

export interface RequestHandlerOptions extends A2aAdmissionOptions {
  /** The SDK's own handler, on `executions` and `store`. */
  readonly inner: A2ARequestHandler;
}

export class FleetRequestHandler implements A2ARequestHandler {
  readonly #options: RequestHandlerOptions;
  readonly #admission: A2aAdmission;

  constructor(options: RequestHandlerOptions) {
    this.#options = options;
    this.#admission = new A2aAdmission(options);
  }

  // Calls of the SDK's own handler.

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
    const admitted = await this.#admission.admit(params, context);
    switch (admitted.kind) {
      case 'message':
        return admitted.message;
      case 'task':
        return trimmed(admitted.task, params);
      case 'refuse':
        return this.#options.inner.sendMessage(params, context);
      case 'start':
        admitted.listening();
        return this.#start(admitted, params, context);
    }
  };

  sendMessageStream: A2ARequestHandler['sendMessageStream'] = (params, context) => this.#stream(params, context);

  /**
   * Streams a task. The SDK stores what it streams only while its client listens. The task is therefore started as one without
   * a waiting request, and the stream is a subscription to it. The worker starts when the subscription stands.
   */
  async *#stream(
    params: SendMessageRequest,
    context: ServerCallContext,
  ): AsyncGenerator<StreamResponse, void, undefined> {
    const admitted = await this.#admission.admit(params, context);
    const { inner } = this.#options;
    if (admitted.kind === 'message') return yield { payload: { $case: 'message', value: admitted.message } };
    if (admitted.kind === 'refuse') return yield* inner.sendMessageStream(params, context);
    let task: Task;
    if (admitted.kind === 'task') task = admitted.task;
    else {
      const configuration = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, ...params.configuration };
      const now = { ...params, configuration: { ...configuration, returnImmediately: true } };
      task = (await this.#start(admitted, now, context)) as Task;
    }
    try {
      if (isEnded(task.status?.state)) return yield { payload: { $case: 'task', value: trimmed(task, params) } };
      const events = inner.resubscribe({ tenant: params.tenant, id: task.id }, context);
      for await (const event of events) {
        if (admitted.kind === 'start') admitted.listening();
        yield event;
      }
    } finally {
      if (admitted.kind === 'start') admitted.listening();
    }
  }

  cancelTask: A2ARequestHandler['cancelTask'] = async (params, context) => {
    const { store, executions, adapter } = this.#options;
    const scope = scopeOf(context);
    const task = params.id === '' ? undefined : store.find(scope, params.id);
    // A task of an earlier process, or one that waits for its client: the SDK would only store the cancel, and the worker would
    // continue.
    if (task !== undefined && !isEnded(task.status?.state) && !executions.publishes(scope, params.id)) {
      const link = store.linkOfTask(scope, params.id);
      if (link !== undefined) {
        executions.canceling(link.channel, link.taskId);
        await adapter.cancel(link.channel, link.taskId);
      }
    }
    return this.#options.inner.cancelTask(params, context);
  };

  async #start(
    { execution, message }: Extract<Admitted, { kind: 'start' }>,
    params: SendMessageRequest,
    context: ServerCallContext,
  ): Promise<Message | Task> {
    A2aExecutions.prepare(context, execution);
    try {
      return await this.#options.inner.sendMessage({ ...params, message }, context);
    } finally {
      // The SDK found something wrong with the request itself.
      const { used, what } = execution;
      if (!used && what.kind === 'start') await what.abandon();
      if (!used && what.kind === 'answer') what.release();
    }
  }
}

/** Returns a task with no more history than was asked for. */
function trimmed(task: Task, { configuration }: SendMessageRequest): Task {
  const most = configuration?.historyLength;
  return most === undefined ? task : { ...task, history: most <= 0 ? [] : task.history.slice(-most) };
}
