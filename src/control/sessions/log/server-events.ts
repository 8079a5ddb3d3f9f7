/**
 * Events of the server rather than of one session, in a separate journal stream. Settings, logins and sessions emit them; they
 * are replayed like events of a session. Events that a crash loses are a gap.
 */
import type { Journal } from '../../../journal/journal.ts';
import type { ServerEventPayloads } from '../../../protocol/session-events.ts';
import type { ServerEvents } from '../../contract/events.ts';
import type { EventHub } from './event-hub.ts';
import { payloadOf, publishedEvent } from './published.ts';

/** Journal stream of the server. Cursors are sequence numbers. */
export const SERVER_STREAM = 'server';

export interface ServerEventDeps {
  readonly journal: Journal;
  readonly hub: EventHub;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export class ServerEventLog implements ServerEvents {
  readonly #parts: ServerEventDeps;
  #seq: number;

  private constructor(parts: ServerEventDeps, seq: number) {
    this.#parts = parts;
    this.#seq = seq;
  }

  /** Continues after the last entry of the journal. Rejects as the journal does. */
  static async open(parts: ServerEventDeps): Promise<ServerEventLog> {
    const { last } = await parts.journal.read(SERVER_STREAM, 0, 1);
    return new ServerEventLog(parts, last);
  }

  /** Sequence number of the newest event; 0 = none. */
  get seq(): number {
    return this.#seq;
  }

  emit<Type extends keyof ServerEventPayloads>(type: Type, payload: ServerEventPayloads[Type], owner = ''): void {
    const { journal, hub, now } = this.#parts;
    const ts = now();
    this.#seq += 1;
    const event = publishedEvent({
      session: '',
      owner,
      type,
      seq: this.#seq,
      timestamp: new Date(ts).toISOString(),
      payload: payloadOf({}, payload as never),
    });
    // Server events belong to no request: its column holds the owner of the event.
    const entry = { cursor: this.#seq, ts, kind: type, request: owner, body: event.line };
    // Only a closed journal refuses: then no client is left to replay it to.
    journal.append(SERVER_STREAM, [entry], 'volatile')?.catch(() => {});
    hub.publish(event);
  }
}
