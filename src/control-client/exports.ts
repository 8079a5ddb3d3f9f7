/**
 * The part of `handfast/control` that is equal in every runtime: the client, its sessions, events and types. The entry points
 * for Node and for pages differ in how they connect; nothing here may need Node.
 */

export type { ConnectionState, Gap, ReconnectSettings, StateChange } from '../connection/reconnect.ts';
export type { Token, TokenSource } from '../connection/token.ts';
export type { Member, Members, Note } from '../protocol/member.ts';
export type { MethodOf, ParamsOf, ResultOf, RpcMethod } from '../protocol/rpc-reader.ts';
export type { SessionEvent, SessionEventPayloads, SessionEventType } from '../protocol/session-events.ts';
export {
  type HandshakeResult,
  SESSION_RPC_VERSION,
  type SteerResult,
  sessionRpcMethods,
} from '../protocol/session-rpc.ts';
export type * from '../protocol/session-types.ts';
export { STOP_REASONS } from '../protocol/session-words.ts';
export { type ErrorName, HandfastError } from '../wire/errors.ts';
export type { Wire } from '../wire/schema.ts';
export { ControlClient, type ControlOptions, type CreateOptions } from './control.ts';
export type { ControlEvent, EventGap } from './control-event.ts';
export type { EventReader } from './event-reader.ts';
export type { ReadOptions } from './feed.ts';
export type { CallOptions } from './server-connection.ts';
export { ControlSession, type PromptOptions, type Rpc } from './session.ts';
export { TurnHandle, type TurnResult } from './turn.ts';
