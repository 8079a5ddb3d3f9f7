/** Cancelling a worker that joins a fleet on NATS, where no server is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { joinNats } from '../../../src/fleet/bus/nats/join.ts';
import { within } from '../../contract/recorder.ts';
import { WorkerStandIn } from './worker-stand-in.ts';

test('a signal cancels joining, also one that was aborted before', { timeout: 120_000 }, async () => {
  const join = (signal: AbortSignal) =>
    joinNats(new WorkerStandIn({ agentId: 'w' }), { servers: 'nats://127.0.0.1:1', signal });
  const early = join(AbortSignal.abort());
  await assert.rejects(within(early.accepted, 'the refusal'), { code: 'cancelled' });
  assert.equal(await within(early.closed, 'the end'), undefined);

  const control = new AbortController();
  const dialling = join(control.signal);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.notEqual(dialling.state, 'closed');
  control.abort();
  await assert.rejects(within(dialling.accepted, 'the refusal'), { code: 'cancelled' });
  assert.equal(await within(dialling.closed, 'the end'), undefined);
  assert.equal(dialling.state, 'closed');
});
