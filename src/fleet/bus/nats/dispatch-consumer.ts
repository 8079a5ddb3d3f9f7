/**
 * Handles each dispatch that is delivered to a worker: it is decided on, written to the journal, leased, claimed, acknowledged,
 * and only then started. Other messages about a task wait behind that.
 *
 * The order matters. Acknowledged at its end, a task that is half done would be redelivered; started before it is
 * acknowledged, it could start elsewhere as well.
 * @see docs/nats.md#life-of-a-dispatch
 */
import { backoffMs } from '../../../base/backoff.ts';
import { setNewest } from '../../../base/evict-oldest.ts';
import type { SessionAnnounce, TaskAck, TaskResult } from '../../../protocol/fleet.ts';
import { asError, fail } from '../../../wire/errors.ts';
import { decode } from '../../messages/decode.ts';
import type { Dispatched, Incoming } from '../../messages/decoded.ts';
import { resultMessage } from '../../messages/encode.ts';
import type { DispatchOutcome, WorkerPort } from '../reply-channel.ts';
import { ack } from '../worker-messages.ts';
import type { NatsLink } from './connection.ts';
import type { HeldLease, Leases } from './leases.ts';
import { pack, unpack } from './payload.ts';
import type { Delivery } from './pull-consumer.ts';
import type { NatsReplyChannel } from './reply-channel.ts';
import { MAX_DELIVER } from './streams.ts';
import { subjects, tokenOf } from './subjects.ts';

export interface ReceptionOptions {
  readonly link: NatsLink;
  readonly worker: WorkerPort;
  readonly channel: NatsReplyChannel;
  readonly leases: Leases;
  /** Called when the worker may have room for more. */
  readonly freed: () => void;
  /** Time between two notices to the server that a dispatch is in progress, milliseconds. */
  readonly workingMs: number;
}

/** Answers of a worker. */
export type Answer = TaskAck | TaskResult | SessionAnnounce;

/** A message about a task, and where its answer goes. */
interface Early {
  readonly message: Exclude<Incoming, Dispatched>;
  readonly reply: (answer: Answer) => void;
  readonly timer: NodeJS.Timeout;
}

/** Longest time that a delivery waits for room here before it goes back, for another worker of its pool, milliseconds. */
const WAIT_MS = 30_000;
const RETRY_MS = 2_000;
const MAX_RETRY_MS = 30_000;
/**
 * Time, in milliseconds, to hold an early message: a request may overtake the dispatch it is about, which comes over a stream.
 */
const EARLY_MS = 500;
/** Tasks whose end, or whose cancellation before their beginning, is remembered. */
const MAX_REMEMBERED = 10_000;

export class DispatchConsumer {
  readonly #options: ReceptionOptions;
  /** Deliveries that are not settled, by queue and {@link Delivery.id}. */
  readonly #open = new Map<string, Delivery>();
  readonly #waiting: { readonly delivery: Delivery; readonly since: number }[] = [];
  /** Tasks that are being decided on, and the work that waits behind each. */
  readonly #deciding = new Map<string, Promise<unknown>>();
  /** Tasks this process accepted: their attempt. The oldest are evicted. */
  readonly #accepted = new Map<string, number>();
  readonly #early = new Map<string, Early[]>();
  /** Cancelled before they arrived. */
  readonly #canceled = new Map<string, Early['message']>();
  readonly #timer: NodeJS.Timeout;
  /** Deliveries the worker has not decided on; it does not count them yet. */
  #undecided = 0;
  #stopped = false;

  constructor(options: ReceptionOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#keepAlive(), options.workingMs);
  }

