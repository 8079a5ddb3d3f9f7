/**
 * A task as text, for peers that read text: with hints in front and the form of the reply behind, or the bare brief.
 *
 * @see docs/fleet-phases.md#inline-hints
 */
import type { Priority, ReplySchema, TaskDispatch } from '../../../protocol/fleet.ts';
import { emitInline } from '../../phases/inline-emit.ts';
import { replyInstruction } from '../../phases/instruction.ts';
import type { DispatchMode } from '../peer.ts';

/** Replaces the text where text and data together exceed one request. */
export const DATA_SAYS_ALL = 'The task is in the data of this message.';

/** Returns the form of the reply a dispatch asks for: a peer that receives the bare brief is asked for text only. */
export const replySchemaOf = ({ task }: TaskDispatch, mode: DispatchMode): ReplySchema =>
  mode === 'plain' ? 'prose' : (task.reply_schema ?? 'structured');

/** Returns the text of a dispatch. A peer that reads the message itself needs no more than the brief beside it. */
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
