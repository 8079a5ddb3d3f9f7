/**
 * Decides which agents may answer the questions of wait nodes. Without `by`, each agent that reaches the run may answer. With
 * `by`, agents of the named principals may, and never an agent of the principal that runs the chain, not even an administrator.
 * The definition of the run contains `by`, which therefore also holds after a restart.
 */
import type { CallContext } from '../../host/context.ts';
import { fail } from '../../wire/errors.ts';
import type { ChainApproval } from './records.schema.ts';
import type { ActiveRun } from './runs.ts';

/**
 * Returns true if an agent may answer a question of a run of another principal. A subagent may not: the agent above it is
 * asked.
 */
const mayAnswer = ({ session }: CallContext, by: readonly string[] | null | undefined): boolean =>
  session.principal.subagent === undefined && by?.includes(session.principal.name) === true;

/** Returns true if a run of another principal asks this agent; otherwise the run is unknown to the agent. */
export const asks = ({ run }: ActiveRun, nodeId: string, context: CallContext): boolean =>
  mayAnswer(context, run.steps.waits.get(nodeId)?.planned.node.wait?.by);

/** Fails with `unauthorized` for an agent of the principal that runs the chain, where another principal must answer. */
export function mustNotBeRunner(by: readonly string[] | null | undefined, nodeId: string): void {
  // Null stands for an absent member.
  if (by === undefined || by === null) return;
  const names = by.map((name) => JSON.stringify(name)).join(', ');
  throw fail(
    'unauthorized',
    `the principal that runs the chain cannot answer this question; an agent of ${names} can, with owner`,
    { node_id: nodeId, by: [...by] },
  );
}

/** Yields the questions of some runs of other principals that this agent may answer, one after the other. */
export function* questions(
  active: Iterable<readonly [owner: string, run: ActiveRun]>,
  context: CallContext,
): Generator<ChainApproval | undefined> {
  for (const [owner, { stored, run }] of active) {
    if (owner === context.session.principal.name) continue;
    for (const [nodeId, { planned }] of run.steps.waits) {
      const { approval, by } = planned.node.wait ?? {};
      const isAsked = approval !== undefined && mayAnswer(context, by);
      const { chain_id, name } = stored;
      yield isAsked ? { chain_id, owner, name, node_id: nodeId, approval } : undefined;
    }
  }
}
