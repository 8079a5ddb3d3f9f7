/**
 * Checks what an agent answered against a JSON Schema that came with the question, so untrusted: bounded in size and in time. Used for
 * answers of tasks and of people in the fleet, and for results of subagents.
 */
import { HandfastError } from '../wire/errors.ts';
import { type JsonSchema, JsonSchemas } from './json-schema.ts';
import { timeLimit } from './time-limit.ts';

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
  /** Shared by a caller that checks often, so that the validator is loaded once. */
  readonly schemas?: JsonSchemas;
  /** Timeout of a check, milliseconds: a regular expression of the schema may never end. Default 250. */
  readonly timeoutMs?: number;
}

/** Largest schema, in characters of its JSON: compiling it cannot be interrupted by a timeout. */
const MAX_SCHEMA_CHARS = 65_536;

/** Checks a value that answers something against its schema. Never throws. */
export async function checkValue(
  schema: JsonSchema,
  answer: unknown,
  { schemas = new JsonSchemas(), timeoutMs = 250 }: AnswerCheckOptions = {},
): Promise<AnswerCheck> {
  const compiled = await compile(schema, schemas);
  if ('problem' in compiled) return { ok: false, problems: [compiled.problem], hopeless: true };
  if (answer === undefined) return { ok: false, problems: ['answer is missing'], hopeless: false };
  try {
    return { ok: true, answer: timeLimit(timeoutMs)(() => compiled.check(answer)) };
  } catch (error) {
    if (!(error instanceof HandfastError && error.code === 'schema_violation'))
      return { ok: false, problems: [`answer could not be checked within ${timeoutMs} ms`], hopeless: true };
    const { errors = [] } = error.detail as { errors?: readonly { path: string; message: string }[] };
    const problems = errors.map(({ path, message }) => `answer${path} ${message}`);
    return { ok: false, problems: problems.length > 0 ? problems : [error.message], hopeless: false };
  }
}

/** The reason a schema cannot be used, or null. Checked before a task is accepted, so that no token is spent on it. */
export async function answerSchemaProblem(schema: JsonSchema, schemas = new JsonSchemas()): Promise<string | null> {
  const compiled = await compile(schema, schemas);
  return 'problem' in compiled ? compiled.problem : null;
}

type Compiled = { readonly check: (value: unknown) => unknown } | { readonly problem: string };

async function compile(schema: JsonSchema, schemas: JsonSchemas): Promise<Compiled> {
  if (JSON.stringify(schema).length > MAX_SCHEMA_CHARS)
    return { problem: `the schema of the answer exceeds ${MAX_SCHEMA_CHARS} characters` };
  try {
    return { check: await schemas.compile(schema, 'answer') };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}
