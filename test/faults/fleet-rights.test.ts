/**
 * F-96, the first half: the right to be a worker. A real server with a fleet, and workers over real links.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ScriptedWorker } from '../fleet/support/scripted-worker.ts';
import { ADMIN, type FleetStand, named, startFleet, tokenOf } from './support/fleet-server.ts';

const peers = ({ orchestrator }: FleetStand): readonly string[] =>
  orchestrator.workers().flatMap(({ peer_id, status }) => (status === 'ready' ? [peer_id] : []));

test('F-96: a token without the grant is refused as a worker, with a goodbye and a line in the log', async (t) => {
  const stand = await startFleet(t, named('ann', 'roles: [client, operator]'));
  const ann = await stand.worker(tokenOf('ann'), { agentId: 'ann' });
  assert.equal(await ann.farewell(), 'unauthorized');
  assert.deepEqual(peers(stand), []);
  const line = stand.lines.find(({ message }) => message.startsWith('a worker was refused'));
  assert.deepEqual([line?.fields?.principal, line?.fields?.grant], ['ann', 'fleet.worker']);
});

test('F-96: a token works as the names and in the pools it was granted, and as nothing else', async (t) => {
  const grants = 'fleet: { worker: [red, blue-*], pools: [fast] }';
  const stand = await startFleet(t, `${named('builder', 'roles: [worker]')}${named('paint', grants)}`);
  const paint = (agentId: string, pools: readonly string[]) => stand.worker(tokenOf('paint'), { agentId, pools });
  await (await paint('blue-1', ['fast'])).next('SESSION_ACCEPT');
  assert.equal(await (await paint('green', ['fast'])).farewell(), 'unauthorized');
  assert.equal(await (await paint('red', ['slow'])).farewell(), 'unauthorized');
  assert.equal(await (await paint('red', ['fast', 'slow'])).farewell(), 'unauthorized');
  assert.equal(await (await paint('red', [])).farewell(), 'unauthorized');
  const builder = await stand.worker(tokenOf('builder'), { agentId: 'somebody-important' });
  assert.equal(((await builder.next('SESSION_ACCEPT')) as { peer_id?: string }).peer_id, 'builder');
  const root = await stand.worker(ADMIN, { agentId: 'codex-1' });
  assert.equal(((await root.next('SESSION_ACCEPT')) as { peer_id?: string }).peer_id, 'codex-1');
  assert.deepEqual(peers(stand), ['blue-1', 'builder', 'codex-1']);
});

test('F-96: a link ends when the grant of its token is withdrawn, or the token is', async (t) => {
  const others = named('other', 'roles: [worker]');
  const stand = await startFleet(
    t,
    `${named('builder', 'roles: [worker]')}${named('second', 'roles: [worker]')}${others}`,
  );
  const builder = await stand.worker(tokenOf('builder'), { agentId: 'builder' });
  const second = await stand.worker(tokenOf('second'), { agentId: 'second' });
  const other = await stand.worker(tokenOf('other'), { agentId: 'other' });
  for (const worker of [builder, second, other]) await worker.next('SESSION_ACCEPT');
  await stand.reload(`${named('builder', 'roles: [viewer]')}${others}`);
  assert.equal(await builder.farewell(), 'unauthorized');
  assert.equal(await second.farewell(), 'unauthorized');
  assert.deepEqual(peers(stand), ['other']);
  assert.equal(other.recorder.causes.length, 0);
});

test('F-96: an announce that names a pool beyond the grant ends the link', async (t) => {
  const stand = await startFleet(t, named('w', 'fleet: { worker: [w], pools: [fast] }'));
  const worker = await stand.worker(tokenOf('w'), { agentId: 'w', pools: ['fast'] });
  await worker.next('SESSION_ACCEPT');
  const announce = await new ScriptedWorker({ agentId: 'w' }).announce();
  worker.send({ ...announce, worker: { ...announce.worker, pools: ['fast', 'secret'] } });
  assert.equal(await worker.farewell(), 'unauthorized');
  assert.deepEqual(peers(stand), []);
});
