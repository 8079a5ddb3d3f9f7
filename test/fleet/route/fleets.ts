/** Random workers and tasks for the tests of routing: few names and values, so that they often meet and often tie. */

import type { Profile, RoutePolicy, RouteTask } from '../../../src/fleet/route/profile.ts';
import fc from '../../support/properties.ts';

const servers = ['context_mode', 'trek', 'figma', 'constructor'];
const tools = ['terminal', 'file', 'browser'];
const contexts = ['ctx-1', 'ctx-2'];
const healths = ['ok', 'ok', 'ok', 'timeout', 'error'];

const some = <T>(values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values);
const orNull = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(arbitrary, { nil: null, freq: 3 });

export const agentIds = Array.from({ length: 40 }, (_, index) => `w-${index}`);

export const anyAgentId = some(agentIds);

export const anyProfile: fc.Arbitrary<Profile> = fc
  .record({
    agent_id: anyAgentId,
    verified: some([true, true, true, false]),
    age_s: some([0, 0.5, 10, 17, 44, 45, 300, 800, 900, 1200]),
    model_tier: some(['haiku', 'sonnet', 'opus', 'unknown', 'gem']),
    context_window: orNull(some([1500, 128_000, 200_000])),
    tools: fc.subarray(tools, { minLength: 1 }),
    mcp_servers: fc.subarray(servers),
    health: fc.array(some(healths), { minLength: servers.length, maxLength: servers.length }),
    active_tasks: fc.integer({ min: 0, max: 3 }),
    max_concurrent: orNull(fc.integer({ min: 1, max: 4 })),
    repo_state: orNull(fc.record({ branch: fc.constant('main'), clean: fc.boolean() })),
    session_fresh: orNull(fc.boolean()),
    context_id: orNull(some(contexts)),
    overhead_tokens: orNull(some([0, 9000, 15_000])),
    recent_ok: fc.integer({ min: 0, max: 4 }),
    failed: fc.integer({ min: 0, max: 4 }),
    outstanding: fc.integer({ min: 0, max: 1 }),
    busy_contexts: fc.subarray(contexts, { maxLength: 1 }),
    circuit: some(['closed', 'closed', 'closed', 'open'] as const),
    draining: some([false, false, false, true]),
    reachable: some([true, true, false]),
    ttl_s: orNull(some([45, 300])),
    pools: fc.subarray(['a', 'b']),
  })
  .map(({ health, failed, ...rest }) => ({
    ...rest,
    recent_total: rest.recent_ok + failed,
    mcp_health: new Map(rest.mcp_servers.map((name) => [name, health[servers.indexOf(name)]!])),
  }));

/** Many workers that are much alike, most of which could take a task: more than a ranking holds. */
export const anyLargeFleet: fc.Arbitrary<Profile[]> = fc
  .array(anyProfile, { minLength: 60, maxLength: 120, size: 'max' })
  .map((profiles) =>
    profiles.map((profile, index) => ({
      ...profile,
      agent_id: `w-${index}`,
      draining: index % 17 === 0,
      circuit: 'closed',
      reachable: true,
      max_concurrent: 4,
      outstanding: 0,
      ttl_s: index % 5 === 0 ? 900 : 1300,
      recent_ok: 0,
      recent_total: 0,
      mcp_servers: [],
      repo_state: null,
      session_fresh: true,
    })),
  );

export const anyTask: fc.Arbitrary<RouteTask> = fc.record({
  task_id: fc.constant('t'),
  priority: some(['low', 'normal', 'high', 'urgent'] as const),
  token_budget: orNull(some([1, 4000, 9000, 20_000])),
  required_mcp: fc.subarray(servers, { maxLength: 2 }),
  required_capabilities: fc.subarray(tools, { maxLength: 2 }),
  deadlineMs: orNull(fc.integer({ min: 1_000_000, max: 3_000_000 })),
  brief_bytes: some([10, 2996, 3004, 300_000]),
  min_tier: fc.option(some(['sonnet', 'opus', 'gem', 'nonsense']), { nil: null, freq: 1 }),
  min_context_window: fc.option(some([1000, 150_000]), { nil: null, freq: 1 }),
  access: some(['read', 'write'] as const),
  context_id: orNull(some(contexts)),
  pool: fc.option(some(['a', 'b']), { nil: null, freq: 1 }),
  only: fc.option(anyAgentId, { nil: null, freq: 1 }),
});

export const anyPolicy: fc.Arbitrary<RoutePolicy> = fc.record({
  policy_id: fc.constant('test'),
  ttl_s: some([45, 900]),
  default_max_concurrent: some([1, 3]),
  min_lead_s: fc.constant(30),
  unverified: some(['last_resort', 'never', 'allow'] as const),
  tiers: some([new Map<string, number>(), new Map([['gem', 2]]), new Map([['gem', 7]])]),
});
