/**
 * Effects of learning on routing, and decisions that it never changes.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RouteLearner } from '../../../src/fleet/route/learner.ts';
import { DEFAULT_ROUTE_POLICY, type Profile } from '../../../src/fleet/route/profile.ts';
import { Router } from '../../../src/fleet/route/router.ts';
import { sampleProfile, sampleTask } from './samples.ts';

const at = { nowMs: 0, wallMs: 0 };

function routerOf(profiles: readonly Partial<Profile>[], learner?: RouteLearner): Router {
  const router = new Router(DEFAULT_ROUTE_POLICY, undefined, {}, learner);
  for (const profile of profiles) router.upsert(sampleProfile(profile), 0);
  return router;
}

function counts(router: Router, decisions: number): Record<string, number> {
  const found: Record<string, number> = {};
  for (let round = 0; round < decisions; round++) {
    const { chosen } = router.decide(sampleTask(), at);
    found[chosen ?? ''] = (found[chosen ?? ''] ?? 0) + 1;
  }
  return found;
}

test('among equally suitable workers the one whose attempts succeed gets most tasks, and the record says so', () => {
  const learner = new RouteLearner('test');
  const router = routerOf([{ agent_id: 'a' }, { agent_id: 'b' }], learner);
  for (let attempt = 0; attempt < 20; attempt++) {
    learner.learn('a', attempt % 2 === 0);
    learner.learn('b', true);
  }
  const { a = 0, b = 0 } = counts(router, 200);
  assert.ok(b > 180 && a > 0, `a ${a}, b ${b}`);
  const decision = router.decide(sampleTask(), at);
  assert.equal(decision.chosen, 'b');
  assert.equal(decision.learned?.best_by_score, 'a');
  const { learned, sentence, ranking } = router.explanation(sampleTask(), decision, at);
  assert.deepEqual(learned, decision.learned);
  assert.match(
    sentence,
    /^t-17 → b \(\d+ of 1000\); learning chooses among nearly equal workers \(a 0\.\d\d, b 0\.\d\d\): instead of a, the best by score$/,
  );
  assert.deepEqual(
    ranking.map(({ agent_id }) => agent_id),
    ['a', 'b'],
  );
});

test('an explanation without a decision shows what learning would choose, and draws no number', () => {
  const [asked, silent] = [new RouteLearner('test'), new RouteLearner('test')];
  const routers = [asked, silent].map((learner) => routerOf([{ agent_id: 'a' }, { agent_id: 'b' }], learner));
  const choices = routers.map((router, index) =>
    Array.from({ length: 50 }, () => {
      if (index === 0) {
        const { learned, chosen } = router.explain(sampleTask(), at);
        assert.deepEqual(
          [chosen, learned?.chosen, Object.keys(learned?.probabilities ?? {})],
          ['a', undefined, ['a', 'b']],
        );
      }
      return router.decide(sampleTask(), at).chosen;
    }),
  );
  assert.deepEqual(choices[0], choices[1]);
  assert.equal(new Set(choices[0]).size, 2);
});

test('a worker more than 50 points below the best, or verified unlike it, or left out, is never chosen', () => {
  const learner = new RouteLearner('test');
  const router = routerOf(
    [
      { agent_id: 'best' },
      { agent_id: 'busy', active_tasks: 2 },
      { agent_id: 'stranger', verified: false },
      { agent_id: 'draining', draining: true },
    ],
    learner,
  );
  for (const agentId of ['busy', 'stranger', 'draining']) {
    for (let attempt = 0; attempt < 100; attempt++) learner.learn(agentId, true);
  }
  for (let attempt = 0; attempt < 100; attempt++) learner.learn('best', false);
  assert.deepEqual(counts(router, 100), { best: 100 });
  assert.equal(router.decide(sampleTask(), at).learned, undefined);
});

test('without learning a decision and its record are as they were', () => {
  const router = routerOf([{ agent_id: 'a' }, { agent_id: 'b' }]);
  const decision = router.decide(sampleTask(), at);
  assert.equal(decision.chosen, 'a');
  assert.ok(!('learned' in decision));
  assert.ok(!('learned' in router.explanation(sampleTask(), decision, at)));
});
