/**
 * The main entry point: everything most programs need. Parts for special needs have separate subpaths.
 */

import './base/node-version.ts';

export type { DialOptions } from './agent/addresses.ts';
export type { AgentOptions, GrantedCapability } from './agent/agent.ts';
export type { BackoffOptions } from './base/backoff.ts';
export type { Closable, LifetimeState } from './base/lifetime.ts';
export type { Log } from './base/log.ts';
export { createLog, type LogLevel, type LogOptions } from './base/log.ts';
export type { ToolDescription, ToolResult } from './capabilities/tools/messages.ts';
export { type ToolsPlugin, type ToolsPluginOptions, toolsPlugin } from './capabilities/tools/plugin.ts';
export { type JsonSchema, type Risk, result, type ToolDefinition, tool } from './capabilities/tools/tool.ts';
export type { CapabilityClients } from './capability.ts';
export type { ConfigTrust } from './config/config.ts';
export type { FleetSettings } from './config/fleet.schema.ts';
export type { FleetConfig, WorkerConfig } from './config/fleet-config.ts';
export type { WorkerSettings } from './config/worker.schema.ts';
export type { Agent, AskingOptions, ConnectOptions, InProcessHost, KnownCapability } from './connect.ts';
export { connect } from './connect.ts';
export type { Call, CallEvent, CallOptions } from './connection/call.ts';
export type { ConnectionLimits } from './connection/connection.ts';
export type { RequestLimits } from './connection/incoming-requests.ts';
export type { ConnectionState, Gap, ReconnectSettings, StateChange } from './connection/reconnect.ts';
export type { SlowReaderLimits } from './connection/slow-consumer.ts';
export type { Token, TokenSource } from './connection/token.ts';
export type { CallContext, EventKind, NestedCallOptions, Principal, SessionView, ToolRules } from './host/context.ts';
export type { AuditSink, HostSession, SnapshotStore } from './host/host.ts';
export { createHost, type Host, type HostHealth, type HostOptions } from './host/host.ts';
export type { HostLimits } from './host/host-limits.ts';
export type { FactsFor } from './host/plugin.ts';
export { definePlugin, type Handler, handle, type Plugin, type PluginContext } from './host/plugin.ts';
export type {
  PluginStore,
  Rows,
  SessionStores,
  Store,
  StorePage,
  StoreScope,
  StoreSession,
  StoreUse,
} from './host/store/store.ts';
export type { Journal, JournalEntry } from './journal/journal.ts';
export { memoryJournal } from './journal/memory.ts';
export { type ListenOptions, listen } from './listen.ts';
export { A2E_VERSION, type CapabilityName } from './protocol/a2e.ts';
export type { Body, Envelope, MethodSchemas } from './protocol/method.ts';
export { type Method, method } from './protocol/method.ts';
export { type ServeOptions, serve } from './serve.ts';
export type { Server, ServerOptions } from './server/serve.ts';
export type { AskOptions, FleetGrants, Grants, Reach, SessionGrants } from './session/principal.ts';
export type { TrafficLimits } from './session/traffic-shares.ts';
export type { Listener } from './transport/link.ts';
export type { Check, Issue } from './wire/check.ts';
export { type ErrorName, errorTable, fail, HandfastError } from './wire/errors.ts';
export type { WireOf } from './wire/schema.ts';
