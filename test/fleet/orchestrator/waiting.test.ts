/**
 * Waits of a task that no worker can accept now: workers that are describing themselves, and workers that are away.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inProcessBus } from '../../../src/fleet/bus/in-process.ts';
import { createOrchestrator } from '../../../src/fleet/orchestrator/orchestrator.ts';
import { memoryTaskStore } from '../../../src/fleet/orchestrator/store-memory.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { fleet, quiet } from './support/fleet.ts';
import { type ScriptedBus, ScriptedPeer } from './support/scripted-bus.ts';
import { settle } from './support/virtual-clock.ts';

/** Workers that are still joining have joined by then. */
const SETTLED_MS = 5_001;
/** Time that an absent worker still counts, milliseconds. */
const AWAY_MS = 60_000;

const ABLE = { capabilities: { mcp_servers: ['context_mode'] }, mcp_health: { context_mode: 'ok' } };
const NEEDS = { brief: 'x', required_mcp: ['context_mode'] };

/** Makes a peer of the configuration that has not answered yet. */
function unreachable(bus: ScriptedBus, peerId: string): ScriptedPeer {
  const peer = new ScriptedPeer(bus, peerId, { structured: false, features: [] });
  peer.reachable = false;
  peer.join();
  return peer;
}

test('a worker that has come and not described itself yet gets nothing that it was not asked about', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = bus.bare('w');
  const needy = await orchestrator.submit(NEEDS);
  const plain = await orchestrator.submit({ brief: 'x' });
  await clock.advance(SETTLED_MS);
  assert.deepEqual([await state(needy.task_id), await state(plain.task_id)], ['queued', 'queued']);
  assert.equal(worker.dispatches.length, 0);
  assert.equal(orchestrator.workers()[0]?.status, 'joining');
  const { explanation } = await orchestrator.get(needy.task_id);
  assert.deepEqual(explanation?.rejected, { w: ['joining'] });
  assert.match(explanation?.sentence ?? '', /; w left out: has not announced itself yet$/);
  await worker.announce();
  assert.deepEqual([await state(needy.task_id), await state(plain.task_id)], ['blocked', 'accepted']);
  assert.match((await orchestrator.get(needy.task_id)).dead_letter ?? '', /^missing_mcp: .*has no context_mode/);
  assert.equal(worker.dispatches.length, 1);
});

test('one that never describes itself is a last resort after a while', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  bus.bare('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await clock.advance(9_999);
  assert.equal(await state(task_id), 'queued');
  await clock.advance(1);
  assert.equal(await state(task_id), 'accepted');
  assert.equal(orchestrator.workers()[0]?.status, 'unverified');
});

test('one that does not speak messages is not waited for', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  bus.bare('w', { structured: false, features: [] });
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(task_id), 'accepted');
});

test('a task of an earlier process waits until the worker of this one has described itself', async (t) => {
  const store = memoryTaskStore();
  const before = await fleet(t, { store });
  const { task_id } = await before.orchestrator.submit({ ...NEEDS, required_capabilities: ['browser'] });
  await before.orchestrator.close();
  const asked = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  class SlowWorker extends ScriptedWorker {
    override async announce(contextId: string | null = null) {
      asked.resolve();
      await gate.promise;
      return super.announce(contextId);
    }
  }
  const worker = new SlowWorker();
  const orchestrator = createOrchestrator({
    name: 'test',
    store,
    journal: memoryJournal(),
    buses: [inProcessBus([worker])],
    log: quiet,
    joinGraceMs: 0,
  });
  t.after(() => orchestrator.close());
  const started = orchestrator.start();
  await asked.promise;
  await settle();
  assert.equal((await orchestrator.get(task_id)).state, 'queued');
  gate.resolve();
  await started;
  const { record } = await orchestrator.result(task_id, AbortSignal.timeout(20_000));
  assert.deepEqual([record.parked, record.attempt, worker.begun], [true, 0, []]);
});

