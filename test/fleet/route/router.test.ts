/**
 * The indexed router gives the same answers as the plain function, after any changes of the fleet.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  DEFAULT_ROUTE_POLICY,
  type Profile,
  type RouteHooks,
  type RoutePolicy,
  type RouteTask,
} from '../../../src/fleet/route/profile.ts';
import { route } from '../../../src/fleet/route/route.ts';
import { Router } from '../../../src/fleet/route/router.ts';
import fc from '../../support/properties.ts';
import { anyAgentId, anyLargeFleet, anyPolicy, anyProfile, anyTask } from './fleets.ts';
import { sampleProfile, sampleTask } from './samples.ts';

type Step =
  | { readonly do: 'upsert'; readonly profile: Profile }
  | { readonly do: 'remove' | 'reserve' | 'release'; readonly agentId: string }
  | { readonly do: 'again'; readonly agentId: string; readonly change: Partial<Profile> }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'decide'; readonly task: RouteTask; readonly excluded: readonly string[] };

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('upsert' as const), profile: anyProfile }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('again' as const),
      agentId: anyAgentId,
      change: fc
        .record(
          {
            age_s: fc.constantFrom(0, 30, 44),
            active_tasks: fc.integer({ min: 0, max: 3 }),
            // Both change together: more successes than outcomes do not occur.
            recent: fc.constantFrom({ recent_ok: 0, recent_total: 5 }, { recent_ok: 5, recent_total: 5 }),
            draining: fc.boolean(),
            ttl_s: fc.constantFrom(45, 300),
            context_id: fc.constantFrom('ctx-1', null),
          },
          { requiredKeys: [] },
        )
        .map(({ recent, ...change }) => ({ ...change, ...recent })),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), agentId: anyAgentId }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom('reserve' as const, 'release' as const), agentId: anyAgentId }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 400_000 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('decide' as const),
      task: anyTask,
      excluded: fc.array(anyAgentId, { maxLength: 3 }),
    }),
  },
);

/** The same fleet without any index. */
class PlainFleet {
  readonly known = new Map<string, { profile: Profile; atMs: number }>();

  change(agentId: string, by: number): void {
    const found = this.known.get(agentId);
    if (found === undefined || found.profile.outstanding + by < 0) return;
    found.profile = { ...found.profile, outstanding: found.profile.outstanding + by };
  }

  at(nowMs: number): Profile[] {
    return [...this.known.values()].map(({ profile, atMs }) => {
      return profile.verified ? { ...profile, age_s: profile.age_s + (nowMs - atMs) / 1000 } : profile;
    });
  }
}

function same(
  router: Router,
  plain: PlainFleet,
  policy: RoutePolicy,
  hooks: RouteHooks | undefined,
  steps: Step[],
): void {
  let nowMs = 1_000_000;
  for (const step of steps) {
    if (step.do === 'upsert') {
      router.upsert(step.profile, nowMs);
      plain.known.set(step.profile.agent_id, { profile: step.profile, atMs: nowMs });
    } else if (step.do === 'again') {
      const known = plain.known.get(step.agentId);
      if (known === undefined) continue;
      // The same lists and maps, as of a worker that only says that it is still there.
      const profile = { ...known.profile, ...step.change };
      router.upsert(profile, nowMs);
      plain.known.set(step.agentId, { profile, atMs: nowMs });
    } else if (step.do === 'remove') {
      assert.equal(router.remove(step.agentId), plain.known.delete(step.agentId));
    } else if (step.do === 'wait') nowMs += step.ms;
    else if (step.do === 'decide') {
      const excluded = new Set(step.excluded);
      const expected = route(step.task, plain.at(nowMs), policy, { nowMs, excluded, hooks });
      const { rejected_more, ...decided } = router.decide(step.task, { nowMs, wallMs: nowMs, excluded });
      const rejectedCount = Object.keys(expected.rejected ?? {}).length;
      const whole = expected.chosen === null ? [] : expected.ranking;
      // The router may choose which of many workers it names as left out; its facts about them must be right.
      const rejected = Object.entries(decided.rejected ?? {});
      for (const [agentId, reasons] of rejected) assert.deepEqual(reasons, expected.rejected?.[agentId]);
      const named = rejectedCount <= 50 ? rejectedCount : expected.chosen === null ? 50 : 10;
      assert.equal(rejected.length, named);
      const best = expected.chosen === null ? {} : { ranking: whole.slice(0, 20) };
      assert.deepEqual({ ...decided, rejected: {} }, { ...expected, rejected: {}, ...best });
      assert.equal(rejected_more, rejectedCount - named);
      assert.equal(router.eligible(step.task, { nowMs, wallMs: nowMs, excluded }), whole.length);
    } else {
      const by = step.do === 'reserve' ? 1 : -1;
      router[step.do](step.agentId);
      plain.change(step.agentId, by);
    }
  }
  assert.equal(router.size, plain.known.size);
}

