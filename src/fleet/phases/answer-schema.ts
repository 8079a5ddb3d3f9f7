/**
 * The answer of a task against the JSON Schema its dispatch came with (an extension of TASK_RESULT). Called by the worker
 * on what its executor reports, and by the orchestrator when a task with such a schema is submitted.
 * @see docs/fleet-phases.md#an-answer-of-a-given-shape
 */
import { type JsonSchema, JsonSchemas } from '../../base/json-schema.ts';
import { timeLimit } from '../../base/time-limit.ts';
import { HandfastError } from '../../wire/errors.ts';
import type { Reported } from '../messages/decoded.ts';

/** What came of the check; `answer` has the defaults of the schema filled in. */
export type AnswerCheck =
  | { readonly ok: true; readonly answer: unknown }
  | {
      readonly ok: false;
      /** What is wrong, in words for the executor. */
      readonly problems: readonly string[];
      /** The schema itself is wrong: asking again cannot help. */
      readonly hopeless: boolean;
    };

export interface AnswerCheckOptions {
  /** Owned by whoever checks often, so that what it takes is loaded once. */
  readonly schemas?: JsonSchemas;
  /** Longest check, milliseconds: a schema may hold a regular expression that takes for ever. Default 250. */
  readonly timeoutMs?: number;
}

/** Largest schema, in characters of its JSON: to compile it takes time that no limit reaches into. */
const MAX_SCHEMA_CHARS = 65_536;

/** Checks the answer of a result. Only a task that is done owes one. Never throws. */
export async function checkAnswer(
  schema: JsonSchema,
  { status, answer }: Pick<Reported, 'status' | 'answer'>,
  { schemas = new JsonSchemas(), timeoutMs = 250 }: AnswerCheckOptions = {},
): Promise<AnswerCheck> {
  if (status !== 'done') return { ok: true, answer };
  const compiled = await compile(schema, schemas);
  if ('problem' in compiled) return { ok: false, problems: [compiled.problem], hopeless: true };
  if (answer === undefined) return { ok: false, problems: ['answer is missing'], hopeless: false };
  try {
    return { ok: true, answer: timeLimit(timeoutMs)(() => compiled.check(answer)) };
  } catch (error) {
    if (!(error instanceof HandfastError && error.code === 'schema_violation'))
      return { ok: false, problems: ['answer could not be checked in time'], hopeless: true };
    const { errors = [] } = error.detail as { errors?: readonly { path: string; message: string }[] };
    const problems = errors.map(({ path, message }) => `answer${path} ${message}`);
    return { ok: false, problems: problems.length > 0 ? problems : [error.message], hopeless: false };
  }
}

/** Why a schema cannot be used, or null: asked before a task is taken, so that no token is spent on it. */
export async function answerSchemaProblem(schema: JsonSchema, schemas = new JsonSchemas()): Promise<string | null> {
  const compiled = await compile(schema, schemas);
  return 'problem' in compiled ? compiled.problem : null;
}

type Compiled = { readonly check: (value: unknown) => unknown } | { readonly problem: string };

async function compile(schema: JsonSchema, schemas: JsonSchemas): Promise<Compiled> {
  if (JSON.stringify(schema).length > MAX_SCHEMA_CHARS)
    return { problem: `the schema of the answer is over ${MAX_SCHEMA_CHARS} characters` };
  try {
    return { check: await schemas.compile(schema, 'answer') };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}
