/**
 * Results of a given shape: a task may come with a JSON Schema that its result must fit. Agents that reply with a text
 * give the value in it, alone or in a code block.
 */
import type { JsonSchema } from '../../base/json-schema.ts';
import { checkValue } from '../../base/value-check.ts';
import { isObject } from '../../wire/json.ts';
import { failure } from './errors.ts';

/** Longest text that is searched for a value. */
const MAX_CHARS = 1024 * 1024;
const FENCE = /```[\w-]*\n([\s\S]*?)\n```/g;

/**
 * The result as its schema has it, with the defaults of that. Fails with `multi_agent.invalid_result`, whose `detail.problems` says
 * what does not fit.
 */
export async function checkedResult(result: unknown, schema: JsonSchema): Promise<unknown> {
  const checked = await checkValue(schema, candidateOf(result));
  if (checked.ok) return checked.answer;
  const problems = checked.problems.map((problem) => problem.replace(/^answer/, 'result')).slice(0, 20);
  throw failure('invalid_result', `the result does not fit its schema: ${problems[0] ?? 'it is none'}`, { problems });
}

/** What is to fit: the result itself; of one that is only a text, the JSON in it. */
function candidateOf(result: unknown): unknown {
  if (typeof result === 'string') return jsonIn(result);
  const isText = isObject(result) && typeof result.summary === 'string' && Object.keys(result).length === 1;
  return isText ? (jsonIn(String(result.summary)) ?? result) : result;
}

/** The JSON of a text: all of it, or its last code block. */
function jsonIn(text: string): unknown {
  if (text.length > MAX_CHARS) return undefined;
  const blocks = [...text.matchAll(FENCE)].map(([, inner = '']) => inner);
  for (const candidate of [text, ...blocks.toReversed()]) {
    try {
      return JSON.parse(candidate) as unknown;
    } catch {
      // The next one may be it.
    }
  }
  return undefined;
}