test('a peer that does not answer is waited for, which is said, and after a while it does not count', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  unreachable(bus, 'old');
  await bus.worker('plain', {}, { session: { ttl_s: 10_000 } });
  await clock.advance(SETTLED_MS);
  const { task_id } = await orchestrator.submit(NEEDS);
  assert.equal(await state(task_id), 'queued');
  const { explanation } = await orchestrator.get(task_id);
  assert.equal(explanation?.waits_for, 'old');
  assert.match(
    explanation?.sentence ?? '',
    /no eligible worker; waits until 12:01 for old, unreachable since 12:00; plain left out: has no context_mode$/,
  );
  assert.equal(orchestrator.workers()[0]?.status, 'unreachable');
  await clock.advance(AWAY_MS - SETTLED_MS - 1);
  assert.equal(await state(task_id), 'queued');
  await clock.advance(1);
  const { parked, dead_letter, explanation: last } = await orchestrator.get(task_id);
  assert.equal(parked, true);
  assert.match(dead_letter ?? '', /^missing_mcp: .*old left out: does not respond/);
  assert.equal(last?.waits_for, undefined);
  const later = await orchestrator.submit(NEEDS);
  assert.equal(await state(later.task_id), 'blocked', 'nor for any later task');
});

test('a worker that went is waited for as it last described itself', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  await bus.worker('plain', {}, { session: { ttl_s: 10_000 } });
  const able = await bus.worker('able', {}, ABLE);
  const unable = await bus.worker('unable');
  await clock.advance(SETTLED_MS);
  able.leave();
  unable.leave();
  const { task_id } = await orchestrator.submit(NEEDS);
  const hopeless = await orchestrator.submit({ brief: 'x', required_mcp: ['rare'] });
  assert.deepEqual([await state(task_id), await state(hopeless.task_id)], ['queued', 'blocked']);
  assert.equal((await orchestrator.get(task_id)).explanation?.waits_for, 'able');
  await clock.advance(AWAY_MS / 2);
  able.incarnation = 'second';
  able.join();
  await able.announce(ABLE);
  assert.equal(await state(task_id), 'accepted');
});

test('a task that waits for a busy worker hears of it when that goes and does not come back', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  await bus.worker('plain', {}, { session: { ttl_s: 10_000 } });
  const able = await bus.worker('able', {}, { ...ABLE, worker: { max_concurrent: 1 } });
  await clock.advance(SETTLED_MS);
  await orchestrator.submit(NEEDS);
  const { task_id } = await orchestrator.submit(NEEDS);
  assert.equal(await state(task_id), 'queued');
  assert.equal((await orchestrator.get(task_id)).explanation?.waits_for, undefined, 'it is here');
  able.leave();
  await settle();
  assert.equal((await orchestrator.get(task_id)).explanation?.waits_for, 'able');
  await clock.advance(AWAY_MS);
  assert.match((await orchestrator.get(task_id)).dead_letter ?? '', /^missing_mcp: /);
});

test('a busy worker is waited for before one that is away', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  unreachable(bus, 'old');
  const busy = await bus.worker('busy', {}, { worker: { max_concurrent: 1 }, session: { ttl_s: 10_000 } });
  await clock.advance(SETTLED_MS);
  const first = await orchestrator.submit({ brief: 'x' });
  const second = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(second.task_id), 'queued');
  const { explanation } = await orchestrator.get(second.task_id);
  assert.equal(explanation?.waits_for, undefined);
  assert.match(explanation?.sentence ?? '', /busy at capacity 1\/1; old left out: does not respond$/);
  await busy.report(first.task_id, 'done', {}, 1);
  assert.equal(await state(second.task_id), 'accepted');
});

test('a task that waits for any worker is refused when one has come that cannot take it', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  await clock.advance(SETTLED_MS);
  const { task_id } = await orchestrator.submit(NEEDS);
  assert.equal(await state(task_id), 'queued');
  assert.match(
    (await orchestrator.get(task_id)).explanation?.sentence ?? '',
    /no eligible worker; no worker is connected$/,
  );
  await bus.worker('plain');
  assert.equal(await state(task_id), 'blocked');
});

