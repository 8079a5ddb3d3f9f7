/**
 * The thread that checks values against schemas of strangers, for `foreign-schemas.ts`: schema and value arrive as
 * JSON, so that no action of the thread can reach the host. Compiling and checking each have a limit of processor time;
 * work that reaches it is abandoned, and the thread does the next job.
 */
import { setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { asError, HandfastError } from '../wire/errors.ts';
import type { JsonObject } from '../wire/json.ts';
import { setNewest } from './evict-oldest.ts';
import { type JsonSchema, JsonSchemas, type SchemaChecker } from './json-schema.ts';
import { timeLimit } from './time-limit.ts';

export interface ThreadJob {
  /** JSON of the schema. */
  readonly schema: string;
  /** JSON of the value; undefined: only the schema is looked at. */
  readonly value: string | undefined;
  /** The subject of error messages. */
  readonly what: string;
  readonly limitMs: number;
  /** Defaults of the schema are filled in. */
  readonly fills: boolean;
}

/** `value`: JSON of the value with the defaults of the schema, where it has any. */
export type ThreadAnswer =
  | { readonly value?: string }
  | { readonly code: string; readonly message: string; readonly detail: JsonObject };

/** Longest compilation, milliseconds of processor time: large schemas take far longer to compile than to check by. */
const COMPILE_MS = 500;
const MAX_COMPILED = 64;
/** Priority below that of the host's own threads, which serve all others. */
const PRIORITY = 5;

/** By subject and text, the one used last at the end. */
const compiled = new Map<string, SchemaChecker>();
const newMakers = () => ({ true: new JsonSchemas(), false: new JsonSchemas(false) });
let makers = newMakers();
if (process.platform === 'linux') setPriority(0, PRIORITY);

function answerTo({ schema, value, what, limitMs, fills }: ThreadJob): ThreadAnswer {
  const check = checkerOf(schema, what, fills);
  if (value === undefined) return {};
  const parsed: unknown = JSON.parse(value);
  const checked = limited(limitMs, what, () => check(parsed));
  // A checker that fills in defaults returns a copy.
  return checked === parsed ? {} : { value: JSON.stringify(checked) };
}

function checkerOf(schema: string, what: string, fills: boolean): SchemaChecker {
  const key = `${fills} ${what.length} ${what}${schema}`;
  let check = compiled.get(key);
  if (check === undefined) {
    const parsed = JSON.parse(schema) as JsonSchema;
    load(makers[`${fills}`], parsed);
    // A compilation that was stopped halfway leaves its maker broken: the next try of a busy machine gets another one.
    let tries = 0;
    try {
      check = limited(COMPILE_MS, `the schema of the ${what}`, () => {
        if (tries > 0) makers = newMakers();
        tries += 1;
        return makers[`${fills}`].compileNow(parsed, what);
      });
    } catch (error) {
      makers = newMakers();
      throw error;
    }
  }
  setNewest(compiled, key, check, MAX_COMPILED);
  return check;
}

/** Loads the validator for the dialect of a schema: under the limit it could be stopped halfway. */
function load(maker: JsonSchemas, schema: JsonSchema): void {
  try {
    const { $schema } = schema;
    maker.compileNow({ $schema }, '');
  } catch {
    // The compilation of the schema itself reports the reason.
  }
}

function limited<T>(limitMs: number, what: string, work: () => T): T {
  try {
    return timeLimit(limitMs)(work);
  } catch (error) {
    if (error instanceof HandfastError) throw error;
    const { message, code } = error as NodeJS.ErrnoException;
    const isLate = code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
    const why = isLate ? `could not be checked within ${limitMs} ms` : `could not be checked (${message})`;
    throw new HandfastError('schema_violation', `${what} ${why}`, {
      detail: { path: '', reason: isLate ? 'time' : 'unchecked' },
    });
  }
}

parentPort?.on('message', (job: ThreadJob) => {
  let answer: ThreadAnswer;
  try {
    answer = answerTo(job);
  } catch (thrown) {
    const { code, message, detail } = asError(thrown);
    answer = { code, message, detail };
  }
  parentPort?.postMessage(answer);
});
