/**
 * The A2E cases against a host with one fault each: a case that never fails checks nothing. Without a fault, all of them pass.
 */
import { after, before, describe, test } from 'node:test';
import { a2eCases } from '../../src/conformance/a2e/cases.ts';
import { A2eRun } from '../../src/conformance/a2e/context.ts';
import type { Host } from '../../src/host/host.ts';
import type { Listener } from '../../src/transport/link.ts';
import { listenTcp, parseTcpAddress } from '../../src/transport/socket.ts';
import { a2eFaults } from './support/a2e-faults.ts';
import { faultyRelay } from './support/faulty-relay.ts';
import { fullHost, TOKEN } from './support/full-host.ts';
import { notices, patienceOf } from './support/with-fault.ts';

let host: Host;
let listener: Listener;

before(async () => {
  host = await fullHost();
  listener = await listenTcp({ port: 0 }, (link) => host.accept(link));
});
after(async () => {
  await listener?.close();
  await host?.close(0);
});

describe('a host with a fault', { concurrency: 4 }, () => {
  for (const fault of a2eFaults) {
    test(fault.name, async (t) => {
      const { port } = parseTcpAddress(listener.address);
      const address = await faultyRelay(t, port, fault, { token: TOKEN });
      const run = new A2eRun({
        address,
        token: TOKEN,
        patienceMs: patienceOf(fault),
        tool: { name: 'echo', arguments: { value: 'x' } },
        env: 'FrozenLake-v1',
        writes: true,
      });
      t.after(() => run.close());
      await notices(a2eCases, run, fault);
    });
  }
});
