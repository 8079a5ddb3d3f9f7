/** The front door: everything most programs need. Parts for special needs have subpaths of their own. */

export type { AgentOptions, GrantedCapability } from './agent/agent.ts';
export type { Log } from './base/log.ts';
export { createLog, type LogLevel, type LogOptions } from './base/log.ts';
export type { ToolDescription, ToolResult } from './capabilities/tools/messages.ts';
export { type ToolsPluginOptions, toolsPlugin } from './capabilities/tools/plugin.ts';
export { type JsonSchema, type Risk, result, type ToolDefinition, tool } from './capabilities/tools/tool.ts';
export type { CapabilityClients } from './capability.ts';
export type { Agent, ConnectOptions, InProcessHost, KnownCapability } from './connect.ts';
export { connect } from './connect.ts';
export type { Call, CallEvent, CallOptions } from './connection/call.ts';
export type { ConnectionState, Gap, ReconnectSettings, StateChange } from './connection/reconnect.ts';
export type { CallContext, EventKind, Principal, SessionView, ToolRules } from './host/context.ts';
export { createHost, type Host, type HostHealth, type HostOptions } from './host/host.ts';
export type { HostLimits } from './host/host-limits.ts';
export { definePlugin, type Handler, handle, type Plugin, type PluginContext } from './host/plugin.ts';
export type { Journal, JournalEntry } from './journal/journal.ts';
export { memoryJournal } from './journal/memory.ts';
export { type ListenOptions, listen } from './listen.ts';
export { A2E_VERSION, type CapabilityName } from './protocol/a2e.ts';
export { type Method, method } from './protocol/method.ts';
export { type ServeOptions, serve } from './serve.ts';
export type { Server } from './server/serve.ts';
export type { Listener } from './transport/link.ts';
export { type ErrorName, errorTable, fail, HandfastError } from './wire/errors.ts';
