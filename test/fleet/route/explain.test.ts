/**
 * The operator's view of a decision.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explanationTable } from '../../../src/fleet/route/explain.ts';
import { DEFAULT_ROUTE_POLICY, type Profile } from '../../../src/fleet/route/profile.ts';
import { Router } from '../../../src/fleet/route/router.ts';
import { sampleProfile, sampleTask } from './samples.ts';

const profile = (agent_id: string, changes: Partial<Profile> = {}): Profile => sampleProfile({ agent_id, ...changes });

const task = sampleTask({ priority: 'high', required_mcp: ['context_mode'] });

const wallMs = Date.UTC(2026, 5, 1, 12, 10);

/** Replays ten minutes of a fleet: a server has been ill since the third of them, said twice. */
function fleet(): Router {
  const router = new Router(DEFAULT_ROUTE_POLICY);
  const ill = { mcp_health: new Map([['context_mode', 'timeout']]) };
  router.upsert(profile('claude-1'), 0);
  router.upsert(profile('codex-2'), 590_000);
  router.upsert(profile('agy-1', { active_tasks: 3 }), 590_000);
  router.upsert(profile('claude-1', ill), 180_000);
  router.upsert(profile('claude-1', { ...ill, active_tasks: 1 }), 500_000);
  return router;
}

test('a sentence says where a task went, and why not elsewhere, since when', () => {
  const router = fleet();
  const at = { nowMs: 600_000, wallMs };
  const explanation = router.explanation(task, router.decide(task, at), at);
  assert.equal(
    explanation.sentence,
    't-17 → codex-2 (849 of 1000); agy-1 at capacity 3/3; claude-1 left out: context_mode has timed out since 12:03',
  );
  assert.deepEqual(explanation.profile_age_s, { 'agy-1': 10, 'claude-1': 100, 'codex-2': 10 });
  assert.equal(explanation.decided_at, '2026-06-01T12:10:00.000Z');
  assert.equal(explanation.next_attempt_at, null);
  assert.deepEqual(explanation, router.explain(task, at));
});

test('a task that goes nowhere is reported with the reason and the time of the next try', () => {
  const router = fleet();
  const at = { nowMs: 600_000, wallMs, nextAttemptMs: wallMs + 30_000, excluded: new Set(['codex-2']) };
  const explanation = router.explain(task, at);
  assert.equal(explanation.chosen, null);
  assert.match(
    explanation.sentence,
    /^t-17 not routed: no eligible worker; agy-1 at capacity 3\/3; claude-1 left out: /,
  );
  assert.match(explanation.sentence, /codex-2 left out: it refused this task$/);
  assert.equal(explanation.next_attempt_at, '2026-06-01T12:10:30.000Z');
});

test('it is said when nothing was checked', () => {
  const router = new Router(DEFAULT_ROUTE_POLICY);
  router.upsert(profile('old-peer', { verified: false }), 0);
  const { sentence, verified, profile_age_s } = router.explain(task, { nowMs: 0, wallMs });
  assert.equal(sentence, 't-17 → old-peer (475 of 1000), which never announced itself: no requirement was checked');
  assert.equal(verified, false);
  assert.deepEqual(profile_age_s, {});
});

test('in a large fleet an explanation names the best 20 and some that were left out, and counts the others', () => {
  const router = new Router(DEFAULT_ROUTE_POLICY);
  for (let index = 0; index < 200; index += 1) {
    router.upsert(profile(`w-${index}`, index % 2 === 0 ? {} : { mcp_servers: [] }), 0);
  }
  const at = { nowMs: 0, wallMs };
  const short = router.explanation(task, router.decide(task, at), at);
  assert.equal(short.ranking.length, 20);
  assert.equal(Object.keys(short.rejected).length, 10);
  assert.equal(short.rejected_more, 90);
  assert.match(short.sentence, /; 97 more left out$/);
  const nobody = { ...task, required_mcp: ['trek'] };
  const lost = router.explanation(nobody, router.decide(nobody, at), at);
  assert.equal(Object.keys(lost.rejected).length, 50);
  assert.equal(lost.rejected_more, 150);
  const whole = router.explain(task, at);
  assert.equal(whole.ranking.length, 100);
  assert.equal(Object.keys(whole.rejected).length, 100);
  assert.equal(whole.rejected_more, 0);
});

test('a table shows scores and what was left out, aligned', () => {
  const router = fleet();
  const explanation = router.explain(task, { nowMs: 600_000, wallMs, nextAttemptMs: wallMs + 1000 });
  const table = explanationTable({ ...explanation, rejected_more: 7 });
  assert.equal(
    table,
    [
      explanation.sentence,
      '',
      '#  worker   score  tier  load  affinity  reliability  freshness  mcp  repo   age',
      '1  codex-2    849   300   250       100           50         49   50    50  10 s',
      '',
      'left out  reasons',
      'claude-1  unhealthy_mcp:context_mode=timeout',
      'agy-1     at_capacity',
      '… and 7 more',
      '',
      'next attempt at 2026-06-01T12:10:01.000Z',
    ].join('\n'),
  );
});
