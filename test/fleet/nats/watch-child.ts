/** A process with an orchestrator's bus, for tests: it leaves when its parent says so, and must end by itself then. */
import { once } from 'node:events';
import { Bucket } from '../../../src/fleet/bus/nats/bucket.ts';
import { openNats } from '../../../src/fleet/bus/nats/connection.ts';
import { natsBus } from '../../../src/fleet/bus/nats/orchestrator-bus.ts';
import { BUCKETS } from '../../../src/fleet/bus/nats/subjects.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { log } from './fleet.ts';

const [servers = '', how] = process.argv.slice(2);
const told = once(process, 'message');

if (how === 'closes') {
  const link = await openNats('child', { servers, log, publishTimeoutMs: 1_000 });
  // The connection is closed in the one moment between the request for a watch and its beginning.
  const consumers = link.js.consumers as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>;
  for (const name of ['getPushConsumer', 'getBoundPushConsumer']) {
    const open = consumers[name]!.bind(consumers);
    consumers[name] = async (...given) => {
      const consumer = await open(...given);
      await link.connection.close();
      return consumer;
    };
  }
  process.send?.('ready');
  await told;
  const watching = new Bucket(link, BUCKETS.leases).watch('*', () => {});
  await watching.then(
    () => process.exit(1),
    () => {},
  );
  await link.close();
} else {
  const bus = natsBus({ servers, name: 'main', log, publishTimeoutMs: 1_000 });
  await bus.start(new PeerRecorder());
  process.send?.('ready');
  await told;
  // Requests under way ask for their watches again just now.
  await new Promise((resolve) => setTimeout(resolve, 500));
  await bus.close();
}
