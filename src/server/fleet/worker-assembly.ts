/**
 * Builds a worker from its configuration: the executor that does the work, and the worker shim around it.
 *
 * For the workers of a fleet's own process, and for one of the `worker` command that joins.
 */
import { handfastHome } from '../../base/handfast-home.ts';
import type { Log } from '../../base/log.ts';
import type { ConfigTrust } from '../../config/config.ts';
import { measuresOverhead } from '../../config/executor-settings.ts';
import type { WorkerConfig } from '../../config/fleet-config.ts';
import type { Executor } from '../../fleet/executors/executor.ts';
import { makeExecutor } from '../../fleet/executors/make.ts';
import { createWorker, type Worker } from '../../fleet/worker/worker.ts';
import { spawnLink } from '../../transport/subprocess.ts';
import { agentFilesTrusted } from '../../trust/check.ts';
import { TrustStore } from '../../trust/store.ts';
import { fail } from '../../wire/errors.ts';
import { executorOf, mcpServerOf } from './executor-config.ts';
import { openWorkerEndpoints, type WorkerEndpoints } from './worker-endpoints.ts';

export interface WorkerAssembly {
  readonly log: Log;
  /** Version of this software, sent to agents. */
  readonly version: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Trust in a configuration that came with a folder: checked before each program of the worker is started. */
  readonly trust?: ConfigTrust;
  readonly now?: () => number;
}

/** A worker, and its endpoints beside the bus of its fleet. */
export interface AssembledWorker {
  readonly worker: Worker;
  /**
   * Starts the worker and opens its endpoints. Fails with `runtime_error` for a port that cannot be bound, `not_configured`.
   */
  start(): Promise<void>;
  /** Addresses of its endpoints, once started. */
  readonly addresses: readonly string[];
  /** Stops it in order. Bounded, never rejects. */
  stop(): Promise<void>;
}

/** Makes a worker without starting it. Fails with `config_invalid`, `not_configured`, `journal_locked`. */
export async function assembleWorker(config: WorkerConfig, options: WorkerAssembly): Promise<AssembledWorker> {
  const { log, version, env = process.env, trust, now } = options;
  const { executor: settings } = config;
  if (settings === undefined) throw fail('config_invalid', `worker ${config.id} has no executor; add "executor"`);
  const store = new TrustStore({ home: handfastHome(env), log });
  const made = makeExecutor(await executorOf(settings, env), {
    home: config.dataDir,
    log,
    version,
    start: spawnLink,
    trustsFolder: (cwd) => agentFilesTrusted(cwd, store).catch(() => false),
  });
  const executor = trust === undefined ? made : confirmedExecutor(made, trust);
  // Most workers lend nothing, and load no host for it.
  const environments =
    config.environment &&
    (await (await import('./task-environments.ts')).lendEnvironments(config, { log, version, env }));
  const making = createWorker({
    agentId: config.id,
    executor,
    cwd: config.repo,
    home: config.dataDir,
    model: config.model ?? settings.model ?? null,
    modelTier: config.tier ?? null,
    contextWindow: config.contextWindow ?? null,
    tools: config.tools,
    mcpServers: config.mcpServers.map((server) => mcpServerOf(server, env)),
    pools: config.pools,
    maxConcurrent: config.maxConcurrent,
    minLeadS: config.minLeadS,
    countCacheReads: config.countCacheReads,
    ...(config.worktree !== undefined && { worktree: config.worktree }),
    overheadTokens: config.overheadTokens ?? (measuresOverhead(settings.kind, config.overhead) ? 'measure' : null),
    turnTimeoutMs: config.turnTimeoutMs,
    environments,
    log,
    now,
    ...(trust && { confirm: () => trust.confirm() }),
  });
  const worker = await making.catch(async (error) => {
    await environments?.close();
    throw error;
  });
  let endpoints: WorkerEndpoints | undefined;
  return {
    worker,
    async start() {
      await worker.start();
      endpoints = await openWorkerEndpoints(worker, config, { executor, log, version, env });
    },
    get addresses() {
      return endpoints?.addresses ?? [];
    },
    async stop() {
      await endpoints?.close();
      await worker.close();
      await environments?.close();
    },
  };
}

/** Returns the same executor, which starts nothing once the trust in its configuration is withdrawn. */
function confirmedExecutor(executor: Executor, trust: ConfigTrust): Executor {
  return {
    kind: executor.kind,
    canSteer: executor.canSteer,
    canAsk: executor.canAsk,
    async probe(signal) {
      await trust.confirm();
      return executor.probe(signal);
    },
    hasConversation: (contextId) => executor.hasConversation(contextId),
    start(task, context) {
      const started = trust.confirm().then(() => executor.start(task, context));
      const outcome = started.then((execution) => execution.outcome);
      if (!executor.canSteer) return { outcome };
      return { outcome, steer: async (text) => (await (await started).steer?.(text)) ?? 'rejected' };
    },
    ...(executor.measureOverhead && {
      measureOverhead: async (context) => {
        await trust.confirm();
        return (await executor.measureOverhead?.(context)) ?? null;
      },
    }),
    stop: () => executor.stop(),
  };
}
