/** The contract every store of task records is held to, over a real server. */
import { after } from 'node:test';
import { acquireLeadership } from '../../../src/fleet/bus/nats/leadership.ts';
import { natsTaskStore } from '../../../src/fleet/bus/nats/task-store.ts';
import type { TaskStore } from '../../../src/fleet/orchestrator/task.ts';
import { taskStoreContract } from '../../contract/task-store.ts';
import { log } from './fleet.ts';
import { NatsServer, newest } from './server.ts';

const installed = newest();
if (installed !== undefined) {
  let running: Promise<NatsServer> | undefined;
  let seats = 0;
  after(async () => (await running)?.remove());
  taskStoreContract(`NATS ${installed.version}`, async () => {
    running ??= (async () => {
      const server = new NatsServer(installed);
      await server.up();
      return server;
    })();
    const { url: servers } = await running;
    const seat = await acquireLeadership({ servers, name: `orchestrator-${++seats}`, log });
    let store: TaskStore = await natsTaskStore(seat);
    return {
      store,
      async reopen() {
        await store.close();
        store = await natsTaskStore(seat);
        return store;
      },
      async close() {
        await store.close();
        await seat.close();
      },
    };
  });
}
