/**
 * Handles a message for a worker, equally on every bus: a dispatch is decided on, acknowledged and started, in this order; any
 * other message is passed on and answered. Messages about one task stay in order, also while its dispatch is decided on.
 *
 * One for each worker and bus.
 */
import type { Log } from '../../base/log.ts';
import type { SessionAnnounce, TaskAck, TaskResult } from '../../protocol/fleet.ts';
import { asError } from '../../wire/errors.ts';
import type { Dispatched, Finding, Incoming } from '../messages/decoded.ts';
import { fleetMessage, resultMessage } from '../messages/encode.ts';
import type { DispatchOutcome, Lease, ReplyChannel, WorkerPort } from './reply-channel.ts';

/** A worker's reply. */
export type WorkerReply = TaskAck | TaskResult | SessionAnnounce;

/** Sends a reply to the orchestrator. Never throws; drops it without a connection, because the orchestrator polls. */
export type Reply = (answer: WorkerReply) => void;

/** Types of messages that only an orchestrator sends. */
const FOR_WORKERS = new Set<Incoming['type']>([
  'TASK_DISPATCH',
  'TASK_CANCEL',
  'TASK_STEER',
  'TASK_POLL',
  'TASK_ANSWER',
  'TASK_ACK',
  'ANNOUNCE_REQUEST',
]);

/** Lifetime of a lease that the dispatch does not name, seconds. */
const DEFAULT_LEASE_TTL_S = 45;

export class WorkerMessageHandler {
  readonly #worker: WorkerPort;
  readonly #log: Pick<Log, 'warn' | 'error'> | undefined;
  /** Tasks whose dispatch is being decided on, and the work that waits behind each. */
  readonly #deciding = new Map<string, Promise<unknown>>();
  #pending = 0;

  constructor(worker: WorkerPort, log?: Pick<Log, 'warn' | 'error'>) {
    this.#worker = worker;
    this.#log = log;
  }

  /** Messages without a reply yet. */
  get pending(): number {
    return this.#pending;
  }

  /**
   * Handles any message of an orchestrator; resolves when it was answered. False: it is not for workers. Never rejects: a
   * failure inside the worker is logged, and the orchestrator polls.
   */
  async receive(message: Incoming, channel: ReplyChannel, reply: Reply): Promise<boolean> {
    if (!FOR_WORKERS.has(message.type)) return false;
    try {
      if (message.type === 'TASK_DISPATCH') await this.dispatch(message, channel, reply);
      else await this.#other(message, channel, reply);
    } catch (thrown) {
      const { code, message: error } = asError(thrown);
      this.#log?.error('message could not be handled', { type: message.type, code, error });
    }
    return true;
  }

  /**
   * Decides on a dispatch, replies and starts it. Resolves with the worker's decision; rejects when the worker could not
   * decide, and nothing of the dispatch is stored then.
   */
  dispatch(dispatch: Dispatched, channel: ReplyChannel, reply: Reply): Promise<DispatchOutcome> {
    return this.#inOrder(dispatch.task_id, async () => {
      const outcome = await this.#worker.receive(dispatch, channel);
      const answer = replyTo(dispatch, outcome, channel);
      if (answer !== undefined) reply(answer);
      if (outcome.kind === 'accepted') outcome.start(leaseOf(dispatch));
      return outcome;
    });
  }

  /** Replies to a dispatch that is malformed. False: it does not even name a task. */
  malformed(taskId: string | undefined, errors: readonly Finding[], reply: Reply): boolean {
    const result = this.#worker.refuse(taskId, errors);
    if (result === undefined) return false;
    reply(result);
    return true;
  }

  #other(message: Exclude<Incoming, Dispatched>, channel: ReplyChannel, reply: Reply): Promise<void> {
    if (message.type === 'ANNOUNCE_REQUEST') {
      return this.#inOrder('', async () => reply(await this.#worker.announce(message.context_id)));
    }
    const taskId = (message as { readonly task_id?: string }).task_id ?? '';
    return this.#inOrder(taskId, async () => {
      const answer = await this.#worker.handle(message, channel);
      if (answer !== undefined) reply(caused(answer, message.envelope?.message_id));
    });
  }

  /** Runs `work` behind the decision on the same task; at once when no decision is under way. */
  async #inOrder<T>(taskId: string, work: () => Promise<T>): Promise<T> {
    this.#pending++;
    const before = taskId === '' ? undefined : this.#deciding.get(taskId);
    const running = before === undefined ? work() : before.then(work, work);
    if (taskId !== '') this.#deciding.set(taskId, running);
    try {
      return await running;
    } finally {
      this.#pending--;
      if (this.#deciding.get(taskId) === running) this.#deciding.delete(taskId);
    }
  }
}

/** Returns the reply to a dispatch; undefined when the orchestrator could not read one. */
function replyTo(dispatch: Dispatched, outcome: DispatchOutcome, channel: ReplyChannel): WorkerReply | undefined {
  const { task_id, envelope } = dispatch;
  const back = { causation_id: envelope.message_id, attempt: envelope.attempt };
  switch (outcome.kind) {
    case 'refused':
    case 'replay':
      return caused(outcome.result, envelope.message_id);
    case 'busy': {
      const { reason, retryAfterS: retry_after_s } = outcome;
      // `running` instead of `busy`: another attempt at this task runs.
      const state = reason === 'in_flight' ? 'running' : 'busy';
      if (channel.features.has('ack')) return ack(task_id, { accepted: false, state, retry_after_s }, back);
      // A result would end a task that runs; its own result follows.
      if (reason === 'in_flight') return undefined;
      return resultMessage(
        {
          task_id,
          status: 'blocked',
          tokens_spent: 0,
          blocked_reason: 'busy: a turn of this context is running',
          blocked: { code: 'busy', retryable: true, retry_after_s },
        },
        back,
      );
    }
    case 'taken': {
      // No reply where it could not be understood; its own result follows.
      if (!channel.features.has('ack')) return undefined;
      const { state, lease } = outcome;
      return ack(task_id, { accepted: true, state, lease: lease ?? leaseTerms(dispatch) }, back);
    }
    case 'accepted': {
      if (!channel.features.has('ack')) return undefined;
      return ack(task_id, { accepted: true, state: 'accepted', lease: leaseTerms(dispatch) }, back);
    }
  }
}

/** Makes a TASK_ACK. */
export function ack(
  task_id: string,
  members: Omit<TaskAck, 'type' | 'protocol_version' | 'task_id'>,
  envelope?: TaskAck['envelope'],
): TaskAck {
  return fleetMessage('TASK_ACK', { task_id, ...members }, envelope);
}

/** Returns the lease of a dispatch. Where only messages carry leases, the attempt is the fence. */
export function leaseOf({ envelope }: Dispatched): Lease {
  return {
    fence: envelope.lease?.fence ?? envelope.attempt ?? 1,
    ttlS: envelope.lease?.ttl_s ?? DEFAULT_LEASE_TTL_S,
  };
}

function leaseTerms(dispatch: Dispatched): NonNullable<TaskAck['lease']> {
  const { ttlS, fence } = leaseOf(dispatch);
  return { ttl_s: ttlS, fence };
}

/** Returns the same message with the name of the one it replies to. */
function caused<M extends TaskAck | TaskResult>(message: M, causation_id: string | undefined): M {
  if (causation_id === undefined) return message;
  return { ...message, envelope: { ...message.envelope, causation_id } };
}
