/** Stream links of every kind, held to the contract of all buses. */
import { joinOverLink } from '../../../src/fleet/bus/stream/join.ts';
import { streamBus } from '../../../src/fleet/bus/stream/stream-bus.ts';
import { busContract } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { linkKinds, quiet } from '../support/stream-links.ts';

for (const kind of linkKinds) {
  busContract({
    name: kind.name,
    async open(workers) {
      const events = new PeerRecorder();
      // Hundreds of tasks at once take their time on a busy machine.
      const bus = streamBus({ name: 'orchestrator', log: quiet, ackTimeoutMs: 600_000 });
      await bus.start(events);
      const site = await kind.listen((link) => bus.accept(link));
      const joined = workers.map((worker) =>
        joinOverLink(worker, () => site.dial(), {
          log: quiet,
          reconnect: { backoff: { firstDelayMs: 5 } },
          deliverTimeoutMs: 600_000,
        }),
      );
      await Promise.all(joined.map(({ accepted }) => accepted));
      return {
        bus,
        events,
        async stop() {
          await Promise.all(joined.map((membership) => membership.close()));
          await bus.close();
          await site.close();
        },
      };
    },
  });
}
