/**
 * The rights of the executor of a task in the environment of its worker. Pure.
 *
 * Two sets of rights are both checked, as for subagents: those that the worker lends, and within them those that the task asks
 * for. The task acts in the name of the worker, so that all its tasks have one share and one memory.
 */
import type { EnvironmentTask } from '../../fleet/worker/task-environment.ts';
import { capabilityOf } from '../../protocol/a2e.ts';
import { type Grants, GUARDED_RISKS, type Principal, type ToolRules } from '../../session/principal.ts';

/** Capabilities that a worker lends by default: its tools, less those that run programs, destroy or use the network. */
export const LENT: readonly string[] = ['tools'];
/** Risks of tools that a task that only reads does not get. */
const CHANGING: readonly string[] = ['writes', 'destructive', 'exec'];

/** The most that a worker lends. */
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

/**
 * Returns the tools that a task asks for. The rules hold for tools of the memory, and for skills, as for the tools of the host.
 */
export const taskTools = ({ access, environment_tools: allow }: EnvironmentTask['dispatch']): ToolRules => ({
  // Guarded risks are the worker's to grant, which is asked too.
  risks: GUARDED_RISKS,
  ...(allow !== null && { allow }),
  ...(access === 'read' && { denyRisks: CHANGING }),
});

/** Returns the rights of a task in it; undefined: none. */
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
