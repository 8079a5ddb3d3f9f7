/**
 * `handfast/fleet`: orchestrators, workers, their messages and the four phases of the fleet handshake, for programs.
 *
 * @see docs/fleet.md
 */

import './base/node-version.ts';

export type { AgentCommand, StartProgram } from './acp/start-program.ts';
export type { Pairs } from './base/bandits/stored.ts';
export type { JsonSchema } from './base/json-schema.ts';
export type { DatabaseLoss } from './base/sqlite/losses.ts';
export type { Timer } from './base/timer-queue.ts';
export type { AnswerCheck, AnswerCheckOptions } from './base/value-check.ts';
export { answerSchemaProblem } from './base/value-check.ts';
export type { FleetClientOptions } from './bridge/fleet-client.ts';
export { FleetClient, type FleetStatus, type TaskEvent } from './bridge/fleet-client.ts';
export { type JoinFleetOptions, join } from './bridge/join-fleet.ts';
export type { Token, TokenSource } from './connection/token.ts';
export type { BlockedAction, BlockedInput, BlockedPolicy, BlockedStep } from './fleet/blocked-policy.ts';
export { blockedStep, DEFAULT_BLOCKED_POLICY } from './fleet/blocked-policy.ts';
export type { A2aBusOptions } from './fleet/bus/a2a/orchestrator-bus.ts';
export { a2aBus } from './fleet/bus/a2a/orchestrator-bus.ts';
export type { PartialState } from './fleet/bus/a2a/partial-state.ts';
export type { A2aAgent, A2aAgentOptions, ServedA2a } from './fleet/bus/a2a/worker-server.ts';
export { a2aAgent, serveA2a } from './fleet/bus/a2a/worker-server.ts';
export type { Callback } from './fleet/bus/http/callbacks.ts';
export type { HttpPeerBus, HttpPeerBusOptions } from './fleet/bus/http/orchestrator-bus.ts';
export { httpPeerBus } from './fleet/bus/http/orchestrator-bus.ts';
export type { Recall } from './fleet/bus/http/replies.ts';
export type { HttpReceiver, ReceiverHealth, ReceiverOptions } from './fleet/bus/http/worker-server.ts';
export { httpReceiver } from './fleet/bus/http/worker-server.ts';
export type { InProcessOptions } from './fleet/bus/in-process.ts';
export { inProcessBus } from './fleet/bus/in-process.ts';
export type {
  Binding,
  BusOutage,
  DispatchMode,
  FleetPeer,
  OrchestratorBus,
  PeerEvents,
  SendOptions,
  Whereabouts,
} from './fleet/bus/peer.ts';
export type { HttpListener, HttpListenerOptions, PORT_BANDS, PortBand } from './fleet/bus/plain/http-listener.ts';
export { listenHttp } from './fleet/bus/plain/http-listener.ts';
export type { ServerAccess } from './fleet/bus/plain/http-server.ts';
export type { GivenTask } from './fleet/bus/plain/open-tasks.ts';
export type { PlainBusOptions, PlainPeerOptions } from './fleet/bus/plain/orchestrator-bus.ts';
export type { PeerHealthOptions } from './fleet/bus/plain/peer-health.ts';
export type { AlreadyTaken, DispatchOutcome, Lease, ReplyChannel, WorkerPort } from './fleet/bus/reply-channel.ts';
export type { JoinOptions } from './fleet/bus/stream/join.ts';
export { type Joined, joinOverLink, workerOverStdio } from './fleet/bus/stream/join.ts';
export type { StreamBusOptions } from './fleet/bus/stream/stream-bus.ts';
export { type StreamBus, streamBus } from './fleet/bus/stream/stream-bus.ts';
export type {
  A2aConfig,
  AcpConfig,
  AgyConfig,
  ClaudeConfig,
  CodexConfig,
  CommandConfig,
  ExecutorConfig,
  FunctionConfig,
  OpencodeConfig,
  ProgramConfig,
  RehearsalConfig,
} from './fleet/executors/config.ts';
export type {
  Execution,
  Executor,
  ExecutorAnswer,
  ExecutorContext,
  ExecutorEnvironment,
  ExecutorEvents,
  ExecutorOutcome,
  ExecutorQuestion,
  ExecutorTask,
  Readiness,
} from './fleet/executors/executor.ts';
export type { FunctionExecutorOptions, FunctionResult, TaskFunction } from './fleet/executors/function.ts';
export { functionExecutor } from './fleet/executors/function.ts';
export type { ExecutorDeps } from './fleet/executors/make.ts';
export type { DecodeOptions } from './fleet/messages/decode.ts';
export { decode } from './fleet/messages/decode.ts';
export type {
  Addition,
  Announced,
  Decoded,
  Dispatched,
  Finding,
  Incoming,
  Reported,
  RepoState,
} from './fleet/messages/decoded.ts';
export type { Body } from './fleet/messages/encode.ts';
export { announceMessage, dispatchMessage, fleetMessage, resultMessage } from './fleet/messages/encode.ts';
export { createOrchestrator, createWorker, makeExecutor, sqliteTaskStore } from './fleet/on-demand.ts';
export type { Orchestrator, OrchestratorOptions, WorkerView } from './fleet/orchestrator/orchestrator-options.ts';
export { memoryTaskStore } from './fleet/orchestrator/store-memory.ts';
export type { SqliteTaskStoreOptions } from './fleet/orchestrator/store-sqlite.ts';
export type {
  Attempt,
  LateResult,
  Stored,
  Submitter,
  TaskQuery,
  TaskRecord,
  TaskSpec,
  TaskState,
  TaskStore,
} from './fleet/orchestrator/task.ts';
export type { AnnouncedReply } from './fleet/phases/announce-reply.ts';
export { announceInReply } from './fleet/phases/announce-reply.ts';
export { checkAnswer } from './fleet/phases/answer-schema.ts';
export type { Inline, InlineDiagnostic } from './fleet/phases/inline.ts';
export { parseInline } from './fleet/phases/inline.ts';
export type { GivenHints } from './fleet/phases/inline-emit.ts';
export { emitInline } from './fleet/phases/inline-emit.ts';
export type { HintKey, Hints } from './fleet/phases/inline-values.ts';
export type { InstructionInput, RepairInput } from './fleet/phases/instruction.ts';
export { repairPrompt, replyInstruction } from './fleet/phases/instruction.ts';
export type { Negotiated, VersionEvidence } from './fleet/phases/negotiate.ts';
export { negotiate } from './fleet/phases/negotiate.ts';
export type { JournalFact, Preflight, PreflightFacts, Refusal } from './fleet/phases/preflight.ts';
export { preflight, refusalResult } from './fleet/phases/preflight.ts';
export type { Conformance, Extracted, ReplyInput, ReplySource } from './fleet/phases/reply.ts';
export { extractReply } from './fleet/phases/reply.ts';
export type { PolicyHook } from './fleet/route/hooks.ts';
export type {
  Components,
  Explanation,
  Profile,
  Ranked,
  Route,
  RouteHooks,
  RoutePolicy,
  RouteTask,
} from './fleet/route/profile.ts';
export type { RouteOptions } from './fleet/route/route.ts';
export { route } from './fleet/route/route.ts';
export type { McpServerOptions } from './fleet/worker/mcp-servers.ts';
export type { EnvironmentTask, OpenEnvironment, TaskEnvironments } from './fleet/worker/task-environment.ts';
export type { Worker } from './fleet/worker/worker.ts';
export type { WorkerOptions } from './fleet/worker/worker-options.ts';
export type { Filled, Full } from './protocol/fleet.schema.ts';
export type * from './protocol/fleet.ts';
export type { Wire } from './wire/schema.ts';
