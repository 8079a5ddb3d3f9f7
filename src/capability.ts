/**
 * `handfast/capability`: for packages that add a capability: messages, plugin, client, commands.
 *
 * A package adds its client to {@link CapabilityClients} by declaration merging, so that `agent.<name>` has its type:
 *
 *     declare module 'handfast/capability' {
 *       interface CapabilityClients { readonly notes: NotesClient }
 *     }
 *
 * @see docs/capabilities.md
 */

import './base/node-version.ts';

import type { ChainsClient } from './capabilities/chains/client.ts';
import type { EnvClient } from './capabilities/env/client.ts';
import type { LearningClient } from './capabilities/learning/client.ts';
import type { McpClient } from './capabilities/mcp/client.ts';
import type { MemoryClient } from './capabilities/memory/client.ts';
import type { MultiAgentClient } from './capabilities/multi_agent/client.ts';
import type { PlanningClient } from './capabilities/planning/client.ts';
import type { ProcClient } from './capabilities/proc/client.ts';
import type { SkillClient } from './capabilities/skill/client.ts';
import type { ToolkitsClient } from './capabilities/toolkits/client.ts';
import type { ToolsClient } from './capabilities/tools/client.ts';

/** The clients of the capabilities, by capability name. Packages extend it. */
export interface CapabilityClients {
  readonly chains: ChainsClient;
  readonly learning: LearningClient;
  readonly mcp: McpClient;
  readonly memory: MemoryClient;
  readonly multi_agent: MultiAgentClient;
  readonly planning: PlanningClient;
  readonly proc: ProcClient;
  readonly skill: SkillClient;
  readonly toolkits: ToolkitsClient;
  readonly tools: ToolsClient;
  readonly env: EnvClient;
}

