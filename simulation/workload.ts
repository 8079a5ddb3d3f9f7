/**
 * The tasks of a simulation: their arrival, requirements, duration and cost. Both contenders get the same ones.
 */

import type { FullSpec } from '../src/fleet/orchestrator/task-record.ts';
import type { RouteTask } from '../src/fleet/route/profile.ts';
import type { Priority } from '../src/protocol/fleet.ts';
import type { Random } from './random.ts';
import type { Setting } from './setting.ts';

/** Virtual time 0 as a date. */
export const EPOCH_MS = Date.UTC(2026, 5, 1, 12);

export interface SimTask {
  readonly number: number;
  readonly task_id: string;
  readonly arrivalMs: number;
  readonly spec: FullSpec;
  readonly route: RouteTask;
  /** Tier it needs: a lower one takes longer and spends more. */
  readonly rank: number;
  /** At a worker of that tier, beside the cost of any turn. */
  readonly runMs: number;
  readonly tokens: number;
  /** Kills the process that runs it. */
  readonly poison: boolean;
  /** Fails by itself. */
  readonly failing: boolean;
  /** Time after its arrival at which it is cancelled; null: never. */
  readonly cancelAfterMs: number | null;
}

export const SERVERS = ['context_mode', 'claude_mem', 'trek', 'github', 'postgres', 'figma', 'sentry', 'jira'];
/** Share of tasks that need each of them. */
const SERVER_DEMAND = [0.3, 0.12, 0.08, 0.12, 0.06, 0.03, 0.03, 0.03];
export const TOOLS = ['terminal', 'file', 'patch', 'browser'];
export const POOLS = ['main', 'research'];

const PRIORITIES: readonly (readonly [Priority, number])[] = [
  ['urgent', 0.05],
  ['high', 0.2],
  ['normal', 0.5],
  ['low', 0.25],
];
/** Demand moves around its average in waves of this length, by this much. */
const WAVE_MS = 20 * 60_000;
const WAVE = 0.45;

/** Yields tasks in the order of their arrival. `capacity`: turns the fleet can run at once. */
export function* tasksOf(setting: Setting, random: Random, capacity: number): Generator<SimTask> {
  const { tasks, load, runMs } = setting;
  // Queues, retries and lower tiers take their part of the capacity.
  const perMs = (load * capacity) / runMs;
  let atMs = 0;
  for (let number = 1; number <= tasks; number += 1) {
    const wave = 1 + WAVE * Math.sin((2 * Math.PI * atMs) / WAVE_MS);
    atMs += -Math.log(1 - random.next()) / (perMs * wave);
    yield taskOf(setting, random, number, Math.round(atMs));
  }
}

function taskOf(
  { runMs, canceled, retrySafe, faults }: Setting,
  random: Random,
  number: number,
  arrivalMs: number,
): SimTask {
  const task_id = `t-${number}`;
  const priority = priorityOf(random.next());
  const rank = priority === 'urgent' ? 3 : priority === 'low' ? 1 : 2;
  const required_mcp = SERVERS.filter((_, at) => random.chance(SERVER_DEMAND[at]!));
  const required_capabilities = TOOLS.filter((_, at) => random.chance(at < 2 ? 0.6 : 0.1));
  const duration = random.around(runMs * 0.9) + runMs * 0.1;
  const tokens = Math.round(2000 + duration * 0.4 * (0.5 + random.next()));
  const budgeted = random.next();
  // Most budgets are ample, some run out, a few would not pay for an empty turn.
  const budget =
    budgeted < 0.4 ? null : budgeted < 0.41 ? 5000 : Math.round((20_000 + tokens) * (0.6 + 2 * random.next()));
  const deadlineMs = random.chance(0.3)
    ? EPOCH_MS + arrivalMs + 5 * duration + random.around(20 * 60_000) + 60_000
    : null;
  const min_tier = random.chance(0.06) ? 'sonnet' : random.chance(0.02) ? 'opus' : null;
  const min_context_window = random.chance(0.03) ? 150_000 : null;
  const access = required_capabilities.includes('browser') || random.chance(0.2) ? 'read' : 'write';
  const context_id = random.chance(0.15) ? `ctx-${random.below(Math.max(2, Math.floor(number / 4) + 1))}` : null;
  const pool = random.chance(0.08) ? random.pick(POOLS) : null;
  const spec: FullSpec = {
    brief: 'Do what was asked.',
    priority,
    reply_schema: 'structured',
    answer_schema: null,
    token_budget: budget,
    required_mcp,
    required_capabilities,
    min_tier,
    min_context_window,
    access,
    worktree: false,
    environment_capabilities: null,
    environment_tools: null,
    deadline: deadlineMs === null ? null : new Date(Math.round(deadlineMs)).toISOString(),
    context_id,
    retry_safe: random.chance(retrySafe),
    after: [],
    parent_task_id: null,
    pool,
    worker: null,
    batch: null,
  };
  const route: RouteTask = {
    task_id,
    priority,
    token_budget: budget,
    required_mcp,
    required_capabilities,
    deadlineMs: deadlineMs === null ? null : Math.round(deadlineMs),
    brief_bytes: random.around(6000),
    min_tier,
    min_context_window,
    access,
    context_id,
    pool,
    only: null,
  };
  return {
    number,
    task_id,
    arrivalMs,
    spec,
    route,
    rank: Math.max(rank, min_tier === 'opus' ? 3 : min_tier === 'sonnet' ? 2 : 1),
    runMs: Math.round(duration),
    tokens,
    poison: random.chance(faults.poison),
    failing: random.chance(faults.failing),
    cancelAfterMs: random.chance(canceled) ? random.around(runMs * 1.5) : null,
  };
}

function priorityOf(drawn: number): Priority {
  let left = drawn;
  for (const [priority, share] of PRIORITIES) {
    if (left < share) return priority;
    left -= share;
  }
  return 'low';
}