const manySteps = fc.array(anyStep, { minLength: 10, maxLength: 90, size: 'max' });

/** Only walks, however far. */
const walking = { checkEachUpTo: 0, scoreEachUpTo: 0, minChecks: Number.POSITIVE_INFINITY };

for (const [how, ways] of [
  ['checking small fleets one by one', {}],
  ['scoring eligible workers one by one', { checkEachUpTo: 0, scoreEachUpTo: 512 }],
  ['walking cells', walking],
  ['giving up walks', { checkEachUpTo: 0, scoreEachUpTo: 0 }],
] as const) {
  test(`a decision by ${how} is the one of the plain function after any history`, () => {
    fc.assert(
      fc.property(anyPolicy, manySteps, (policy, steps) => {
        same(new Router(policy, undefined, ways), new PlainFleet(), policy, undefined, steps);
      }),
      { numRuns: 200 },
    );
  });
}

test('in fleets larger than a ranking the best are found without looking at the rest', () => {
  fc.assert(
    fc.property(
      anyPolicy,
      anyLargeFleet,
      fc.array(anyStep, { maxLength: 12 }),
      anyTask,
      (policy, fleet, more, task) => {
        const easy = { ...task, required_mcp: [], only: null, pool: null, min_context_window: null, brief_bytes: 10 };
        const joins = fleet.map((profile): Step => ({ do: 'upsert', profile }));
        const steps = [...joins, ...more, { do: 'decide' as const, task: easy, excluded: [] }];
        same(new Router(policy, undefined, walking), new PlainFleet(), policy, undefined, steps);
      },
    ),
    { numRuns: 100 },
  );
});

test('hooks leave workers out and move others, in both alike', () => {
  const hooks: RouteHooks = {
    reject: (task, { model_tier }) => (task.priority === 'low' && model_tier === 'opus' ? ['hook:too dear'] : []),
    prefer: (_, { pools }) => (pools.includes('a') ? 400 : pools.includes('b') ? -1000 : 0),
  };
  fc.assert(
    fc.property(anyPolicy, manySteps, (policy, steps) => {
      same(new Router(policy, hooks), new PlainFleet(), policy, hooks, steps);
    }),
    { numRuns: 60 },
  );
});

const worker = (agent_id: string, changes: Partial<Profile> = {}): Profile =>
  sampleProfile({ agent_id, mcp_servers: [], mcp_health: new Map(), ...changes });

const plainTask = sampleTask();

test('a thousand workers are ranked as the plain function ranks them, by both ways of looking', () => {
  const profiles = Array.from({ length: 1500 }, (_, index) =>
    worker(`w-${index}`, {
      model_tier: ['haiku', 'sonnet', 'opus', 'unknown'][index % 4]!,
      age_s: (index * 37) % 1000,
      active_tasks: index % 4,
      recent_ok: index % 7,
      recent_total: 7,
      overhead_tokens: 9000 + (index % 50),
      verified: index % 11 !== 0,
    }),
  );
  for (const priority of ['low', 'normal', 'urgent'] as const) {
    const task = { ...plainTask, priority, token_budget: 9040 };
    const expected = route(task, profiles, DEFAULT_ROUTE_POLICY, { nowMs: 0 });
    assert.ok(expected.chosen !== null);
    for (const ways of [walking, { scoreEachUpTo: 0 }, { scoreEachUpTo: 5000 }]) {
      const router = new Router(DEFAULT_ROUTE_POLICY, undefined, ways);
      for (const profile of profiles) router.upsert(profile, 0);
      const decided = router.decide(task, { nowMs: 0, wallMs: 0 });
      assert.ok(decided.chosen !== null);
      assert.deepEqual(decided.ranking, expected.ranking.slice(0, 20));
      assert.equal(Object.keys(decided.rejected).length, 10);
      for (const [agentId, reasons] of Object.entries(decided.rejected)) {
        assert.deepEqual(reasons, expected.rejected[agentId]);
      }
      assert.equal(decided.rejected_more, Object.keys(expected.rejected).length - 10);
    }
  }
});

