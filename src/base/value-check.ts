/**
 * Checks an agent's answer against a JSON Schema that came with the question and is therefore untrusted: bounded in
 * size and in time, and in a thread. For answers of tasks and of people in the fleet, and for results of subagents.
 */
import type { HandfastError } from '../wire/errors.ts';
import { CHECK_MS, foreignSchemas } from './foreign-schemas.ts';
import type { JsonSchema } from './json-schema.ts';

/** Outcome of the check; `answer` has the defaults of the schema filled in. */
export type AnswerCheck =
  | { readonly ok: true; readonly answer: unknown }
  | {
      readonly ok: false;
      /** The errors, as text for the executor. */
      readonly problems: readonly string[];
      /** The schema itself is invalid: a repair turn cannot help. */
      readonly hopeless: boolean;
    };

export interface AnswerCheckOptions {
  /** Timeout of a check, milliseconds of processor time: a regular expression of the schema may never end. Default 250. */
  readonly timeoutMs?: number;
}

/** Largest schema, in characters of its JSON. */
const MAX_SCHEMA_CHARS = 65_536;

/** Checks a value that answers something against its schema. Never throws. */
export async function checkValue(
  schema: JsonSchema,
  answer: unknown,
  { timeoutMs: limitMs = CHECK_MS }: AnswerCheckOptions = {},
): Promise<AnswerCheck> {
  const problem = await answerSchemaProblem(schema);
  if (problem !== null) return { ok: false, problems: [problem], hopeless: true };
  if (answer === undefined) return { ok: false, problems: ['answer is missing'], hopeless: false };
  try {
    return { ok: true, answer: await foreignSchemas.check(schema, answer, { what: 'answer', limitMs }) };
  } catch (error) {
    const { code, message, detail } = error as HandfastError;
    if (code !== 'schema_violation' || detail?.reason !== undefined)
      return { ok: false, problems: [message], hopeless: true };
    const { errors = [] } = detail as { errors?: readonly { path: string; message: string }[] };
    const problems = errors.map(({ path, message: what }) => `answer${path} ${what}`);
    return { ok: false, problems: problems.length > 0 ? problems : [message], hopeless: false };
  }
}

/**
 * Returns the reason why a schema cannot be used, or null. Checked before a task is accepted, so that no token is spent
 * on it.
 */
export async function answerSchemaProblem(schema: JsonSchema): Promise<string | null> {
  if (JSON.stringify(schema).length > MAX_SCHEMA_CHARS)
    return `the schema of the answer exceeds ${MAX_SCHEMA_CHARS} characters`;
  try {
    return await foreignSchemas.problem(schema, { what: 'answer' });
  } catch (error) {
    return (error as Error).message;
  }
}
