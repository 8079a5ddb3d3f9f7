/**
 * A worker at the other end of a stream link, as the orchestrator sees it: its messages go to the orchestrator, dispatches
 * wait for its word, results that are kept are confirmed, and silence is noticed.
 *
 * Made by `stream-bus.ts` for a link whose announce was accepted.
 * @see docs/protocol/fleet.md#stream-links
 */
import type { Log } from '../../../base/log.ts';
import type { Feature, FleetMessage, TaskAck, TaskDispatch } from '../../../protocol/fleet.ts';
import type { CloseInfo, Link, LinkReceiver, Malformed, Message } from '../../../transport/link.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import type { Announced, Decoded, Incoming, Reported } from '../../messages/decoded.ts';
import { fleetMessage } from '../../messages/encode.ts';
import { forwardToOrchestrator } from '../forward.ts';
import type { FleetPeer, PeerEvents } from '../peer.ts';
import { ack } from '../worker-messages.ts';
import { GuardedSender } from './guarded-sender.ts';
import { bye, codeOf, readMessage } from './messages.ts';

/** Results that are being kept at once; past it the worker is not read from, and feels it. */
const MAX_KEEPING = 256;

/** What a peer needs of its bus. */
export interface PeerOwner {
  readonly name: string;
  readonly incarnation: string;
  readonly events: PeerEvents;
  readonly log: Log;
  /** How long a worker may take to say what it makes of a dispatch, milliseconds. */
  readonly ackTimeoutMs: number;
  readonly newId: () => string;
  /** The peer has gone, for the first and only time. */
  gone(peer: StreamPeer, reason: string, asleep: boolean): void;
}

/** A dispatch that the worker has not said anything about yet. */
interface Asked {
  readonly taskId: string;
  readonly messageId: string;
  readonly settle: (failure?: HandfastError) => void;
}

export class StreamPeer implements FleetPeer, LinkReceiver {
  readonly peerId: string;
  readonly binding = 'stream';
  readonly address: string;
  readonly structured = true;
  readonly durable = false;
  readonly incarnation: string | null;
  readonly link: Link;
  readonly #owner: PeerOwner;
  readonly #out: GuardedSender;
  readonly #asked = new Set<Asked>();
  readonly #onClosed: ((cause: CloseInfo) => void) | undefined;
  #features: ReadonlySet<Feature>;
  #beats = 0;
  #unreadable = 0;
  /** Results and other messages the orchestrator has not kept yet. */
  #keeping = 0;
  #held = false;
  #over = false;

  constructor(
    owner: PeerOwner,
    link: Link,
    facts: { readonly peerId: string; readonly announced: Announced; readonly onClosed?: (cause: CloseInfo) => void },
  ) {
    this.#owner = owner;
    this.link = link;
    this.peerId = facts.peerId;
    this.incarnation = facts.announced.incarnation;
    this.address = link.peer;
    this.#features = new Set(facts.announced.features);
    this.#onClosed = facts.onClosed;
    this.#out = new GuardedSender(link);
  }

  get features(): ReadonlySet<Feature> {
    return this.#features;
  }

  get reachable(): boolean {
    return !this.#over;
  }

  /** Takes the link over. */
  attach(link: Link): void {
    link.open(this);
  }

  // To the worker.

  async send(message: FleetMessage, how: { readonly signal?: AbortSignal } = {}): Promise<void> {
    if (this.#over) throw fail('unreachable', `${this.peerId} is not connected`, { peer: this.peerId });
    how.signal?.throwIfAborted();
    if (message.type === 'TASK_DISPATCH' && this.#features.has('ack')) return this.#ask(message, how.signal);
    this.#out.put(message);
  }

  /** Sends a dispatch and waits until the worker has said whether it takes it. */
  #ask(dispatch: TaskDispatch, signal: AbortSignal | undefined): Promise<void> {
    const messageId = dispatch.envelope?.message_id ?? this.#owner.newId();
    const { task_id: taskId } = dispatch.task;
    return new Promise((resolve, reject) => {
      const settle = (failure?: HandfastError): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        this.#asked.delete(asked);
        if (failure === undefined) resolve();
        else reject(failure);
      };
      const abort = (): void => settle(asError(signal?.reason, 'cancelled'));
      const asked: Asked = { taskId, messageId, settle };
      const timer = setTimeout(
        () => settle(fail('timeout', `${this.peerId} did not say whether it takes the task`, { task_id: taskId })),
        this.#owner.ackTimeoutMs,
      );
      signal?.addEventListener('abort', abort, { once: true });
      this.#asked.add(asked);
      try {
        this.#out.put({ ...dispatch, envelope: { ...dispatch.envelope, message_id: messageId } });
      } catch (thrown) {
        settle(asError(thrown));
      }
    });
  }

  /** True when it promised heartbeats: only then is its silence a loss. */
  get beats(): boolean {
    return this.#features.has('heartbeat');
  }

