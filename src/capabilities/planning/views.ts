/** Converts plans and tasks to the form of replies. Pure. */
import type { PlanState } from './plan-state.ts';
import type { Board, Claim, Plan, Task, TaskLine } from './planning.schema.ts';
import type { StoredPlan, StoredTask } from './stored.ts';

export function planLine(plan: StoredPlan): Plan {
  const { plan_id, name, columns, description, owner, agent, shares, rules, revision, archived, created_at } = plan;
  return {
    plan_id,
    name,
    columns: [...columns],
    description,
    owner,
    agent,
    shares: [...shares],
    rules: structuredClone(rules),
    revision,
    archived,
    created_at,
  };
}

export function planView(state: PlanState): Plan {
  const { tasks, done } = state.graph.counts;
  return { ...planLine(state.plan), seq: state.seq, tasks, done };
}

export function taskLine(state: PlanState, task: StoredTask) {
  const { task_id, title, status, assignee, deps, parent, priority, revision, archived } = task;
  return {
    task_id,
    title,
    status,
    assignee: assignee || (task.claim?.agent ?? ''),
    plan_id: state.plan.plan_id,
    deps: [...deps],
    parent,
    priority,
    revision,
    ready: state.isReady(task_id),
    claim: claimView(state, task),
    archived,
  } satisfies TaskLine;
}

export function taskView(state: PlanState, task: StoredTask): Task {
  const { description, metadata, created_at, updated_at, done_at, seq, task_id } = task;
  return {
    ...taskLine(state, task),
    description,
    // A link of this process passes objects on: readers must not be able to change the stored state.
    metadata: structuredClone(metadata),
    blocked_by: state.graph.blockers(task_id),
    created_at,
    updated_at,
    done_at,
    seq,
  };
}

function claimView(state: PlanState, { claim, task_id }: StoredTask): Claim | null {
  if (claim === null) return null;
  const { principal, agent, fence, lease_ms, claimed_at } = claim;
  return { principal, agent, fence, lease_ms, expires_in_ms: state.expiresInMs(task_id), claimed_at };
}

/**
 * Returns the tasks of a plan by column, first by priority, then by age; at most `limit` in each.
 * @param mayShow called with the number of tasks before they are shown
 */
export function boardView(state: PlanState, limit: number, archived: boolean, mayShow: (count: number) => void): Board {
  const { plan_id, name, columns } = state.plan;
  const byColumn = new Map<string, StoredTask[]>(columns.map((column) => [column, []]));
  for (const task of state.graph.tasks()) {
    if (task.archived && !archived) continue;
    const column = byColumn.get(task.status);
    if (column === undefined) byColumn.set(task.status, [task]);
    else column.push(task);
  }
  mayShow([...byColumn.values()].reduce((sum, { length }) => sum + Math.min(length, limit), 0));
  const tasks: Record<string, TaskLine[]> = Object.create(null);
  const counts: Record<string, number> = Object.create(null);
  for (const [column, all] of byColumn) {
    // The sort is stable: tasks of equal priority stay in the order of their age.
    all.sort((left, right) => right.priority - left.priority);
    tasks[column] = all.slice(0, limit).map((task) => taskLine(state, task));
    counts[column] = all.length;
  }
  return { plan_id, name, columns: [...columns], tasks, counts };
}
