/**
 * Items that readers of events receive: every event with the payload its type has, and the gap that stands for lost ones.
 *
 * Types only.
 * @see docs/protocol/session-rpc.md#events
 */
import type { Gap } from '../connection/reconnect.ts';
import type {
  ServerEventPayloads,
  ServerEventType,
  SessionEvent,
  SessionEventPayloads,
  SessionEventType,
} from '../protocol/session-events.ts';

/** Members that the payload of every event of a session has. */
interface OfSession {
  readonly session_id: string;
  /** The turn it belongs to, where it belongs to one. */
  readonly turn_id?: string;
}

/**
 * An event, distinguished by its `type`. Servers that know more send other types too, which come through as they are: a
 * `switch` over the type needs a `default`.
 */
export type ControlEvent =
  | {
      [Type in SessionEventType]: SessionEvent<Type> & { readonly payload: SessionEventPayloads[Type] & OfSession };
    }[SessionEventType]
  | {
      [Type in ServerEventType]: SessionEvent<Type> & { readonly payload: ServerEventPayloads[Type] };
    }[ServerEventType];

/** Events that are lost: they were older than the events that the server still holds. */
export interface EventGap extends Gap {
  readonly type: 'gap';
}
