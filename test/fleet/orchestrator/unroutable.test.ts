/**
 * Tasks no worker can accept: an obstacle that passes by itself is waited for, any other is reported to an operator, and
 * nothing is ever spent.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleet } from './support/fleet.ts';
import { settle } from './support/virtual-clock.ts';

/** Workers that are still joining have joined by then. */
const SETTLED_MS = 5_001;

test('a requirement no worker has is refused at once, with the reason, and continues when an operator retries it', async (t) => {
  const { bus, clock, orchestrator, kinds } = await fleet(t);
  await bus.worker('plain');
  await clock.advance(SETTLED_MS);
  const { task_id } = await orchestrator.submit({ brief: 'x', required_mcp: ['context-mode'] });
  await settle();
  const { record, result } = await orchestrator.result(task_id, AbortSignal.timeout(20_000));
  assert.deepEqual(
    [record.state, record.parked, record.attempt, record.tokens_spent, result],
    ['blocked', true, 0, 0, null],
  );
  assert.match(record.dead_letter ?? '', /^missing_mcp: .*has no context_mode/);
  assert.equal((await kinds(task_id)).at(-1), 'parked');
  await bus.worker('able', {}, { capabilities: { mcp_servers: ['context_mode'] }, mcp_health: { context_mode: 'ok' } });
  await orchestrator.retry(task_id);
  await settle();
  assert.deepEqual(
    [(await orchestrator.get(task_id)).state, (await orchestrator.get(task_id)).worker],
    ['accepted', 'able'],
  );
});

test('right after the start workers are waited for', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  await bus.worker('plain');
  const { task_id } = await orchestrator.submit({ brief: 'x', required_capabilities: ['browser'] });
  assert.equal(await state(task_id), 'queued');
  await clock.advance(SETTLED_MS);
  assert.equal(await state(task_id), 'blocked');
});

test('a dead server is waited for by the policy, and not longer than until it lives', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const has = { capabilities: { mcp_servers: ['context_mode'] } };
  const worker = await bus.worker('w', {}, { ...has, mcp_health: { context_mode: 'timeout' } });
  await clock.advance(SETTLED_MS);
  const { task_id } = await orchestrator.submit({ brief: 'x', required_mcp: ['context_mode'] });
  assert.equal(await state(task_id), 'queued');
  const waiting = await orchestrator.get(task_id);
  assert.deepEqual([waiting.retries, waiting.not_before], [1, clock.now() + 30_000]);
  await worker.announce({ ...has, mcp_health: { context_mode: 'ok' } });
  assert.equal(await state(task_id), 'accepted');
});

test('a server that stays dead ends in a task that waits for an operator', async (t) => {
  const { bus, clock, orchestrator } = await fleet(t);
  const announce = { capabilities: { mcp_servers: ['context_mode'] }, mcp_health: { context_mode: 'timeout' } };
  const worker = await bus.worker('w', {}, announce);
  await clock.advance(SETTLED_MS);
  const { task_id } = await orchestrator.submit({ brief: 'x', required_mcp: ['context_mode'] });
  for (const seconds of [30, 120, 480]) {
    await clock.advance(seconds * 1000 + 1);
    await worker.announce(announce);
    await settle();
  }
  const { parked, retries, dead_letter } = await orchestrator.get(task_id);
  assert.deepEqual([parked, retries], [true, 3]);
  assert.match(dead_letter ?? '', /^unhealthy_mcp: /);
});

test('a fleet that is only full keeps its tasks', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', {}, { worker: { agent_id: 'w', max_concurrent: 1 } });
  await clock.advance(SETTLED_MS);
  const first = await orchestrator.submit({ brief: 'x' });
  const second = await orchestrator.submit({ brief: 'x' });
  assert.deepEqual([await state(first.task_id), await state(second.task_id)], ['accepted', 'queued']);
  await worker.report(first.task_id, 'done', {}, 1);
  assert.equal(await state(second.task_id), 'accepted');
});
