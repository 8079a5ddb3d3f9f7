/**
 * The cost of one routing decision in a fleet of ten thousand workers, for kinds of tasks that exercise different parts
 * of the router, and the cost of updating the index.
 *
 * Run with `node -C handfast-source bench/fleet-route.ts [workers]`; about ten seconds.
 */
import { DEFAULT_ROUTE_POLICY, type Profile, type RouteTask } from '../src/fleet/route/profile.ts';
import { route } from '../src/fleet/route/route.ts';
import { Router } from '../src/fleet/route/router.ts';
import { sampleProfile, sampleTask } from '../test/fleet/route/samples.ts';

const workers = Number(process.argv[2] ?? 10_000);
const ROUNDS = 3000;
const SERVERS = [
  'context_mode',
  'claude_mem',
  'trek',
  'figma',
  'github',
  'postgres',
  'sentry',
  'slack',
  'jira',
  'maps',
];
const TOOLS = ['terminal', 'file', 'patch', 'browser', 'search'];

/** Returns a small generator (mulberry32), so that every run measures the same fleet. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const plain = sampleProfile({ tools: TOOLS, overhead_tokens: 12_000 });

function mixedWorker(random: () => number, index: number): Profile {
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!;
  const listed = SERVERS.filter((_, at) => random() < (at === 0 ? 0.9 : at < 6 ? 0.5 : 0.05));
  const total = Math.floor(random() * 21);
  return {
    ...plain,
    agent_id: `worker-${index}`,
    verified: random() < 0.95,
    age_s: Math.floor(random() * 950),
    model_tier: pick(['haiku', 'haiku', 'sonnet', 'sonnet', 'sonnet', 'opus', 'unknown']),
    context_window: pick([128_000, 200_000, 200_000, 1_000_000]),
    tools: TOOLS.filter(() => random() < 0.85),
    mcp_servers: listed,
    mcp_health: new Map(listed.map((name) => [name, random() < 0.93 ? 'ok' : 'timeout'])),
    active_tasks: Math.floor(random() * 4),
    max_concurrent: pick([2, 3, 3, 4]),
    repo_state: random() < 0.1 ? null : { branch: 'main', clean: random() < 0.8 },
    session_fresh: pick([true, false, false]),
    context_id: `ctx-${Math.floor(random() * workers)}`,
    overhead_tokens: 9000 + Math.floor(random() * 9000),
    recent_ok: Math.floor(total * Math.sqrt(random())),
    recent_total: total,
    pools: [pick(['a', 'b', 'c'])],
  };
}

const task = sampleTask({ brief_bytes: 4000 });

const asks: readonly (readonly [string, Partial<RouteTask>])[] = [
  ['anything', {}],
  ['anything, urgent', { priority: 'urgent' }],
  [
    'two common servers, two tools, a budget',
    {
      required_mcp: ['context_mode', 'trek'],
      required_capabilities: ['terminal', 'file'],
      token_budget: 14_000,
    },
  ],
  ['an opus with one server', { required_mcp: ['github'], min_tier: 'opus' }],
  ['two rare servers', { required_mcp: ['jira', 'maps'] }],
  ['a server no worker has', { required_mcp: ['nothing'] }],
  ['continuing a conversation', { context_id: 'ctx-17', required_mcp: ['context_mode'] }],
  ['one pool', { pool: 'b', priority: 'low' }],
];

const fleets: readonly (readonly [string, (random: () => number, index: number) => Profile])[] = [
  ['mixed', mixedWorker],
  ['all alike and idle', (_, index) => ({ ...plain, agent_id: `worker-${index}`, age_s: index % 300 })],
  [
    'nearly all busy',
    (random, index) => {
      const worker = mixedWorker(random, index);
      return random() < 0.97 ? { ...worker, active_tasks: worker.max_concurrent ?? 3 } : worker;
    },
  ],
];

/** Returns median and 99th percentile of one call, microseconds. */
function measure(rounds: number, call: (round: number) => void): { p50: number; p99: number } {
  for (let round = 0; round < rounds / 4; round += 1) call(round);
  const took = new Float64Array(rounds);
  for (let round = 0; round < rounds; round += 1) {
    const start = process.hrtime.bigint();
    call(round);
    took[round] = Number(process.hrtime.bigint() - start) / 1000;
  }
  took.sort();
  return { p50: took[rounds >> 1]!, p99: took[Math.floor(rounds * 0.99)]! };
}

const line = (fleet: string, what: string, { p50, p99 }: { p50: number; p99: number }): void => {
  console.log(`${fleet.padEnd(20)} ${what.padEnd(42)} ${p50.toFixed(1).padStart(9)} ${p99.toFixed(1).padStart(9)}`);
};

console.log(`${workers} workers; microseconds a call\n`);
console.log(`${'fleet'.padEnd(20)} ${'task'.padEnd(42)} ${'median'.padStart(9)} ${'p99'.padStart(9)}`);
for (const [name, makeWorker] of fleets) {
  const random = randomFrom(7);
  const profiles = Array.from({ length: workers }, (_, index) => makeWorker(random, index));
  const router = new Router(DEFAULT_ROUTE_POLICY);
  for (const profile of profiles) router.upsert(profile, 0);
  let nowMs = 0;
  for (const [what, changes] of asks) {
    // Budgets and briefs differ from task to task.
    let number = 0;
    const asked = (): RouteTask => {
      number += 1;
      const token_budget = number % 3 === 0 ? null : 9000 + ((number * 7919) % 40_000);
      return { ...task, token_budget, brief_bytes: (number * 104_729) % 60_000, ...changes };
    };
    // Every decision takes a place, as it does in use; the place before last is given back.
    const held: string[] = [];
    const decide = (): void => {
      nowMs += 1;
      const { chosen } = router.decide(asked(), { nowMs, wallMs: nowMs });
      if (chosen === null) return;
      router.reserve(chosen);
      held.push(chosen);
      if (held.length > 500) router.release(held.shift()!);
    };
    line(name, what, measure(ROUNDS, decide));
    for (const agentId of held) router.release(agentId);
  }
  line(
    name,
    '(a worker announces again)',
    measure(ROUNDS, (round) => router.upsert(profiles[round % workers]!, nowMs)),
  );
  const eligible = (): void => void router.eligible({ ...task, required_mcp: ['trek'] }, { nowMs, wallMs: nowMs });
  line(name, '(counting who could take it)', measure(ROUNDS, eligible));
  const kept = { ...task, required_mcp: ['trek'] };
  const decision = router.decide(kept, { nowMs, wallMs: nowMs });
  line(
    name,
    '(writing the explanation)',
    measure(ROUNDS, () => void router.explanation(kept, decision, { nowMs, wallMs: 0 })),
  );
  // As many rounds as the router has where they are short: a function that has run twenty times is not compiled yet.
  const rounds = Math.max(20, Math.min(ROUNDS, Math.round(300_000 / workers)));
  let number = 0;
  line(
    name,
    '(the plain function, anything)',
    measure(rounds, () => {
      number += 1;
      const asked = { ...task, brief_bytes: (number * 104_729) % 60_000 };
      route(asked, profiles, DEFAULT_ROUTE_POLICY, { nowMs: 0 });
    }),
  );
  line(
    name,
    '(the router, anything, nothing reserved)',
    measure(ROUNDS, () => {
      number += 1;
      const asked = { ...task, brief_bytes: (number * 104_729) % 60_000 };
      router.decide(asked, { nowMs, wallMs: nowMs });
    }),
  );
}
