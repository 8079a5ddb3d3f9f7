/**
 * The task list of a control session as a plan of the planning capability, so that boards, `handfast plan` and other agents of the user
 * see it. Called by `session-capabilities.ts`.
 *
 * The list of the session is what its model said last; a plan that was changed elsewhere is brought back to it, its comments and history
 * stay.
 */
import type { PlanningClient } from '../../capabilities/planning/client.ts';
import type { CallOptions } from '../../connection/call.ts';
import type { PlanEntry } from '../../control/rounds/environment.ts';

const COLUMNS = ['pending', 'in_progress', 'completed'];
const PRIORITY = { high: 1, medium: 0, low: -1 };

/**
 * Makes the plan what the entries say: tasks are known by their text. Those that are no longer in the list are archived.
 * @param session id of the control session
 */
export async function storePlan(
  planning: PlanningClient,
  session: string,
  entries: readonly PlanEntry[],
  call: CallOptions,
): Promise<void> {
  const about = `Task list of the session ${session}`;
  const { plan_id } = await planning.createPlan(
    `session ${session}`,
    {
      columns: COLUMNS,
      description: about,
      rules: { done: ['completed'], active: 'in_progress' },
      key: `session:${session}`,
    },
    call,
  );
  const waiting = new Map<string, string[]>();
  for (const { title, task_id } of await planning.tasks(plan_id, {}, call)) {
    waiting.set(title, [...(waiting.get(title) ?? []), task_id]);
  }
  // One after the other: the board has the order of the list.
  for (const { content, status, priority } of entries) {
    const change = { status, ...(priority !== undefined && { priority: PRIORITY[priority] }) };
    const known = waiting.get(content)?.shift();
    if (known === undefined) await planning.add(plan_id, content, change, call);
    else await planning.update(plan_id, known, { ...change, force: true }, call);
  }
  for (const left of [...waiting.values()].flat()) await planning.archive(plan_id, left, call);
}