export type { AgentSession } from './agent/agent.ts';
export type { AskContext, AskHandler, PushListener } from './agent/host-messages.ts';
export type { PolicyName, PolicySettings } from './base/bandits/settings.ts';
export type { JsonSchema } from './base/json-schema.ts';
export type {
  Budget as ChainBudget,
  ChainEntry,
  ChainError,
  ChainNode,
  ChainProblem,
  ChainRef,
  ChainRun,
  ChainUsage,
  NodeState as ChainNodeState,
  StoredChain,
} from './capabilities/chains/chains.schema.ts';
export {
  type ChainResult,
  type ChainResumeOptions,
  type ChainRunOptions,
  type ChainSpec,
  type ChainStatus,
  ChainsClient,
} from './capabilities/chains/client.ts';
export type { GymnasiumVerdict } from './capabilities/env/check/findings.ts';
export {
  type DescribedSpaces,
  type EnvCheckOptions,
  type EnvCheckReport,
  EnvClient,
  type EnvRecord,
  type EpisodeEvent,
  type MakeOptions,
  type RemoteEpisode,
  type RemoteVector,
  type Rendering,
  type ResetOptions,
  type SpaceOfEnvironment,
  type StepResult,
  type StoredEpisode,
  type Suggestion,
} from './capabilities/env/client.ts';
export type { Durability } from './capabilities/env/durable.ts';
export type { EnvDescription, EnvFinding, EnvObservation } from './capabilities/env/env.schema.ts';
export type { Autoreset } from './capabilities/env/environment.ts';
export type { Transition } from './capabilities/env/trajectory.ts';
export {
  type AdaptOptions,
  type Decided,
  type DecideOptions,
  type EvaluateOptions,
  type LearningAgent,
  LearningClient,
  type OfAgent,
  type RewardOptions,
} from './capabilities/learning/client.ts';
export type {
  ChoiceStats,
  ComponentPerformanceRecord,
  Experience,
  Feedback,
  LearnAdaptResp,
  LearnEvaluateResp,
  LearnExperienceResp,
  LearnFeedbackResp,
  LearnRefinementApplyResp,
  LearnRefinementPlanResp,
  LearnRefinementReviewResp,
  LearnRefinementRollbackResp,
} from './capabilities/learning/messages.ts';
export {
  type Completion as McpCompletion,
  type CompletionRequest as McpCompletionRequest,
  type ElicitationAnswer as McpElicitationAnswer,
  type ElicitationRequest as McpElicitationRequest,
  McpClient,
  type McpNotification,
  type McpRoot,
  type Prompt as McpPrompt,
  type PromptMessage as McpPromptMessage,
  type Resource as McpResource,
  type ResourceContent as McpResourceContent,
  type ResourceTemplate as McpResourceTemplate,
  type RootsRequest as McpRootsRequest,
  type SamplingAnswer as McpSamplingAnswer,
  type SamplingRequest as McpSamplingRequest,
  type ServerConfig as McpServerConfig,
  type ServerInfo as McpServerInfo,
} from './capabilities/mcp/client.ts';
export {
  Memory,
  type MemoryAgent,
  type MemoryChange,
  MemoryClient,
  type MemoryForget,
  type MemoryKeyLike,
  type MemoryName,
  type MemoryNewEntry,
  type MemoryPage,
  type MemoryQuery,
  type MemoryStats,
  type MemoryTier,
} from './capabilities/memory/client.ts';
export type { MemoryKey } from './capabilities/memory/key.ts';
export type {
  MemoryAmount,
  MemoryEntry,
  MemoryForgetResp,
  MemoryParts,
  MemoryProvenance,
  MemorySpace,
  MemoryStatsResp,
} from './capabilities/memory/messages.ts';
export {
  type MergedResults,
  type MergeOptions,
  MultiAgentClient,
  RemoteSubagent,
  type RemoteTask,
  type SubagentChannel,
  type SubagentNotice,
  type SubagentOptions,
  type SubagentOutcome,
  type SubagentTaskOptions,
} from './capabilities/multi_agent/client.ts';
export type {
  ChannelMessage,
  SubagentBudget,
  SubagentKind,
  SubagentMessage,
  SubagentSummary,
  SubagentUsage,
  SubagentWork,
} from './capabilities/multi_agent/multi_agent.schema.ts';
export type { ClaimedTask, ClaimedTaskDeps } from './capabilities/planning/claimed-task.ts';
export {
  type Board as PlanBoard,
  type ClaimOptions,
  type Entry as PlanEntry,
  type MergedMarkdown,
  type Plan,
  PlanningClient,
  type PlanOptions,
  type Rules as PlanRules,
  type Share as PlanShare,
  type Task as PlanTask,
  type TaskChange,
  type TaskFilter,
  type TaskLine,
  type TaskOptions,
} from './capabilities/planning/client.ts';
export {
  type OutputOptions,
  type OutputPiece,
  ProcClient,
  type ProcessExit,
  type ProcessInfo,
  RemoteProcess,
  type SpawnOptions,
  type TerminalSize,
} from './capabilities/proc/client.ts';
export type { ProcStatus } from './capabilities/proc/proc.schema.ts';
export {
  type SkillCallOptions,
  SkillClient,
  type SkillDescription,
  type SkillFilter,
  type SkillSandbox,
} from './capabilities/skill/client.ts';
export type {
  LlmConfig,
  SkillDefinition,
  SkillFile,
  SkillLeftOut,
  SkillProblem,
  SkillResult,
} from './capabilities/skill/skill.schema.ts';
export {
  type DescribedToolkit,
  type FieldError as ToolkitFieldError,
  type FoundTools,
  type ToolkitInfo,
  type ToolkitListOptions,
  type ToolkitOptions,
  type ToolkitSearchOptions,
  ToolkitsClient,
} from './capabilities/toolkits/client.ts';
export { ToolsClient } from './capabilities/tools/client.ts';
export { type ToolCallReq, type ToolCallResp, toolCall, toolList } from './capabilities/tools/messages.ts';
export type { Call, CallEvent, CallOptions, MethodCaller } from './connection/call.ts';
export type { CallContext, NestedCallOptions, Principal, SessionView } from './host/context.ts';
export {
  type DelegatedSession,
  definePlugin,
  type Handler,
  handle,
  type Plugin,
  type PluginContext,
  type PluginFacts,
  type PluginOffer,
} from './host/plugin.ts';
export type { PluginStore, Rows, SessionStores, Store, StoreScope, StoreUse } from './host/store/store.ts';
export {
  type Capability,
  type CapabilityCommand,
  type CapabilityFinding,
  type CapabilityHostCommand,
  type CapabilityLocalCommand,
  type CapabilityOptions,
  type CheckedHost,
  type CommandContext,
  type CommandFleet,
  type CommandTerminal,
  defineCapability,
  type FleetTask,
  type FleetTaskSpec,
} from './packages/capability.ts';
export { type Body, type Method, type MethodSchemas, method, type Push, push } from './protocol/method.ts';
export type { FleetGrants, Grants, Reach, SessionGrants } from './session/principal.ts';
export { capabilityErrors, type ErrorName, fail, HandfastError } from './wire/errors.ts';
