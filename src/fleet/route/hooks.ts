/**
 * Policy hooks: rules in the Common Expression Language that an operator adds to routing. `reject` leaves a worker out for a
 * task, `prefer` changes its score, `refuse` refuses a task when it is submitted. Compiled once by the orchestrator.
 *
 * A hook that cannot be evaluated counts as true where it forbids and as false where it prefers: an unknown value must not
 * disable a rule that isolates tasks or workers.
 * @see docs/fleet-phases.md#policy-hooks
 */
import { type Condition, conditionCompiler, type Variables } from '../../base/expressions.ts';
import { OutOfSteps, Steps } from '../../base/steps.ts';
import { fail } from '../../wire/errors.ts';
import type { Profile, RouteHooks, RouteTask } from './profile.ts';

/** A policy hook in the Common Expression Language; `docs/fleet.md` lists its variables. */
export interface PolicyHook {
  readonly when: string;
  /**
   * `reject` leaves a worker out for a task, `prefer` adds to its score (−1000…1000), `refuse` refuses a task at submission.
   */
  readonly then: 'reject' | 'prefer' | 'refuse';
  readonly score?: number;
  readonly reason?: string;
}

/** All hooks of a configuration. */
export interface Hooks extends RouteHooks {
  /** Returns the reason to refuse this task, or null. */
  refuse(task: RouteTask): string | null;
}

const MAX_HOOKS = 64;
/** The largest change of a score by all hooks together. */
const MAX_SCORE = 1000;
const MAX_REASON_CHARS = 200;
/** Steps of one evaluation: a task is compared with many workers. */
const HOOK_STEPS = 20_000;

/** Numbers are integers. An unknown value is null in a `dyn` variable and an empty string in a `string` variable. */
const TASK = {
  task_id: 'string',
  priority: 'string',
  access: 'string',
  context_id: 'string',
  pool: 'string',
  min_tier: 'string',
  required_mcp: 'list<string>',
  required_capabilities: 'list<string>',
  token_budget: 'dyn',
  min_context_window: 'dyn',
  brief_bytes: 'int',
} as const;

const WORKER = {
  agent_id: 'string',
  verified: 'bool',
  age_s: 'int',
  model_tier: 'string',
  context_window: 'dyn',
  tools: 'list<string>',
  mcp_servers: 'list<string>',
  mcp_health: 'map<string, string>',
  active_tasks: 'int',
  outstanding: 'int',
  max_concurrent: 'dyn',
  branch: 'string',
  clean: 'dyn',
  context_id: 'string',
  recent_ok: 'int',
  recent_total: 'int',
  pools: 'list<string>',
} as const;

type View<Shape> = Readonly<Record<keyof Shape, unknown>>;

/**
 * Compiles the hooks.
 * @throws config_invalid with `detail.hook` (index from 0) for a hook that does not parse or type-check, or that has a score
 *   without `prefer`, or `prefer` without a score
 */
export function compileHooks(hooks: readonly PolicyHook[] = [], maxSteps = HOOK_STEPS): Hooks {
  if (hooks.length > MAX_HOOKS) {
    throw fail('config_invalid', `hooks: ${hooks.length} hooks exceed the limit of ${MAX_HOOKS}; merge some with ||`);
  }
  const ofTask = { task: TASK };
  const ofBoth = { task: TASK, worker: WORKER };
  const compiled = hooks.map((hook, index) => compileHook(hook, index, hook.then === 'refuse' ? ofTask : ofBoth));
  const [rejecting, preferring, refusing] = (['reject', 'prefer', 'refuse'] as const).map((effect) =>
    compiled.filter((hook) => hook.effect === effect),
  ) as [Compiled[], Compiled[], Compiled[]];

  // One task is compared with many workers: its variables are made once.
  const views = new WeakMap<RouteTask, View<typeof TASK>>();
  const taskOf = (task: RouteTask): View<typeof TASK> => {
    let view = views.get(task);
    if (view === undefined) {
      view = taskView(task);
      views.set(task, view);
    }
    return view;
  };

  return {
    reject(task, profile) {
      if (rejecting.length === 0) return NONE;
      const values = { task: taskOf(task), worker: workerView(profile) };
      return rejecting.flatMap((hook) => forbidden(hook, values, maxSteps) ?? []).map((reason) => `hook:${reason}`);
    },
    prefer(task, profile) {
      if (preferring.length === 0) return 0;
      const values = { task: taskOf(task), worker: workerView(profile) };
      const sum = preferring.reduce(
        (total, hook) => (tested(hook, values, maxSteps) === true ? total + hook.score : total),
        0,
      );
      return Math.max(-MAX_SCORE, Math.min(MAX_SCORE, sum));
    },
    refuse(task) {
      for (const hook of refusing) {
        const reason = forbidden(hook, { task: taskOf(task) }, maxSteps);
        if (reason !== undefined) return reason;
      }
      return null;
    },
  };
}

