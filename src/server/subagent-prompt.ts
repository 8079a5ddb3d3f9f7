/** The task of a subagent as one text, for what takes a text. Used by the backends of this folder. */
import type { SubagentFacts, SubagentWork } from '../capabilities/multi_agent/backend.ts';

/** A role and instructions for all tasks come first, then the task, then when it is done. */
export function promptOf(
  { role, systemPrompt }: SubagentFacts,
  { instruction, success_criteria }: SubagentWork,
): string {
  const criteria = success_criteria.map((one) => `- ${one}`).join('\n');
  return [
    systemPrompt,
    role === '' ? '' : `Your role: ${role}.`,
    instruction,
    criteria === '' ? '' : `It is done when:\n${criteria}`,
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}
