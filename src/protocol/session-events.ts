/**
 * The events of session RPC: their types and payloads, from their schemas in `session-events.schema.ts`.
 *
 * On the wire an event is `{"jsonrpc":"2.0","method":"event","params":{type, timestamp, payload, seq}}`; `seq` is an
 * addition: strictly growing per session (events of a session) or per server (all others), never reused.
 * @see docs/protocol/session-rpc.md#events
 */
import type { TSchema, Wire } from '../wire/schema.ts';
import type * as schemas from './session-events.schema.ts';

type Payloads<Events extends Readonly<Record<string, TSchema>>> = {
  readonly [Type in keyof Events]: Wire<Events[Type]>;
};

/** Members that every terminal event of a turn adds to the payload of 1.0.0. Each turn id gets exactly one terminal event. */
export type TurnEnd = Wire<typeof schemas.TurnEnd>;

/** Payloads of the events of a session by type. `session_id` and `turn_id` are added by the code that emits them. */
export type SessionEventPayloads = Payloads<
  typeof schemas.documented & typeof schemas.undocumented & typeof schemas.additional
>;

/** Events of the server rather than of one session. */
export type ServerEventPayloads = Payloads<typeof schemas.server>;

/** Events about the events of one connection: additions that only subscribers get. `session_id` null = the server's. */
export type ConnectionEventPayloads = Payloads<typeof schemas.connection>;

export type SessionEventType = keyof SessionEventPayloads;
export type ServerEventType = keyof ServerEventPayloads;

/** An event as a client reads it: `params` of the notification. */
export interface SessionEvent<Type extends string = string> {
  readonly type: Type;
  /** ISO 8601. */
  readonly timestamp: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly seq: number;
}
