/**
 * `handfast/control` in a page: drives sessions over WebSocket. What it loads needs nothing of Node, which
 * `test/package.test.ts` and `test/browser/` hold it to.
 */

export type { ConnectionState, Gap, ReconnectSettings, StateChange } from './connection/reconnect.ts';
export type { Token, TokenSource } from './connection/token.ts';
export { connect } from './control-client/connect-browser.ts';
export { ControlClient, type ControlOptions, type CreateOptions } from './control-client/control.ts';
export type { ControlEvent, EventGap } from './control-client/control-event.ts';
export type { EventReader } from './control-client/event-reader.ts';
export type { ReadOptions } from './control-client/feed.ts';
export type { CallOptions } from './control-client/server-connection.ts';
export { ControlSession, type PromptOptions, type Rpc } from './control-client/session.ts';
export { TurnHandle, type TurnResult } from './control-client/turn.ts';
export type { Member, Members, Note } from './protocol/member.ts';
export type { MethodOf, ParamsOf, ResultOf, RpcMethod } from './protocol/rpc-reader.ts';
export type { SessionEvent, SessionEventPayloads, SessionEventType } from './protocol/session-events.ts';
export {
  type HandshakeResult,
  SESSION_RPC_VERSION,
  type SteerResult,
  sessionRpcMethods,
} from './protocol/session-rpc.ts';
export type * from './protocol/session-types.ts';
export { STOP_REASONS } from './protocol/session-words.ts';
export { type ErrorName, HandfastError } from './wire/errors.ts';
export type { Wire } from './wire/schema.ts';