test('where a worker is named, no other is mentioned', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const named = await bus.worker('named');
  for (const name of ['one', 'two']) await bus.worker(name, {}, { session: { ttl_s: 10_000 } });
  await clock.advance(SETTLED_MS);
  const { task_id } = await orchestrator.submit({ ...NEEDS, worker: 'named' });
  assert.equal(await state(task_id), 'blocked');
  const { explanation, dead_letter } = await orchestrator.get(task_id);
  assert.deepEqual([explanation?.rejected, explanation?.rejected_more], [{ named: ['missing_mcp:context_mode'] }, 0]);
  assert.match(dead_letter ?? '', /^missing_mcp: .*; named left out: has no context_mode$/);
  assert.deepEqual((await orchestrator.explain(task_id)).rejected, { named: ['missing_mcp:context_mode'] });
  const fits = await orchestrator.explain({ brief: 'x', worker: 'named' });
  assert.deepEqual([fits.chosen, fits.rejected], ['named', {}]);
  named.leave();
  const other = await orchestrator.submit({ brief: 'x', worker: 'named' });
  assert.equal(await state(other.task_id), 'queued');
  await clock.advance(AWAY_MS);
  assert.match(
    (await orchestrator.get(other.task_id)).dead_letter ?? '',
    /^unreachable: .*; named left out: unreachable since 12:00$/,
  );
});

test('an unknown worker parks its task, with the known names', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  for (const name of ['two', 'one']) await bus.worker(name, {}, { session: { ttl_s: 10_000 } });
  const { task_id } = await orchestrator.submit({ brief: 'x', worker: 'clade-1' });
  assert.equal(await state(task_id), 'queued', 'it may be about to join');
  await clock.advance(SETTLED_MS);
  const { parked, dead_letter, explanation } = await orchestrator.get(task_id);
  assert.equal(parked, true);
  assert.deepEqual(explanation?.rejected, {});
  const sentence = `${task_id} not routed: no worker is named clade-1; known: one, two`;
  assert.deepEqual([explanation?.sentence, dead_letter], [sentence, `unknown_worker: ${sentence}`]);
  assert.equal((await orchestrator.explain(task_id)).sentence, sentence);
  await bus.worker('clade-1');
  await orchestrator.retry(task_id);
  assert.equal(await state(task_id), 'accepted');
});

test('a tier that neither the policy nor a worker knows is refused at once, with those there are', async (t) => {
  const { bus, orchestrator, state } = await fleet(t, { routePolicy: { tiers: new Map([['gemini_flash', 1.5]]) } });
  await bus.worker('w', {}, { worker: { agent_id: 'w', model_tier: 'house-blend' } });
  await bus.worker('nameless', {}, { worker: { agent_id: 'nameless', model_tier: 'unknown' } });
  const unknown = {
    code: 'schema_violation',
    message: 'no tier is named gold; known: haiku, gemini_flash, sonnet, opus, house_blend',
    detail: { path: '/requirements/min_tier' },
  };
  const spec = { brief: 'x', min_tier: 'Gold' };
  await assert.rejects(orchestrator.submit(spec), unknown);
  await assert.rejects(orchestrator.submitBatch([{ brief: 'x' }, spec]), unknown);
  await assert.rejects(orchestrator.explain(spec), unknown);
  await assert.rejects(orchestrator.submit({ brief: 'x', min_tier: 'unknown' }), { code: 'schema_violation' });
  assert.equal(orchestrator.counts().open, 0);
  for (const min_tier of ['gemini-flash', 'house-blend', 'opus']) {
    assert.equal(await state((await orchestrator.submit({ brief: 'x', min_tier })).task_id), 'queued');
  }
});

test('what one gives back goes to who is about to describe itself, and not into a long wait', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const restarted = await bus.worker('w-1');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await settle();
  const coming = bus.bare('w-2');
  await restarted.refuse(task_id, 'draining', true);
  assert.equal(await state(task_id), 'queued');
  const { reroutes, retries, not_before } = await orchestrator.get(task_id);
  assert.deepEqual([reroutes, retries, not_before], [1, 0, null]);
  await coming.announce();
  await clock.advance(200);
  assert.equal(await state(task_id), 'accepted');
  assert.equal((await orchestrator.get(task_id)).worker, 'w-2');
});

test('what a worker gives back because it was started again goes to it at once, where there is no other', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await settle();
  worker.incarnation = 'second';
  await worker.announce();
  await worker.refuse(task_id, 'draining', true, 1);
  await clock.advance(200);
  assert.equal(await state(task_id), 'accepted');
  const { attempt, reroutes, retries } = await orchestrator.get(task_id);
  assert.deepEqual([attempt, reroutes, retries], [2, 1, 0]);
});