test('of two that are alike but for their tier the cheaper one is taken', () => {
  // One rank below and five above the tier of a normal task earn the same.
  const policy = { ...DEFAULT_ROUTE_POLICY, tiers: new Map([['gem', 7]]) };
  const order = (first: Profile, second: Profile): string | null => {
    const routes = [walking, { checkEachUpTo: 0, scoreEachUpTo: 5000 }, {}].map((ways) => {
      const router = new Router(policy, undefined, ways);
      for (const profile of [first, second]) router.upsert(profile, 0);
      return router.decide(plainTask, { nowMs: 0, wallMs: 0 }).chosen;
    });
    assert.equal(routes[0], routes[1]);
    assert.equal(routes[0], routes[2]);
    assert.equal(routes[0], route(plainTask, [first, second], policy, { nowMs: 0 }).chosen);
    return routes[0]!;
  };
  assert.equal(order(worker('a', { model_tier: 'gem' }), worker('b', { model_tier: 'haiku' })), 'b');
});

test('a requirement seen before is held against workers that join or change later', () => {
  const router = new Router(DEFAULT_ROUTE_POLICY);
  const at = { nowMs: 0, wallMs: 0 };
  const task = { ...plainTask, required_mcp: ['trek'], brief_bytes: 2000, token_budget: 5000 };
  assert.equal(router.decide(task, at).chosen, null);
  router.upsert(worker('ill', { mcp_servers: ['trek'], mcp_health: new Map([['trek', 'error']]) }), 0);
  assert.equal(router.decide(task, at).chosen, null);
  router.upsert(worker('well', { mcp_servers: ['trek'], mcp_health: new Map([['trek', 'ok']]) }), 0);
  assert.equal(router.decide(task, at).chosen, 'well');
  router.upsert(worker('well', { ...trek, context_window: 900 }), 0);
  assert.equal(router.decide(task, at).chosen, null);
  router.upsert(worker('well', { ...trek, context_window: 1000 }), 0);
  assert.equal(router.decide(task, at).chosen, 'well');
  router.upsert(worker('well', { ...trek, overhead_tokens: 5001 }), 0);
  assert.equal(router.decide(task, at).chosen, null);
});

const trek = { mcp_servers: ['trek'], mcp_health: new Map([['trek', 'ok']]) };

test('a worker is full while dispatches are on their way to it, and gone when its description is too old', () => {
  const router = new Router(DEFAULT_ROUTE_POLICY);
  router.upsert(worker('one', { max_concurrent: 1 }), 0);
  assert.equal(router.eligible(plainTask, { nowMs: 0, wallMs: 0 }), 1);
  assert.ok(router.reserve('one'));
  assert.deepEqual(router.decide(plainTask, { nowMs: 0, wallMs: 0 }).rejected, { one: ['at_capacity'] });
  assert.ok(router.release('one'));
  assert.equal(router.release('one'), false);
  assert.equal(router.decide(plainTask, { nowMs: 899_999, wallMs: 0 }).chosen, 'one');
  assert.deepEqual(router.decide(plainTask, { nowMs: 900_000, wallMs: 0 }).rejected, { one: ['profile_expired'] });
  assert.equal(router.reserve('two'), false);
});

test('nothing is routed when the deadline has passed or is too close', () => {
  const router = new Router(DEFAULT_ROUTE_POLICY);
  router.upsert(worker('one'), 0);
  const reasonAt = (wallMs: number) => {
    const decision = router.decide({ ...plainTask, deadlineMs: 100_000 }, { nowMs: 0, wallMs });
    return decision.chosen === null ? decision.reason : decision.chosen;
  };
  assert.equal(reasonAt(70_000), 'one');
  assert.equal(reasonAt(70_001), 'deadline_too_close');
  assert.equal(reasonAt(100_000), 'deadline_passed');
});
