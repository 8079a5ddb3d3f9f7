/**
 * Validates the answer of a task against the JSON Schema in its dispatch (an extension of TASK_RESULT).
 * @see docs/fleet-phases.md#an-answer-of-a-given-shape
 */
import type { JsonSchema } from '../../base/json-schema.ts';
import { type AnswerCheck, type AnswerCheckOptions, checkValue } from '../../base/value-check.ts';
import type { Reported } from '../messages/decoded.ts';

/** Checks the answer of a result. Only a task with status `done` needs one. Never throws. */
export async function checkAnswer(
  schema: JsonSchema,
  { status, answer }: Pick<Reported, 'status' | 'answer'>,
  options: AnswerCheckOptions = {},
): Promise<AnswerCheck> {
  if (status !== 'done') return { ok: true, answer };
  return checkValue(schema, answer, options);
}