  /** Once a heartbeat: shows that this side is alive. */
  beat(): void {
    const { name, incarnation } = this.#owner;
    if (!this.#features.has('heartbeat')) return;
    this.#say(fleetMessage('SESSION_HEARTBEAT', { agent_id: name, incarnation, seq: ++this.#beats, active_tasks: 0 }));
  }

  /** Ends the session with a word: this side stops, or another link of the same worker takes its place. */
  async dismiss(reason: string): Promise<void> {
    if (this.#features.has('heartbeat')) this.#say(bye(this.#owner.name, reason, this.#owner.incarnation));
    this.#gone(reason, false);
    await this.link.close(reason);
  }

  /** Says something nobody waits for. */
  #say(message: FleetMessage): void {
    try {
      this.#out.put(message);
    } catch {
      // It does not read; the watch over slow readers ends it.
    }
  }

  // From the worker.

  message(raw: string | Message): void {
    if (this.#over) return;
    const decoded = readMessage(raw);
    if (decoded.valid) this.#take(decoded.message);
    else this.#refuse(decoded);
  }

  malformed(problem: Malformed): void {
    if (this.#over) return;
    this.#odd([codeOf(problem)], null);
  }

  ended(): void {
    // What it sent last has been handed over already; a worker that reads on without a word of its own is of no use.
    void this.link.close('the worker ended the link');
  }

  closed(cause: CloseInfo): void {
    this.#gone(cause.reason, false);
    this.#onClosed?.(cause);
  }

  #take(message: Incoming): void {
    switch (message.type) {
      case 'SESSION_ANNOUNCE':
        this.#features = new Set(message.features);
        return this.#keep(withoutToken(message));
      case 'TASK_RESULT':
        this.#answered(message);
        return this.#keepResult(message);
      case 'TASK_ACK':
        return this.#acknowledged(message);
      case 'TASK_PROGRESS':
      case 'TASK_QUESTION':
      case 'SESSION_HEARTBEAT':
        return this.#keep(message);
      case 'SESSION_BYE':
        this.#gone(message.reason, true);
        void this.link.close('the worker said goodbye');
        return;
      default:
        // Nothing a worker says to an orchestrator.
        this.#odd(['E_TYPE'], message.type);
    }
  }

  #acknowledged(message: TaskAck): void {
    const asked = this.#find(message.task_id, message.envelope?.causation_id);
    if (asked !== undefined && !message.accepted && (message.state === 'busy' || message.state === 'running')) {
      const { retry_after_s = 30, state } = message;
      const reason = state === 'running' ? 'in_flight' : 'context';
      const detail = { reason, retry_after_ms: retry_after_s * 1000 };
      return asked.settle(fail('over_capacity', `${this.peerId} is busy`, detail));
    }
    // The orchestrator hears it before whoever waits for the dispatch goes on.
    this.#keep(message);
    asked?.settle();
  }

  #answered({ task_id: taskId, status, envelope }: Reported): void {
    const { causation_id: causationId } = envelope;
    // A result that names no cause may be of an earlier attempt. Only a refusal of what could not be read cannot name it.
    if (causationId !== undefined || status === 'blocked') this.#find(taskId, causationId)?.settle();
  }

  /** The dispatch an answer is about; the oldest of its task when the answer does not name it. */
  #find(taskId: string, causationId: string | undefined): Asked | undefined {
    for (const asked of this.#asked) {
      if (causationId === undefined ? asked.taskId === taskId : asked.messageId === causationId) return asked;
    }
    return undefined;
  }

  /** Confirms a result when it is kept; says so too when it is not, so that it comes again soon. */
  #keepResult(result: Reported): void {
    const { task_id, envelope } = result;
    this.#keep(result, (kept) => {
      if (this.#over || !this.#features.has('ack')) return;
      const { message_id: causation_id, attempt } = envelope;
      const what = kept ? ({ accepted: true, state: 'finished' } as const) : { accepted: false, retry_after_s: 1 };
      this.#say(ack(task_id, what, { causation_id, attempt }));
    });
  }

  /** Hands a message on, and does not read faster than the orchestrator keeps. */
  #keep(message: Incoming, done: (kept: boolean) => void = () => {}): void {
    if (++this.#keeping > MAX_KEEPING && !this.#held) this.#hold(true);
    forwardToOrchestrator(this.#owner.events, this, message).then(
      () => {
        this.#kept();
        done(true);
      },
      (thrown: unknown) => {
        const { code, message: error } = asError(thrown);
        const { peerId: peer } = this;
        this.#owner.log.warn('a message of a worker was not kept', { peer, type: message.type, code, error });
        this.#kept();
        done(false);
      },
    );
  }

  #kept(): void {
    if (--this.#keeping <= MAX_KEEPING / 2 && this.#held) this.#hold(false);
  }

  #hold(held: boolean): void {
    this.#held = held;
    this.link.pause(held);
  }

  #refuse(decoded: Extract<Decoded, { valid: false }>): void {
    this.#odd(
      decoded.errors.map(({ code }) => code),
      decoded.type,
    );
  }

  /** Counts what is no message; the connection goes on. Written down for the 1st, 2nd, 4th, 8th … time only. */
  #odd(codes: readonly string[], type: string | null): void {
    const count = ++this.#unreadable;
    if ((count & (count - 1)) === 0) {
      this.#owner.log.warn('a worker sent what is no message', { peer: this.peerId, type, codes, count });
    }
    this.#owner.events.unreadable(this, codes);
  }

  #gone(reason: string, asleep: boolean): void {
    if (this.#over) return;
    this.#over = true;
    this.#out.stop();
    for (const asked of [...this.#asked]) {
      asked.settle(fail('connection_lost', `the link to ${this.peerId} ended: ${reason}`, { task_id: asked.taskId }));
    }
    this.#owner.gone(this, reason, asleep);
  }
}

/** An announce without the secret it may have brought. */
export function withoutToken(announced: Announced): Announced {
  if (announced.envelope.token === undefined) return announced;
  const { token: _secret, ...envelope } = announced.envelope;
  return { ...announced, envelope };
}
