/**
 * `handfast/fleet`: orchestrators, workers, their messages and the four phases of the fleet handshake, for programs.
 *
 * @see docs/fleet.md
 */
export { FleetClient, type FleetStatus, type TaskEvent } from './bridge/fleet-client.ts';
export { type JoinFleetOptions, join } from './bridge/join-fleet.ts';
export { blockedStep, DEFAULT_BLOCKED_POLICY } from './fleet/blocked-policy.ts';
export { a2aBus } from './fleet/bus/a2a/orchestrator-bus.ts';
export { a2aAgent, serveA2a } from './fleet/bus/a2a/worker-server.ts';
export { httpPeerBus } from './fleet/bus/http/orchestrator-bus.ts';
export { httpReceiver } from './fleet/bus/http/worker-server.ts';
export { inProcessBus } from './fleet/bus/in-process.ts';
export type { DispatchMode, FleetPeer, OrchestratorBus, PeerEvents } from './fleet/bus/peer.ts';
export { listenHttp } from './fleet/bus/plain/http-listener.ts';
export type { DispatchOutcome, Lease, ReplyChannel, WorkerPort } from './fleet/bus/reply-channel.ts';
export { type Joined, joinOverLink, workerOverStdio } from './fleet/bus/stream/join.ts';
export { type StreamBus, streamBus } from './fleet/bus/stream/stream-bus.ts';
export type { ExecutorConfig } from './fleet/executors/config.ts';
export type {
  Execution,
  Executor,
  ExecutorContext,
  ExecutorOutcome,
  ExecutorTask,
} from './fleet/executors/executor.ts';
export { functionExecutor } from './fleet/executors/function.ts';
export { decode } from './fleet/messages/decode.ts';
export type { Announced, Decoded, Dispatched, Finding, Incoming, Reported } from './fleet/messages/decoded.ts';
export { announceMessage, dispatchMessage, fleetMessage, resultMessage } from './fleet/messages/encode.ts';
export { createOrchestrator, createWorker, makeExecutor, sqliteTaskStore } from './fleet/on-demand.ts';
export type { Orchestrator, OrchestratorOptions, WorkerView } from './fleet/orchestrator/orchestrator-options.ts';
export { memoryTaskStore } from './fleet/orchestrator/store-memory.ts';
export type { TaskQuery, TaskRecord, TaskSpec, TaskState, TaskStore } from './fleet/orchestrator/task.ts';
export { announceInReply } from './fleet/phases/announce-reply.ts';
export { answerSchemaProblem, checkAnswer } from './fleet/phases/answer-schema.ts';
export { parseInline } from './fleet/phases/inline.ts';
export { emitInline } from './fleet/phases/inline-emit.ts';
export { repairPrompt, replyInstruction } from './fleet/phases/instruction.ts';
export { negotiate } from './fleet/phases/negotiate.ts';
export { preflight, refusalResult } from './fleet/phases/preflight.ts';
export { extractReply } from './fleet/phases/reply.ts';
export type { Explanation, Profile, RoutePolicy, RouteTask } from './fleet/route/profile.ts';
export { route } from './fleet/route/route.ts';
export type { McpServerOptions } from './fleet/worker/mcp-probe.ts';
export type { Worker } from './fleet/worker/worker.ts';
export type { WorkerOptions } from './fleet/worker/worker-options.ts';
export type * from './protocol/fleet.ts';
