/**
 * What every bus does with a message for its worker: a dispatch is decided on, acknowledged and begun, in this order; all
 * else is handed over and answered. Messages about one task keep their order, also while its dispatch is being decided on.
 *
 * One for each worker and bus. Called by the worker's side of the bindings.
 */
import type { Log } from '../../base/log.ts';
import type { SessionAnnounce, TaskAck, TaskResult } from '../../protocol/fleet.ts';
import { asError } from '../../wire/errors.ts';
import type { Dispatched, Finding, Incoming } from '../messages/decoded.ts';
import { fleetMessage, resultMessage } from '../messages/encode.ts';
import type { DispatchOutcome, Lease, ReplyChannel, WorkerPort } from './reply-channel.ts';

/** What a worker answers. */
export type Answer = TaskAck | TaskResult | SessionAnnounce;

/** Sends an answer to whoever asked. Never throws; drops it when nobody is there, because whoever misses it asks again. */
export type Reply = (answer: Answer) => void;

/** Types of messages only an orchestrator sends, and a worker takes. */
const FOR_WORKERS = new Set<Incoming['type']>([
  'TASK_DISPATCH',
  'TASK_CANCEL',
  'TASK_STEER',
  'TASK_POLL',
  'TASK_ANSWER',
  'TASK_ACK',
  'ANNOUNCE_REQUEST',
]);

/** Lifetime of a lease nobody named, seconds. */
const DEFAULT_LEASE_TTL_S = 45;

export class WorkerMessageHandler {
  readonly #worker: WorkerPort;
  readonly #log: Pick<Log, 'warn' | 'error'> | undefined;
  /** Tasks whose dispatch is being decided on, and what waits behind each. */
  readonly #deciding = new Map<string, Promise<unknown>>();
  #pending = 0;

  constructor(worker: WorkerPort, log?: Pick<Log, 'warn' | 'error'>) {
    this.#worker = worker;
    this.#log = log;
  }

  /** Messages whose answer has not been found yet. */
  get pending(): number {
    return this.#pending;
  }

  /**
   * Takes any message of an orchestrator; resolves when it has been answered. False: it is not one a worker takes. Never
   * rejects: what fails inside the worker is logged, and the orchestrator asks again.
   */
  async take(message: Incoming, outlet: ReplyChannel, reply: Reply): Promise<boolean> {
    if (!FOR_WORKERS.has(message.type)) return false;
    try {
      if (message.type === 'TASK_DISPATCH') await this.dispatch(message, outlet, reply);
      else await this.#other(message, outlet, reply);
    } catch (thrown) {
      const { code, message: why } = asError(thrown);
      this.#log?.error('a message could not be handled', { type: message.type, code, error: why });
    }
    return true;
  }

  /**
   * Decides on a dispatch, answers it and begins it. Resolves with what the worker made of it; rejects when the worker could
   * not even decide, and nothing is kept of it then.
   */
  dispatch(dispatch: Dispatched, outlet: ReplyChannel, reply: Reply): Promise<DispatchOutcome> {
    return this.#inOrder(dispatch.task_id, async () => {
      const reception = await this.#worker.receive(dispatch, outlet);
      const answer = answerTo(dispatch, reception, outlet);
      if (answer !== undefined) reply(answer);
      if (reception.kind === 'accepted') reception.begin(leaseOf(dispatch));
      return reception;
    });
  }

  /** A dispatch that could not be read: answers what may be answered. False: nothing could. */
  unreadable(taskId: string | undefined, errors: readonly Finding[], reply: Reply): boolean {
    const result = this.#worker.refuse(taskId, errors);
    if (result === undefined) return false;
    reply(result);
    return true;
  }

  #other(message: Exclude<Incoming, Dispatched>, outlet: ReplyChannel, reply: Reply): Promise<void> {
    if (message.type === 'ANNOUNCE_REQUEST') {
      return this.#inOrder('', async () => reply(await this.#worker.announce(message.context_id)));
    }
    const taskId = (message as { readonly task_id?: string }).task_id ?? '';
    return this.#inOrder(taskId, async () => {
      const answer = await this.#worker.handle(message, outlet);
      if (answer !== undefined) reply(caused(answer, message.envelope?.message_id));
    });
  }

  /** Runs `work` behind what is being decided about the same task; at once when nothing is. */
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

/** The message that tells an orchestrator what became of its dispatch; undefined when it could not read one. */
function answerTo(dispatch: Dispatched, reception: DispatchOutcome, outlet: ReplyChannel): Answer | undefined {
  const { task_id, envelope } = dispatch;
  const back = { causation_id: envelope.message_id, attempt: envelope.attempt };
  switch (reception.kind) {
    case 'refused':
    case 'replay':
      return caused(reception.result, envelope.message_id);
    case 'busy': {
      const { reason, retryAfterS: retry_after_s } = reception;
      // `running` in the place of `busy`: it is another attempt at this task that runs.
      const state = reason === 'in_flight' ? 'running' : 'busy';
      if (outlet.features.has('ack')) return ack(task_id, { accepted: false, state, retry_after_s }, back);
      // A result would end a task that runs; its own result comes all the same.
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
      // Nothing is said where that could not be understood; its own result comes all the same.
      if (!outlet.features.has('ack')) return undefined;
      const { state, lease } = reception;
      return ack(task_id, { accepted: true, state, lease: lease ?? told(dispatch) }, back);
    }
    case 'accepted': {
      if (!outlet.features.has('ack')) return undefined;
      return ack(task_id, { accepted: true, state: 'accepted', lease: told(dispatch) }, back);
    }
  }
}

/** A TASK_ACK. */
export function ack(
  task_id: string,
  members: Omit<TaskAck, 'type' | 'protocol_version' | 'task_id'>,
  envelope?: TaskAck['envelope'],
): TaskAck {
  return fleetMessage('TASK_ACK', { task_id, ...members }, envelope);
}

/** The lease a dispatch brings. Where nobody keeps leases apart from the messages, the attempt is the fence. */
export function leaseOf({ envelope }: Dispatched): Lease {
  return {
    fence: envelope.lease?.fence ?? envelope.attempt ?? 1,
    ttlS: envelope.lease?.ttl_s ?? DEFAULT_LEASE_TTL_S,
  };
}

function told(dispatch: Dispatched): NonNullable<TaskAck['lease']> {
  const { ttlS, fence } = leaseOf(dispatch);
  return { ttl_s: ttlS, fence };
}

/** The same message, naming the one it answers. */
function caused<M extends TaskAck | TaskResult>(message: M, causation_id: string | undefined): M {
  if (causation_id === undefined) return message;
  return { ...message, envelope: { ...message.envelope, causation_id } };
}
