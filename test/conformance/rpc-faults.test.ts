/**
 * The session RPC cases against a server with one fault each. Without a fault, all of them pass that may be played on a server that
 * others use too.
 */
import { describe, test } from 'node:test';
import { leftOutOf, rpcCases } from '../../src/conformance/session-rpc/cases.ts';
import { RpcRun } from '../../src/conformance/session-rpc/context.ts';
import { listenTcp, parseTcpAddress } from '../../src/transport/socket.ts';
import { composed } from '../control/support/composed-control.ts';
import { faultyRelay } from './support/faulty-relay.ts';
import { rpcFaults } from './support/rpc-faults.ts';
import { notices, patienceOf } from './support/with-fault.ts';

describe('a server with a fault', { concurrency: 4 }, () => {
  for (const fault of rpcFaults) {
    test(fault.name, async (t) => {
      const { server } = await composed(t, {});
      const listener = await listenTcp({ port: 0 }, (link) => server.rpc.accept(link));
      t.after(() => listener.close());
      const address = await faultyRelay(t, parseTcpAddress(listener.address).port, fault);
      const run = new RpcRun({ address, token: '', patienceMs: patienceOf(fault) }, leftOutOf);
      t.after(() => run.close());
      await notices(rpcCases, run, fault);
    });
  }
});
