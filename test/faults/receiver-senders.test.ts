/**
 * F-96 for a worker with several senders: a task is visible to the sender that submitted it, and to no other. A real
 * worker behind a real receiver, over HTTP.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { httpReceiver } from '../../src/fleet/bus/http/worker-server.ts';
import { listenHttp } from '../../src/fleet/bus/plain/http-listener.ts';
import { fleetMessage } from '../../src/fleet/messages/encode.ts';
import type { FleetMessage } from '../../src/protocol/fleet.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { aDispatch } from '../fleet/bus-contract.ts';
import { block, scriptedExecutor } from '../fleet/support/scripted-executor.ts';
import { quiet } from '../fleet/support/stream-links.ts';
import { say } from '../fleet/support/upstream-sender.ts';
import { bench } from '../fleet/support/worker-bench.ts';
import { eventually, tokenOf } from './support/fleet-server.ts';

test('a sender cannot poll, cancel, steer, answer or confirm the task of another one', async (t) => {
  const { promise, resolve: open } = Promise.withResolvers<void>();
  const executor = scriptedExecutor(async ({ taskId }) => {
    await promise;
    return block(taskId, { summary: 'the answer for ann' });
  });
  const { worker } = await bench(t, { executor });
  const principals = ['ann', 'bob'].map((name) => ({
    principal: { name, fleet: { submit: true } },
    digests: [tokenDigest(tokenOf(name))],
  }));
  const auth = createAuthenticator(principals);
  const receiver = httpReceiver({ worker, repoPath: '/repo', url: () => '', log: quiet, auth });
  const listener = await listenHttp({ port: 0, hasTokens: true, handle: (...pair) => receiver.handle(...pair) });
  t.after(async () => {
    receiver.close();
    await listener.close();
  });
  const as = (name: string, message: FleetMessage) =>
    say(listener.address, 'x', { data: [message], token: tokenOf(name) });
  const about = (task_id: string): readonly FleetMessage[] => [
    fleetMessage('TASK_POLL', { task_id }, { attempt: 1 }),
    fleetMessage('TASK_CANCEL', { task_id, reason: 'not mine' }, { attempt: 1 }),
    fleetMessage('TASK_STEER', { task_id, steer_id: 's', text: 'do something else' }, { attempt: 1 }),
  ];
  const foreign = async (): Promise<void> => {
    for (const [at, message] of about('t-1').entries()) {
      const { data } = await as('bob', message);
      const unknown = await as('bob', about('no-such')[at] as FleetMessage);
      assert.deepEqual(JSON.parse(JSON.stringify(data).replaceAll('t-1', 'no-such')), unknown.data, message.type);
    }
    await as('bob', fleetMessage('TASK_ANSWER', { task_id: 't-1', question_id: 'q', allowed: true }));
    await as('bob', fleetMessage('TASK_ACK', { task_id: 't-1', accepted: true, state: 'finished' }, { attempt: 1 }));
  };
  const reply = as('ann', aDispatch('t-1'));
  await eventually(() => executor.turns.length === 1, 'the task to run');
  await foreign();
  assert.equal(worker.activeTasks, 1);
  assert.deepEqual(executor.steered, []);
  const [own] = (await as('ann', about('t-1')[0] as FleetMessage)).data;
  assert.equal(own?.state, 'running');
  open();
  assert.match((await reply).text, /the answer for ann/);
  await foreign();
  const [stored] = (await as('ann', about('t-1')[0] as FleetMessage)).data;
  assert.deepEqual([stored?.type, stored?.summary], ['TASK_RESULT', 'the answer for ann']);
});
