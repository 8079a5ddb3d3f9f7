/**
 * The words for a subagent that takes a text: its task, and messages of other agents.
 */
import type { SubagentFacts, SubagentWork } from '../capabilities/multi_agent/backend.ts';
import type { SubagentMessage } from '../capabilities/multi_agent/multi_agent.schema.ts';

/** Returns the prompt: a role and instructions for all tasks come first, then the task, then the condition for its end. */
export function promptOf(
  { role, systemPrompt }: SubagentFacts,
  { instruction, success_criteria, result_schema }: SubagentWork,
): string {
  const criteria = success_criteria.map((one) => `- ${one}`).join('\n');
  return [
    systemPrompt,
    role === '' ? '' : `Your role: ${role}.`,
    instruction,
    criteria === '' ? '' : `It is done when:\n${criteria}`,
    result_schema === undefined
      ? ''
      : `Reply at the end with one JSON value that fits this JSON Schema, and nothing else:\n${JSON.stringify(result_schema)}`,
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

/**
 * Returns a message of another agent.
 * @param from its id; empty: the agent above
 * @param channel the channel that it was said in; undefined: it is for this subagent alone
 */
export function messageText(from: string, { type, content }: SubagentMessage, channel?: string): string {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  const where = channel === undefined ? '' : ` in the channel ${JSON.stringify(channel)}`;
  return `${type} of ${from === '' ? 'the agent above' : from}${where}: ${text}`;
}
