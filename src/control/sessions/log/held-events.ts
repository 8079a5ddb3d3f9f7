/**
 * The events of one session on their way to its listeners. An event leaves when it is stored, and in the order of the
 * sequence numbers: one that promises nothing (a stream chunk, a label) leaves at once, unless an earlier event still waits.
 *
 * When the session cannot be stored, its events are dropped: followers see a gap. Only ends of turns leave unstored, as
 * failures, because their callers wait for them.
 *
 * @see docs/decisions/0054-told-when-stored.md
 */
import type { HandfastError } from '../../../wire/errors.ts';
import type { PublishedEvent } from '../../contract/events.ts';
import type { EventHub } from './event-hub.ts';
import { publishedEvent } from './published.ts';

interface Held {
  readonly event: PublishedEvent;
  readonly isEarly: boolean;
}

export class HeldEvents {
  readonly #hub: EventHub;
  #held: Held[] = [];
  /** Events up to this number are stored. */
  #storedTo = 0;
  #lastSeq: number;
  #failure: HandfastError | undefined;

  /** `lastSeq`: the number of the newest event of earlier processes. */
  constructor(hub: EventHub, lastSeq: number) {
    this.#hub = hub;
    this.#lastSeq = lastSeq;
  }

  /** Number of the newest event that has left. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Notes that numbers up to `seq` are in use. */
  startAfter(seq: number): void {
    this.#lastSeq = Math.max(this.#lastSeq, seq);
  }

  /** `isEarly`: it leaves as soon as the earlier ones have left. */
  add(event: PublishedEvent, isEarly: boolean): void {
    if (this.#failure !== undefined) return this.#drop(event, this.#failure);
    if (this.#held.length === 0 && (isEarly || event.seq <= this.#storedTo)) return this.#publish(event);
    this.#held.push({ event, isEarly });
  }

  /** Notes that events up to `seq` are stored. */
  stored(seq: number): void {
    this.#storedTo = Math.max(this.#storedTo, seq);
    const held = this.#held;
    let left = 0;
    for (; left < held.length; left += 1) {
      const { event, isEarly } = held[left] as Held;
      if (!isEarly && event.seq > this.#storedTo) break;
    }
    if (left === 0) return;
    this.#held = held.slice(left);
    for (const { event } of held.slice(0, left)) this.#publish(event);
  }

  /** Notes that the session could not be stored: until {@link retry} no event is held. */
  fail(failure: HandfastError): void {
    this.#failure = failure;
    const held = this.#held;
    this.#held = [];
    for (const { event } of held) this.#drop(event, failure);
  }

  /** Notes that storing is tried again. */
  retry(): void {
    this.#failure = undefined;
  }

  #drop(event: PublishedEvent, failure: HandfastError): void {
    const { type } = event;
    if (type === 'session.completed') this.#publish(failed(event, failure));
    else if (type === 'session.error' || type === 'session.interrupted') this.#publish(event);
    else this.#lastSeq = event.seq;
  }

  #publish(event: PublishedEvent): void {
    this.#lastSeq = event.seq;
    this.#hub.publish(event);
  }
}

/** Returns the end of a turn that completed and could not be stored, under the number of the end. */
function failed({ session, owner, seq, params }: PublishedEvent, { code, message }: HandfastError): PublishedEvent {
  const { session_id, turn_id, usage, duration_ms } = params.payload;
  return publishedEvent({
    session,
    owner,
    type: 'session.error',
    seq,
    timestamp: params.timestamp,
    payload: {
      session_id,
      turn_id,
      message: `the turn ended, and its end could not be stored: ${message}`,
      kind: code,
      retryable: false,
      stop_reason: 'error',
      usage,
      duration_ms,
    },
  });
}
