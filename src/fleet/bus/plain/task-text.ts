/**
 * A task in words, for receivers that read text: with hints in front and the form of the reply behind, or the bare brief.
 *
 * Used by `fleet/bus/http/peer.ts`. @see docs/fleet-phases.md#inline-hints
 */
import type { Priority, TaskDispatch } from '../../../protocol/fleet.ts';
import { emitInline } from '../../phases/inline-emit.ts';
import { replyInstruction } from '../../phases/instruction.ts';
import type { DispatchMode } from '../peer.ts';

/** The text of a dispatch. A peer that reads the message itself needs no more than the brief beside it. */
export function taskText(dispatch: TaskDispatch, mode: DispatchMode): string {
  if (mode !== 'inline') return dispatch.brief;
  const { task, requirements, deadline, brief } = dispatch;
  const priority = (task.priority ?? 'normal') as Priority;
  const replySchema = task.reply_schema ?? 'structured';
  const instruction = replyInstruction({
    taskId: task.task_id,
    replySchema,
    answerSchema: task.answer_schema,
    priority,
    tokenBudget: task.token_budget ?? null,
    deadline: deadline ?? null,
    cwd: null,
  });
  return emitInline(
    {
      task_id: task.task_id,
      priority,
      reply_schema: replySchema,
      token_budget: task.token_budget,
      required_mcp: requirements?.required_mcp,
      required_capabilities: requirements?.required_capabilities,
      deadline,
    },
    `${brief}\n\n${instruction}`,
  );
}
