/** `handfast/host`: for programs that are a host: plugins, configuration, principals, log and audit. */

import './base/node-version.ts';

export type { JsonSchema } from './base/json-schema.ts';
export type { Log } from './base/log.ts';
export { createLog, type LogLevel, type LogOptions, silentLog } from './base/log.ts';
export type {
  FetchedTasks,
  RunningSubagent,
  SubagentBackend,
  SubagentFacts,
  SubagentHost,
  SubagentProgress,
  SubagentResult,
  SubagentSpending,
  SubagentTaskContext,
} from './capabilities/multi_agent/backend.ts';
export type { SubagentContext, SubagentFunction } from './capabilities/multi_agent/functions.ts';
export type { SubagentMessage, SubagentWork } from './capabilities/multi_agent/multi_agent.schema.ts';
export {
  type MultiAgentPluginOptions,
  multiAgentPlugin,
  type SubagentKindOptions,
} from './capabilities/multi_agent/plugin.ts';
export type { Delegable } from './capabilities/multi_agent/rights.ts';
export type { ConfigDeps, ConfigTrust } from './config/config.ts';
export {
  type CapabilityGrants,
  type ConfigProblem,
  type ConfigSections,
  configSchema,
  type HostConfig,
  loadConfig,
  type PluginConfig,
  type SettingSchema,
} from './config/config.ts';
export type { HandfastSettings } from './config/handfast.schema.ts';
export type { Settings } from './config/setting.ts';
export type { TextFormatName } from './config/text-formats.ts';
export type { AuditHealth, AuditRecord } from './host/audit/audit.ts';
export { type Audit, type AuditOptions, openAudit } from './host/audit/audit.ts';
export type { ChainHead } from './host/audit/chain.ts';
export type { AuditChainReport } from './host/audit/verify.ts';
export {
  type AuditBreak,
  type AuditBreakReason,
  type AuditReport,
  verifyAudit,
} from './host/audit/verify.ts';
export type { CallContext, EventKind, Principal, SessionView, ToolRules } from './host/context.ts';
export {
  createHost,
  type Host,
  type HostHealth,
  type HostOptions,
} from './host/host.ts';
export { defaultHostLimits, type HostLimits } from './host/host-limits.ts';
export { definePlugin, type Handler, handle, type Plugin, type PluginContext } from './host/plugin.ts';
export { type ListenOptions, listen } from './listen.ts';
export { type Method, method } from './protocol/method.ts';
export { type ServeOptions, serve } from './serve.ts';
export type { Server } from './server/serve.ts';
export {
  type Authenticator,
  type ConfiguredAuthenticator,
  createAuthenticator,
  type PrincipalTokens,
  tokenDigest,
} from './session/auth.ts';
export type { FleetGrants, Grants, Reach, SessionGrants } from './session/principal.ts';
export { principalWith, ROLES, type RoleName } from './session/roles.ts';
export type { TrafficLimits } from './session/traffic-shares.ts';
export type { Listener } from './transport/link.ts';
