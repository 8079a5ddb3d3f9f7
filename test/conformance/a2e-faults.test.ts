/**
 * The A2E cases against a host with one fault each: a case that never fails checks nothing. Without a fault, all of them pass.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { a2eCases } from '../../src/conformance/a2e/cases.ts';
import { A2eRun } from '../../src/conformance/a2e/context.ts';
import type { Outcome } from '../../src/conformance/case.ts';
import { runCases } from '../../src/conformance/run.ts';
import type { Host } from '../../src/host/host.ts';
import type { Listener } from '../../src/transport/link.ts';
import { listenTcp, parseTcpAddress } from '../../src/transport/socket.ts';
import { a2eFaults } from './support/a2e-faults.ts';
import { faultyRelay } from './support/faulty-relay.ts';
import { fullHost, TOKEN } from './support/full-host.ts';

/** Wait for an answer that a fault keeps away; every other answer comes far sooner. */
const PATIENCE_MS = 1_500;
/** Without a fault nothing is waited for in vain. */
const LONG_MS = 30_000;

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
        patienceMs: fault.caught.length === 0 ? LONG_MS : PATIENCE_MS,
        tool: { name: 'echo', arguments: { value: 'x' } },
        env: 'FrozenLake-v1',
        writes: true,
      });
      t.after(() => run.close());
      const groups = new Set(fault.caught.map((id) => id.slice(0, 'A2E-XX'.length)));
      const cases = a2eCases.filter(({ id }) => groups.size === 0 || fault.caught.includes(id));
      const outcomes: Outcome[] = [];
      for await (const outcome of runCases(cases, run, 60_000)) outcomes.push(outcome);
      const failed = outcomes.filter(({ status }) => status === 'failed');
      assert.deepEqual(
        failed.map(({ id, reason, got }) => (fault.caught.includes(id) ? id : `${id}: ${reason}; ${got}`)).sort(),
        [...fault.caught].sort(),
      );
      for (const { reason, got, transcript = [] } of failed) {
        assert.ok(reason !== undefined && reason !== '');
        assert.ok(transcript.length > 0 || got !== undefined, 'evidence');
      }
    });
  }
});
