/**
 * Checks results of a given shape: a task may have a JSON Schema that its result must fit. Agents that reply with a text give
 * the value in it, alone or in a code block.
 */
import type { JsonSchema } from '../../base/json-schema.ts';
import { checkValue } from '../../base/value-check.ts';
import { isObject } from '../../wire/json.ts';
import { failure } from './errors.ts';

/** Longest text that is searched for a value. */
const MAX_CHARS = 1024 * 1024;
const FENCE = /```[\w-]*\n([\s\S]*?)\n```/g;

/**
 * Returns the result with the defaults of its schema. Fails with `multi_agent.invalid_result`, whose `detail.problems` lists
 * the mismatches.
 */
export async function checkedResult(result: unknown, schema: JsonSchema): Promise<unknown> {
  const checked = await checkValue(schema, candidateOf(result));
  if (checked.ok) return checked.answer;
  const problems = checked.problems.map((problem) => problem.replace(/^answer/, 'result')).slice(0, 20);
  throw failure('invalid_result', `the result does not fit its schema: ${problems[0] ?? 'it is none'}`, { problems });
}

/** Returns the value to check: the result itself, or the JSON in a result that is only a text. */
function candidateOf(result: unknown): unknown {
  if (typeof result === 'string') return jsonIn(result);
  const isText = isObject(result) && typeof result.summary === 'string' && Object.keys(result).length === 1;
  return isText ? (jsonIn(String(result.summary)) ?? result) : result;
}

/** Returns the JSON of a text: the whole text, or its last code block. */
function jsonIn(text: string): unknown {
  if (text.length > MAX_CHARS) return undefined;
  const blocks = [...text.matchAll(FENCE)].map(([, inner = '']) => inner);
  for (const candidate of [text, ...blocks.toReversed()]) {
    try {
      return JSON.parse(candidate) as unknown;
    } catch {
      // The next candidate may be JSON.
    }
  }
  return undefined;
}
