/**
 * Every store of task records of this package that needs no server, checked against the contract.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { memoryTaskStore } from '../../src/fleet/orchestrator/store-memory.ts';
import { sqliteTaskStore } from '../../src/fleet/orchestrator/store-sqlite.ts';
import type { TaskStore } from '../../src/fleet/orchestrator/task.ts';
import { taskStoreContract } from './task-store.ts';

taskStoreContract('memory', async () => {
  const store = memoryTaskStore();
  return { store, close: () => store.close() };
});

taskStoreContract('sqlite', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'handfast-tasks-'));
  const file = join(folder, 'tasks.db');
  let store: TaskStore = await sqliteTaskStore({ file });
  return {
    store,
    async reopen() {
      await store.close();
      store = await sqliteTaskStore({ file });
      return store;
    },
    async close() {
      await store.close();
      await rm(folder, { recursive: true });
    },
  };
});
