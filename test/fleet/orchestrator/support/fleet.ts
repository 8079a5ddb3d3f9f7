/**
 * An orchestrator over a scripted bus and virtual time, and the common questions of tests to it.
 */
import type { TestContext } from 'node:test';
import { createOrchestrator } from '../../../../src/fleet/orchestrator/orchestrator.ts';
import type { Orchestrator, OrchestratorOptions } from '../../../../src/fleet/orchestrator/orchestrator-options.ts';
import { memoryTaskStore } from '../../../../src/fleet/orchestrator/store-memory.ts';
import type { TaskState, TaskStore } from '../../../../src/fleet/orchestrator/task.ts';
import { taskStream } from '../../../../src/fleet/orchestrator/task-journal.ts';
import type { Journal } from '../../../../src/journal/journal.ts';
import { memoryJournal } from '../../../../src/journal/memory.ts';
import { ScriptedBus } from './scripted-bus.ts';
import { settle, VirtualClock } from './virtual-clock.ts';

export const quiet = { debug() {}, info() {}, warn() {}, error() {} };

export interface Fleet {
  readonly bus: ScriptedBus;
  readonly clock: VirtualClock;
  readonly store: TaskStore;
  readonly journal: Journal;
  readonly orchestrator: Orchestrator;
  state(taskId: string): Promise<TaskState>;
  /** Kinds of the journal's entries of a task. */
  kinds(taskId: string): Promise<string[]>;
}

/** Starts a fleet, which is stopped when the test ends. */
export async function fleet(
  t: TestContext,
  options: Partial<OrchestratorOptions> & { readonly bus?: ScriptedBus; readonly clock?: VirtualClock } = {},
): Promise<Fleet> {
  const { bus = new ScriptedBus(), clock = new VirtualClock(), ...rest } = options;
  const store = rest.store ?? memoryTaskStore();
  const journal = rest.journal ?? memoryJournal();
  let id = 0;
  const orchestrator = createOrchestrator({
    name: 'test',
    store,
    journal,
    buses: [bus],
    log: quiet,
    now: clock.now,
    monotonic: clock.monotonic,
    timer: clock.timer,
    random: () => 0.5,
    newId: () => `t-${++id}`,
    ...rest,
  });
  await orchestrator.start();
  t.after(() => orchestrator.close());
  return {
    bus,
    clock,
    store,
    journal,
    orchestrator,
    async state(taskId) {
      await settle();
      return (await orchestrator.get(taskId)).state;
    },
    async kinds(taskId) {
      await settle();
      const stream = taskStream(await orchestrator.get(taskId));
      return (await journal.read(stream, 0)).entries.map(({ kind }) => kind);
    },
  };
}

/** Makes a store that waits for `gate`, or fails with its error, before each put. */
export function guardedStore(gate: () => Promise<void> | void, store: TaskStore = memoryTaskStore()): TaskStore {
  return {
    put: async (record, revision) => {
      await gate();
      return store.put(record, revision);
    },
    get: (taskId) => store.get(taskId),
    open: () => store.open(),
    find: (query) => store.find(query),
    lastNumber: () => store.lastNumber(),
    prune: (before, maxTasks) => store.prune(before, maxTasks),
    close: () => store.close(),
  };
}
