/** The contract every bus is held to, over a real server. */
import { after } from 'node:test';
import { joinNats } from '../../../src/fleet/bus/nats/join.ts';
import { natsBus } from '../../../src/fleet/bus/nats/orchestrator-bus.ts';
import { busContract } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { log } from './fleet.ts';
import { NatsServer, newest } from './server.ts';

const installed = newest();
if (installed !== undefined) {
  let running: Promise<NatsServer> | undefined;
  after(async () => (await running)?.remove());
  busContract({
    name: `NATS ${installed.version}`,
    keepsMessages: true,
    async open(workers) {
      // One server for all, emptied for each: starting it takes longer than most of these tests.
      running ??= (async () => {
        const server = new NatsServer(installed);
        await server.up();
        return server;
      })();
      const server = await running;
      await server.empty();
      const bus = natsBus({ servers: server.url, name: 'main', log });
      const events = new PeerRecorder();
      await bus.start(events);
      const joined = workers.map((worker) => joinNats(worker, { servers: server.url, log }));
      await Promise.all(joined.map(({ accepted }) => accepted));
      return {
        bus,
        events,
        leave: async (agentId) => joined.find(({ peerId }) => peerId === agentId)?.close(),
        async stop() {
          await bus.close();
          await Promise.all(joined.map((one) => one.close()));
        },
      };
    },
  });
}
