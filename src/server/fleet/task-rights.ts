/**
 * What the executor of a task may use of the environment of its worker. Pure.
 *
 * Two sets of rights that are both asked, as for subagents: what the worker lends, and within it what the task asks for. The
 * task acts in the name of the worker, so that all its tasks have one share and one memory.
 */
import type { EnvironmentTask } from '../../fleet/worker/task-environment.ts';
import { capabilityOf } from '../../protocol/a2e.ts';
import { type Grants, GUARDED_RISKS, type Principal, type ToolRules } from '../../session/principal.ts';

/** Without other words a worker lends its tools, less those that run programs, destroy or use the network. */
export const LENT: readonly string[] = ['tools'];
/** What a task that only reads does not get. */
const CHANGING: readonly string[] = ['writes', 'destructive', 'exec'];

/** What a worker lends at most. */
export const lentPrincipal = (
  worker: string,
  { capabilities = LENT, tools, grants }: Pick<Grants, 'capabilities' | 'tools' | 'grants'>,
): Principal =>
  Object.freeze({
    name: worker,
    capabilities,
    ...(tools !== undefined && { tools }),
    ...(grants !== undefined && { grants }),
  });

/** Which tools a task asks for. They hold for those of the memory, and for skills, as for the tools of the host. */
export const taskTools = ({ access, environment_tools: allow }: EnvironmentTask['dispatch']): ToolRules => ({
  // Guarded risks are the worker's to grant, which is asked too.
  risks: GUARDED_RISKS,
  ...(allow !== null && { allow }),
  ...(access === 'read' && { denyRisks: CHANGING }),
});

/** What a task may use of it; undefined: nothing. */
export function taskPrincipal(within: Principal, { taskId, dispatch }: EnvironmentTask): Principal | undefined {
  const { environment_capabilities: capabilities } = dispatch;
  if (capabilities?.length === 0) return undefined;
  const names = capabilities?.map(nameOf) ?? ['*'];
  const has = (name: string): boolean => names.includes('*') || names.includes(nameOf(name));
  return Object.freeze({
    name: within.name,
    task: taskId,
    capabilities: names,
    // Rules about tools, and grants, allow the capability they are about.
    ...(has('tools') && { tools: taskTools(dispatch) }),
    grants: Object.fromEntries(Object.entries(within.grants ?? {}).filter(([name]) => has(name))),
    within,
  });
}

const nameOf = (capability: string): string => capabilityOf(capability) ?? capability;
