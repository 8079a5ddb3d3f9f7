/** `handfast/agent`: for programs that only call hosts. Loads no host, no journal and no transport that is not used. */

import './base/node-version.ts';

export type { AgentOptions, GrantedCapability } from './agent/agent.ts';
export { AgentSession } from './agent/agent.ts';
export type { ToolCallOptions, ToolFilterOptions, ToolsAgent, ToolsClient } from './capabilities/tools/client.ts';
export type { ToolDescription, ToolParameter, ToolResult } from './capabilities/tools/messages.ts';
export type { CapabilityClients } from './capability.ts';
export {
  type Agent,
  type AskingOptions,
  type ConnectOptions,
  connect,
  type InProcessHost,
  type KnownCapability,
} from './connect.ts';
export type { Call, CallEvent, CallOptions, MethodCaller } from './connection/call.ts';
export type { ConnectionState, Gap, ReconnectSettings, StateChange } from './connection/reconnect.ts';
export { A2E_VERSION, type CapabilityName } from './protocol/a2e.ts';
export { type Method, method } from './protocol/method.ts';
export type { Message } from './wire/codec.ts';
