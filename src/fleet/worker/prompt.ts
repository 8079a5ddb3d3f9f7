/** The prompt of an executor: the brief as it was sent, where and how to work, and how to report. */
import type { Dispatched } from '../messages/decoded.ts';
import { replyInstruction } from '../phases/instruction.ts';

/**
 * Returns the whole prompt of a task. `cwd` is absolute: "the repository" alone has led agents to write elsewhere.
 * `tokenBudget` is the number of tokens it may really spend; `nowMs` is epoch milliseconds by the clock of the orchestrator.
 */
export function promptOf(dispatch: Dispatched, cwd: string, tokenBudget: number | null, nowMs: number): string {
  const { brief, task_id, reply_schema, answer_schema, priority, deadline, access } = dispatch;
  const instruction = replyInstruction({
    taskId: task_id,
    replySchema: reply_schema,
    answerSchema: answer_schema,
    priority,
    tokenBudget,
    deadline,
    cwd,
    nowMs,
  });
  const reading = access === 'read' ? '- This task only reads: change no file.\n' : '';
  return `${brief}\n\n${reading}${instruction}`;
}

/** Returns the message to an executor that can be steered, when its budget comes to an end. */
export const wrapUp = (tokens: number): string =>
  `The token budget of this task is nearly spent: about ${tokens} tokens are left. Wrap up now: leave the work in a state ` +
  'that can be continued, and report what is done and what remains.';
