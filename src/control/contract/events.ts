/**
 * Events inside the server: made and serialised once by the emitter, journaled, and passed to every
 * connection that wants them.
 */
import type { ServerEventPayloads, SessionEvent } from '../../protocol/session-events.ts';

/** One event. */
export interface PublishedEvent {
  /** The session, or `''` for an event of the server. */
  readonly session: string;
  /** Name of the principal whose session, or whose sign-in, it is; `''` for events that every client may see. */
  readonly owner: string;
  readonly type: string;
  readonly seq: number;
  /** The whole notification as JSON text, without a newline: the form that text links send. */
  readonly line: string;
  /** `params` of the notification: the form that in-memory links send. */
  readonly params: SessionEvent;
}

/** Events of a session (or `''`: of the server) that are stored. */
export interface EventPage {
  readonly events: readonly PublishedEvent[];
  /** Set when events between the requested number and the first returned one were evicted. Inclusive. */
  readonly gap?: { readonly from_seq: number; readonly to_seq: number };
  /** Newest sequence number. */
  readonly last: number;
}

/** The source of events for connections. */
export interface EventSource {
  /**
   * Calls `listener` with every event, in order, synchronously, once it is on disk (stream chunks need not be). `wantsDebug` is
   * asked before debug steps are made: without a listener that wants them none are made. Returns the function that removes the
   * listener.
   */
  listen(listener: (event: PublishedEvent) => void, wantsDebug?: () => boolean): () => void;
  /** Returns stored events with `seq > after`, oldest first, at most `limit`. Fails with `session_not_found`. */
  read(session: string, after: number, limit: number): Promise<EventPage>;
  /** Returns the newest sequence number that clients may know; 0 = none yet. Fails with `session_not_found`. */
  lastSeq(session: string): number;
  /**
   * Resolves when every change so far of a session (absent: of all) is on disk, or could not be stored; undefined where
   * nothing is waited for. Never rejects.
   */
  settled(session?: string): Promise<unknown> | undefined;
  /** Returns name of the principal a session belongs to; undefined = no such session. Loads nothing. */
  ownerOf(session: string): string | undefined;
}

/** Emits events of the server. */
export interface ServerEvents {
  /**
   * `owner`: name of the principal that the event is about; administrators and that principal see it. Default: every principal
   * sees it.
   */
  emit<Type extends keyof ServerEventPayloads>(type: Type, payload: ServerEventPayloads[Type], owner?: string): void;
}
