/**
 * The large parts of a fleet, each loaded with its first use: a program that runs a worker never loads an orchestrator, and
 * importing `handfast/fleet` loads neither.
 *
 * Programs get these from `handfast/fleet`; the server imports the parts themselves.
 */
import type { ExecutorConfig } from './executors/config.ts';
import type { Executor } from './executors/executor.ts';
import type { ExecutorDeps } from './executors/make.ts';
import type { Orchestrator, OrchestratorOptions } from './orchestrator/orchestrator-options.ts';
import type { SqliteTaskStoreOptions } from './orchestrator/store-sqlite.ts';
import type { TaskStore } from './orchestrator/task.ts';
import type { Worker } from './worker/worker.ts';
import type { WorkerOptions } from './worker/worker-options.ts';

/** Makes an orchestrator over these buses and this store. `start` it; both stay the caller's to close after `stop`. */
export async function createOrchestrator(options: OrchestratorOptions): Promise<Orchestrator> {
  const orchestrator = await import('./orchestrator/orchestrator.ts');
  return orchestrator.createOrchestrator(options);
}

/**
 * Opens or creates a store of tasks in a file. Fails with `journal_locked`, `journal_corrupt`, `disk_full`, or `runtime_error`
 * when the file belongs to another program or to a newer version.
 */
export async function sqliteTaskStore(options: SqliteTaskStoreOptions): Promise<TaskStore> {
  const store = await import('./orchestrator/store-sqlite.ts');
  return store.sqliteTaskStore(options);
}

/**
 * Makes a worker. Its journal is open and tasks of an earlier process are reported when this resolves; it accepts tasks after
 * `start`. Fails with `journal_locked` when another process has its home, `disk_full`, `not_configured` when the package that
 * probes MCP servers is missing, `config_invalid` for an invalid name or path.
 */
export async function createWorker(options: WorkerOptions): Promise<Worker> {
  const worker = await import('./worker/worker.ts');
  return worker.createWorker(options);
}

/** Makes the executor of a configuration. Starts nothing. Fails with `not_configured` when a dependency is missing. */
export async function makeExecutor(config: ExecutorConfig, deps: ExecutorDeps): Promise<Executor> {
  const executors = await import('./executors/make.ts');
  return executors.makeExecutor(config, deps);
}
