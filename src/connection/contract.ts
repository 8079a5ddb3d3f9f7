/**
 * The interface between a connection and its owner: limits, the meaning of its messages, and the place where entries
 * are journaled.
 *
 * Owners are `session/session.ts`, `agent/agent.ts`, `control/rpc/` and `fleet/bus/stream/`.
 */
import type { CloseInfo } from '../transport/link.ts';
import type { Address, Encoded, Incoming } from '../wire/codec.ts';
import type { HandfastError } from '../wire/errors.ts';
import type { RequestLimits } from './incoming-requests.ts';
import type { Route, RunningRequest } from './running-request.ts';
import type { SlowReaderLimits } from './slow-consumer.ts';

export interface ConnectionLimits extends RequestLimits, SlowReaderLimits {
  /** Nesting of a message at most. */
  readonly maxDepth: number;
  /** Values of a message at most: elements, objects, arrays, names and values of members. Default 65,536. */
  readonly maxValues?: number | undefined;
  /** Longest message sent, in bytes on the wire; a longer reply becomes the error `too_large`. */
  readonly maxMessageBytes: number;
  /**
   * Unsent bytes past which requests are refused, and characters of notices, queued above `sendBufferBytes`, past which the
   * link is dropped. Default: requests are not refused, and eight times `sendBufferBytes` for notices.
   */
  readonly maxSendBufferBytes?: number;
  /** Bound on notices whose handling is under way; past it the link is not read from. Default: no bound. */
  readonly inboxLimit?: number;
}

/** The owner of a connection, which decides the meaning of its messages. */
export interface ConnectionOwner {
  /** Returns the handler of a request, an error to reply with, `ignore` for no reply, or undefined for an unknown type. */
  route(incoming: Incoming): Route | HandfastError | 'ignore' | undefined;
  /** True for a type of reply that a peer sends as a request: one implementation of A2E does for one message. Absent: none. */
  asRequest?(incoming: Incoming): boolean;
  /** Makes the running request, for owners that extend it. */
  request?(incoming: Incoming, route: Route): RunningRequest;
  /** A message that belongs to no request. A promise counts against `inboxLimit`. Absent: it is dropped and counted. */
  notice?(incoming: Incoming): Promise<unknown> | undefined;
  /** The peer's error about something that was no request, or about the session. Absent: it is dropped and counted. */
  refused?(error: HandfastError): void;
  /**
   * Handles input that was no message. `raw` is undefined when the link had refused it before it was text; `to` has the
   * id that was read from it.
   */
  malformed(error: HandfastError, raw: string | undefined, to?: Address): void;
  /** Turns an error that a handler threw into the error that its caller gets. */
  failed(request: RunningRequest, thrown: unknown): HandfastError;
  /** A reply that cannot be written, as the error its caller gets. Absent: `runtime_error`. */
  unwritable?(request: RunningRequest, thrown: unknown): HandfastError;
  /** A request has its reply. `size` = characters of the reply, 0 by reference. */
  replied?(request: RunningRequest, error: HandfastError | undefined, size: number): void;
  /** A handler was abandoned and still runs (`+1`), or an abandoned one has settled. */
  abandoned?(change: 1 | -1): void;
  /** Called when the peer sends nothing more but still reads. */
  ended(): void;
  /** Called when the link is lost. */
  linkLost(cause: CloseInfo): void;
}

/** Journals the messages of a connection; see `session/session.ts`. */
export interface Recorder {
  /**
   * @param request the id of the request the entry belongs to; `''` = none
   * @param isReply true for the reply to a request: it is sent once the promise is settled, if there is one
   */
  record(cursor: number, kind: EntryKind, request: string, body: Encoded, isReply?: boolean): Promise<void> | undefined;
  /** Returns the reason why no request may run now: its reply could not be stored. Absent: never. */
  refuses?(): HandfastError | undefined;
}

/** The kinds of entries of a journal. This side sent all except `request`. */
export type EntryKind = 'request' | 'event' | 'reply' | 'error' | 'call' | 'notice';
