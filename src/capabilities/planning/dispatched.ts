/**
 * The record of a task's run in a fleet, stored in the task's metadata under `fleet`; and the request to the fleet. Pure.
 *
 * The record is written before the request to the fleet, so that the successor of a killed dispatcher asks for the same run.
 */
import type { FleetTask, FleetTaskSpec } from '../../packages/capability.ts';
import type { Task } from './planning.schema.ts';

/** `metadata.fleet` of a task. */
export interface FleetRun {
  /** Its id in the fleet: plan, task, and the fence it was first dispatched under. */
  readonly task_id: string;
  /** The name of the fleet. */
  readonly fleet: string;
  /** `submitting`, a state of the fleet, `parked` (waits for an operator of the fleet), `refused` (the fleet did not accept it). */
  readonly state: string;
  readonly worker: string | null;
  readonly tokens_spent: number | null;
  /** The dispatcher assigned the task to the fleet; it was assigned to none before. */
  readonly assigned: boolean;
}

/** The name that tasks in a fleet are assigned to: other agents cannot claim them, even between two dispatchers. */
export const FLEET = 'fleet';

/** States after which the task is dispatched again only on request. */
const FAILED: ReadonlySet<string> = new Set(['partial', 'blocked', 'error', 'lost', 'canceled', 'refused']);

export const isFailed = ({ state }: FleetRun): boolean => FAILED.has(state);

/** Returns true if an operator may retry it with `handfast task retry`. */
export const mayBeSentAgain = (run: FleetRun): boolean =>
  run.state === 'parked' || (isFailed(run) && run.state !== 'refused');

/** @param task the task before it was claimed: a claimed one shows the agent of the claim */
export const newRun = ({ plan_id, task_id, assignee, claim }: Task, fence: number, fleet: string): FleetRun => ({
  task_id: `${plan_id}-${task_id}-${fence}`,
  fleet,
  state: 'submitting',
  worker: null,
  tokens_spent: null,
  assigned: assignee !== FLEET || claim !== null,
});

/** Returns the run of a task; undefined: none. Ignores an id of another task: others may write metadata. */
export function runOf({ plan_id, task_id, metadata }: Task): FleetRun | undefined {
  const run = metadata.fleet as Partial<FleetRun> | null | undefined;
  if (typeof run !== 'object' || run === null) return undefined;
  const { task_id: id, fleet, state, worker, tokens_spent, assigned } = run;
  const own = `${plan_id}-${task_id}-`;
  if (typeof id !== 'string' || !id.startsWith(own) || !/^\d{1,15}$/.test(id.slice(own.length))) return undefined;
  if (typeof fleet !== 'string' || typeof state !== 'string') return undefined;
  return {
    task_id: id,
    fleet,
    state,
    worker: typeof worker === 'string' ? worker : null,
    tokens_spent: typeof tokens_spent === 'number' ? tokens_spent : null,
    assigned: assigned === true,
  };
}

/** Returns the run with its present state in the fleet. */
export const updated = (run: FleetRun, { state, parked, worker, tokens_spent }: FleetTask): FleetRun => ({
  ...run,
  state: parked ? 'parked' : state,
  worker,
  tokens_spent,
});

export const sameRun = (left: FleetRun, right: FleetRun): boolean =>
  left.state === right.state && left.worker === right.worker && left.tokens_spent === right.tokens_spent;

/** Returns the request to the fleet: title and description are the brief. */
export const specOf = (task: Task, run: FleetRun, more: Partial<FleetTaskSpec>): FleetTaskSpec => ({
  ...more,
  task_id: run.task_id,
  brief: task.description === '' ? task.title : `${task.title}\n\n${task.description}`,
});

/** Tells how the result of a run that its operator retries gets into the plan. */
export const wayBack = (
  { plan_id, task_id }: Pick<Task, 'plan_id' | 'task_id'>,
  run: Pick<FleetRun, 'task_id'>,
): string =>
  `after "handfast task retry ${run.task_id}": "handfast plan dispatch ${plan_id} ${task_id}" brings its result into the plan`;

/** Returns the note on a retry of a run in the fleet, by its id alone. Undefined: it is no run of a plan. */
export function noteOnRetry(fleetTaskId: string): string | undefined {
  const [, planId, taskId] = /^([0-9a-f]{12})-([0-9a-f]{12})-\d{1,15}$/.exec(fleetTaskId) ?? [];
  if (planId === undefined || taskId === undefined) return undefined;
  return `it is a run of a task in a plan; its result comes into the plan with: handfast plan dispatch ${planId} ${taskId}`;
}

/** Longest comment, characters: the plan accepts more. */
const MAX_COMMENT = 8_000;

/** Describes the end of a run as a comment of its task. */
export function commentOn(task: FleetTask): string {
  const { state, parked, result, worker, dead_letter, verified, verification } = task;
  const by = worker === null ? '' : ` by ${worker}`;
  const reason = result?.error_summary ?? result?.blocked_reason ?? dead_letter ?? '';
  const lines = [
    `${parked ? `${state}, parked for an operator of the fleet` : state}${by}${reason === '' ? '' : `: ${reason}`}`,
    result?.summary ?? '',
    result?.prose ?? '',
    ...(result?.next_steps ?? []).map((step) => `next: ${step}`),
    verified === 'no' ? `not verified: ${verification.join('; ')}` : '',
  ];
  return [...new Set(lines.filter((line) => line !== ''))].join('\n').slice(0, MAX_COMMENT).toWellFormed();
}
