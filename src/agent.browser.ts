/**
 * `handfast` and `handfast/agent` in a page: connects to hosts over WebSocket. The modules it loads need nothing of
 * Node; `test/package.test.ts` and `test/browser/` check this.
 */

export type { AgentOptions, GrantedCapability } from './agent/agent.ts';
export { AgentSession } from './agent/agent.ts';
export type { ToolCallOptions, ToolFilterOptions, ToolsAgent, ToolsClient } from './capabilities/tools/client.ts';
export type { ToolDescription, ToolParameter, ToolResult } from './capabilities/tools/messages.ts';
export type { CapabilityClients } from './capability.ts';
export { connect } from './connect.browser.ts';
export type { Agent, AskingOptions, KnownCapability } from './connect-by.ts';
export type { Call, CallEvent, CallOptions, MethodCaller } from './connection/call.ts';
export type { ConnectionState, Gap, ReconnectSettings, StateChange } from './connection/reconnect.ts';
export { A2E_VERSION, type CapabilityName } from './protocol/a2e.ts';
export { type Method, method } from './protocol/method.ts';
export type { Message } from './wire/codec.ts';
export { type ErrorName, HandfastError } from './wire/errors.ts';