const NONE: readonly string[] = [];

interface Compiled {
  readonly effect: PolicyHook['then'];
  readonly condition: Condition;
  readonly score: number;
  readonly reason: string;
  /** Name of the hook in error messages. */
  readonly name: string;
}

function compileHook(hook: PolicyHook, index: number, variables: Variables): Compiled {
  const name = `hook ${index + 1}`;
  const { score, reason = name } = hook;
  const refuse = (why: string): Error => fail('config_invalid', `${name}: ${why}`, { hook: index });
  if (hook.then === 'prefer') {
    if (score === undefined || !Number.isInteger(score) || Math.abs(score) > MAX_SCORE)
      throw refuse(`prefer needs a score, a whole number from -${MAX_SCORE} to ${MAX_SCORE}`);
  } else if (score !== undefined) throw refuse(`${hook.then} does not use a score; remove it`);
  if (reason.length > MAX_REASON_CHARS) throw refuse(`the reason exceeds ${MAX_REASON_CHARS} characters; shorten it`);
  const condition = conditionCompiler(variables)(hook.when, name, { hook: index });
  return { effect: hook.then, condition, score: score ?? 0, reason, name };
}

type Values = Readonly<Record<string, unknown>>;

/** Returns the reason to forbid, where the hook is true or cannot be evaluated. */
function forbidden(hook: Compiled, values: Values, maxSteps: number): string | undefined {
  const matched = tested(hook, values, maxSteps);
  if (matched === undefined) return `${hook.name} could not be evaluated`;
  return matched ? hook.reason : undefined;
}

function tested({ condition }: Compiled, values: Values, maxSteps: number): boolean | undefined {
  try {
    return condition.test(values, new Steps(maxSteps));
  } catch (error) {
    if (error instanceof OutOfSteps) return undefined;
    throw error;
  }
}

/** Returns a bigint: the expression language distinguishes integers from other numbers, and its integers are bigints. */
const whole = (value: number): bigint => BigInt(Math.trunc(value));
const maybeWhole = (value: number | null): bigint | null => (value === null ? null : whole(value));

const taskView = (task: RouteTask): View<typeof TASK> => ({
  task_id: task.task_id,
  priority: task.priority,
  access: task.access,
  context_id: task.context_id ?? '',
  pool: task.pool ?? '',
  min_tier: task.min_tier ?? '',
  required_mcp: task.required_mcp,
  required_capabilities: task.required_capabilities,
  token_budget: maybeWhole(task.token_budget),
  min_context_window: maybeWhole(task.min_context_window),
  brief_bytes: whole(task.brief_bytes),
});

const workerView = (profile: Profile): View<typeof WORKER> => ({
  agent_id: profile.agent_id,
  verified: profile.verified,
  age_s: whole(profile.age_s),
  model_tier: profile.model_tier,
  context_window: maybeWhole(profile.context_window),
  tools: profile.tools,
  mcp_servers: profile.mcp_servers,
  mcp_health: profile.mcp_health,
  active_tasks: whole(profile.active_tasks),
  outstanding: whole(profile.outstanding),
  max_concurrent: maybeWhole(profile.max_concurrent),
  branch: profile.repo_state?.branch ?? '',
  clean: profile.repo_state?.clean ?? null,
  context_id: profile.context_id ?? '',
  recent_ok: whole(profile.recent_ok),
  recent_total: whole(profile.recent_total),
  pools: profile.pools,
});