  /** Number of further tasks that the worker can accept. */
  get room(): number {
    const { worker } = this.#options;
    if (this.#stopped || worker.draining) return 0;
    return Math.max(0, worker.maxConcurrent - worker.activeTasks - this.#undecided - this.#waiting.length);
  }

  /** Receives a delivered dispatch. Never throws. */
  receive(delivery: Delivery): void {
    if (this.#stopped) return delivery.nak();
    const open = this.#open.get(nameOf(delivery));
    if (open !== undefined) return open.adopt(delivery);
    this.#open.set(nameOf(delivery), delivery);
    if (this.room <= 0) {
      this.#waiting.push({ delivery, since: performance.now() });
    } else void this.#decide(delivery);
  }

  /** Uses new capacity: decides on waiting dispatches first. */
  next(): void {
    const { worker } = this.#options;
    while (this.#waiting.length > 0 && worker.activeTasks + this.#undecided < worker.maxConcurrent) {
      void this.#decide(this.#waiting.shift()!.delivery);
    }
  }

  /** Handles anything but a dispatch, in its turn. `reply` never throws. */
  handle(message: Early['message'], reply: (answer: Answer) => void): void {
    const taskId = (message as { readonly task_id?: string }).task_id;
    const known = taskId !== undefined && (this.#accepted.has(taskId) || this.#deciding.has(taskId));
    if (taskId === undefined || (known && !this.#early.has(taskId))) {
      void this.#inTurn(taskId, () => this.#handled(message, reply));
      return;
    }
    const early = this.#early.get(taskId) ?? [];
    const timer = setTimeout(() => {
      this.#early.set(taskId, this.#early.get(taskId)?.filter((one) => one.timer !== timer) ?? []);
      if (this.#early.get(taskId)?.length === 0) this.#early.delete(taskId);
      if (message.type === 'TASK_CANCEL') setNewest(this.#canceled, taskId, message, MAX_REMEMBERED);
      void this.#inTurn(taskId, () => this.#handled(message, reply));
    }, EARLY_MS);
    early.push({ message, reply, timer });
    this.#early.set(taskId, early);
  }

  /** Gives back dispatches that were not decided on. Decisions under way are completed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    for (const { delivery } of this.#waiting.splice(0)) this.#close(delivery, () => delivery.nak());
    for (const { timer } of [...this.#early.values()].flat()) clearTimeout(timer);
    this.#early.clear();
    await Promise.allSettled(this.#deciding.values());
  }

  async #handled(message: Early['message'], reply: (answer: Answer) => void): Promise<void> {
    const { worker, channel, link } = this.#options;
    try {
      if (message.type === 'ANNOUNCE_REQUEST') reply(await worker.announce(message.context_id));
      else {
        const answer = await worker.handle(message, channel);
        const causation_id = message.envelope?.message_id;
        if (answer !== undefined) {
          reply(causation_id === undefined ? answer : { ...answer, envelope: { ...answer.envelope, causation_id } });
        }
      }
    } catch (thrown) {
      const { code, message: error } = asError(thrown);
      link.log?.error('message could not be handled', { type: message.type, code, error });
    }
  }

  async #decide(delivery: Delivery): Promise<void> {
    this.#undecided++;
    let counted = true;
    const decided = (): void => {
      if (counted) this.#undecided--;
      counted = false;
    };
    try {
      const dispatch = await this.#read(delivery);
      if (dispatch === undefined) return;
      await this.#inTurn(dispatch.task_id, () => this.#receive(dispatch, delivery, decided));
    } catch (thrown) {
      const { code, message } = asError(thrown);
      this.#options.link.log?.warn('dispatch could not be accepted', { code, error: message, seq: delivery.seq });
      delivery.nak(backoffMs(delivery.deliveries - 1, { firstDelayMs: RETRY_MS, maxDelayMs: MAX_RETRY_MS }));
    } finally {
      decided();
      this.#open.delete(nameOf(delivery));
      this.#options.freed();
    }
  }

  /** Reads the dispatch in a delivery. One that cannot be read is answered and ended here. */
  async #read(delivery: Delivery): Promise<Dispatched | undefined> {
    const { worker, channel, link } = this.#options;
    let codes: readonly string[];
    let taskId: string | undefined;
    try {
      const decoded = decode(unpack(delivery.data));
      if (decoded.valid && decoded.message.type === 'TASK_DISPATCH') return decoded.message;
      const errors = decoded.valid ? [{ code: 'E_TYPE', path: '/type' }] : decoded.errors;
      codes = errors.map(({ code }) => code);
      taskId = decoded.valid ? undefined : decoded.taskId;
      const refusal = worker.refuse(taskId, errors);
      // The position in the stream distinguishes malformed dispatches of one task.
      if (refusal !== undefined) await channel.answer(refusal, delivery.seq);
    } catch (thrown) {
      const { code } = asError(thrown);
      if (code !== 'too_large' && code !== 'parse_error') throw thrown;
      codes = [code === 'too_large' ? 'E_LIMIT' : 'E_NOT_JSON'];
    }
    const agent = tokenOf(worker.agentId);
    const event = {
      agent_id: worker.agentId,
      subject: delivery.subject,
      stream_seq: delivery.seq,
      codes,
      task_id: taskId,
    };
    await link.publish(subjects.dead(agent), pack(event), `dead#${agent}#${delivery.id}`);
    delivery.end(`unreadable: ${codes.join(' ')}`);
    return undefined;
  }

  async #receive(dispatch: Dispatched, delivery: Delivery, decided: () => void): Promise<void> {
    const { worker, channel } = this.#options;
    const { task_id } = dispatch;
    const attempt = attemptOf(dispatch);
    const reception = await worker.receive(dispatch, channel);
    decided();
    switch (reception.kind) {
      case 'refused':
      case 'replay':
        await channel.answer(caused(reception.result, dispatch), attempt);
        setNewest(this.#accepted, task_id, attempt, MAX_REMEMBERED);
        delivery.ack();
        break;
      case 'busy':
        await this.#busy(dispatch, delivery, reception);
        break;
      case 'taken':
        // A redelivery, because its acknowledgement was lost. Before it runs it may still be abandoned.
        if (reception.state === 'running') delivery.ack();
        else delivery.nak(RETRY_MS);
        break;
      case 'accepted':
        await this.#start(dispatch, delivery, reception);
    }
    this.#flushEarly(task_id, reception.kind === 'accepted');
  }

  async #busy(
    dispatch: Dispatched,
    delivery: Delivery,
    { reason, retryAfterS }: Extract<DispatchOutcome, { kind: 'busy' }>,
  ): Promise<void> {
    const { task_id } = dispatch;
    // A redelivery of the same attempt, because its acknowledgement was lost: this worker has it already.
    if (reason === 'in_flight' && this.#accepted.get(task_id) === attemptOf(dispatch)) return delivery.ack();
    if (delivery.deliveries < MAX_DELIVER) return delivery.nak(retryAfterS * 1000);
    // One more delivery, and the server would count it as undeliverable.
    const code = reason === 'in_flight' ? 'in_flight' : 'busy';
    const running = reason === 'in_flight' ? 'an earlier attempt' : 'a turn of this context';
    await this.#refuse(dispatch, { code, retryable: true, retry_after_s: retryAfterS }, `${running} is running`);
    delivery.ack();
  }

  /** Answers that the attempt was not started. */
  async #refuse(dispatch: Dispatched, blocked: NonNullable<TaskResult['blocked']>, why: string): Promise<void> {
    const { task_id } = dispatch;
    const blocked_reason = `${blocked.code}: ${why}`;
    const refusal = resultMessage({ task_id, status: 'blocked', tokens_spent: 0, blocked_reason, blocked });
    await this.#options.channel.answer(caused(refusal, dispatch), attemptOf(dispatch));
  }

  async #start(
    dispatch: Dispatched,
    delivery: Delivery,
    accepted: Extract<DispatchOutcome, { kind: 'accepted' }>,
  ): Promise<void> {
    const { leases, channel, link } = this.#options;
    const { task_id, envelope } = dispatch;
    const attempt = attemptOf(dispatch);
    let lease: HeldLease | undefined;
    let claimed = false;
    try {
      const taken = await leases.acquire(task_id, attempt);
      if (taken.kind !== 'taken') {
        link.log?.info('task is accepted elsewhere', { task_id, attempt, by: taken.kind });
        await accepted.abandon();
        // The other worker may still fail before it starts the task, so the dispatch must stay on the queue.
        const undecided = taken.kind === 'held' && !(await leases.isClaimed(task_id, attempt));
        if (undecided && delivery.deliveries < MAX_DELIVER) delivery.nak(RETRY_MS * 5);
        else delivery.ack();
        return;
      }
      lease = taken.lease;
      // Sent before the claim: if this worker dies now, the orchestrator sees the lease expire.
      const back = { causation_id: envelope.message_id, attempt, sender: this.#options.worker.agentId };
      const held = { ttl_s: lease.ttlS, fence: lease.fence };
      channel.send(ack(task_id, { accepted: true, state: 'accepted', lease: held }, back));
      if (!(await leases.claim(task_id, attempt))) {
        link.log?.warn('attempt was started before; not started again', { task_id, attempt });
        await accepted.abandon();
        await lease.release();
        return delivery.ack();
      }
      claimed = true;
      // Not confirmed, it is redelivered, and the claim prevents a second start on any worker.
      if (!(await delivery.confirm())) link.log?.info('an acknowledgement was not confirmed', { task_id, attempt });
      if (!lease.fresh && !(await lease.renew())) {
        throw fail('timeout', 'its lease was lost before it started');
      }
    } catch (thrown) {
      // Nothing was started.
      await accepted.abandon();
      await lease?.release();
      // Where the claim is not known to be stored, it is redelivered, and only this process may start it then.
      if (!claimed) throw thrown;
      const { message } = asError(thrown);
      link.log?.warn('an attempt could not be started', { task_id, attempt, error: message });
      // The dispatch has left its queue, and the claim keeps all others from it: only an answer brings another attempt.
      return this.#refuse(dispatch, { code: 'busy', retryable: true }, message);
    }
    setNewest(this.#accepted, task_id, attempt, MAX_REMEMBERED);
    accepted.start(lease);
  }

  /** Handles messages that arrived before the dispatch they are about, behind it. */
  #flushEarly(taskId: string, started: boolean): void {
    const canceled = this.#canceled.get(taskId);
    this.#canceled.delete(taskId);
    const early = this.#early.get(taskId) ?? [];
    this.#early.delete(taskId);
    if (started && canceled !== undefined) {
      void this.#inTurn(taskId, () => this.#handled(canceled, (answer) => this.#options.channel.send(answer)));
    }
    for (const { message, reply, timer } of early) {
      clearTimeout(timer);
      void this.#inTurn(taskId, () => this.#handled(message, reply));
    }
  }

  /** Runs `work` behind other work on the same task; at once when none is under way. */
  #inTurn<T>(taskId: string | undefined, work: () => Promise<T>): Promise<T> {
    if (taskId === undefined) return work();
    const before = this.#deciding.get(taskId);
    const running = before === undefined ? work() : before.then(work, work);
    this.#deciding.set(taskId, running);
    const over = (): void => {
      if (this.#deciding.get(taskId) === running) this.#deciding.delete(taskId);
    };
    running.then(over, over);
    return running;
  }

  /** Notifies the server that deliveries are in progress, and returns those that have waited for capacity too long. */
  #keepAlive(): void {
    const now = performance.now();
    for (const delivery of this.#open.values()) delivery.working();
    while (this.#waiting[0] !== undefined && now - this.#waiting[0].since > WAIT_MS) {
      const { delivery } = this.#waiting.shift()!;
      this.#close(delivery, () => delivery.nak());
    }
    this.next();
  }

  #close(delivery: Delivery, settle: () => void): void {
    this.#open.delete(nameOf(delivery));
    settle();
  }
}

const nameOf = ({ subject, id }: Delivery): string => `${subject} ${id}`;

/** Dispatches without an envelope are the first. */
const attemptOf = ({ envelope }: Dispatched): number => envelope.attempt ?? 1;

/** Returns the result, as the answer to this dispatch. */
function caused(result: TaskResult, { envelope: { message_id } }: Dispatched): TaskResult {
  return message_id === undefined ? result : { ...result, envelope: { ...result.envelope, causation_id: message_id } };
}
