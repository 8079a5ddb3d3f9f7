/**
 * The interface for tool authors: `tool({ name, description, input, run })`.
 *
 * The value is plain data plus `run`; `plugin.ts` of this folder validates arguments, applies defaults, policy and timeouts,
 * and turns the return value of `run` into the `ToolResult` of the wire.
 *
 * @see docs/protocol/a2e.md#tools
 */
import type { JsonSchema } from '../../base/json-schema.ts';
import { valueKind } from '../../base/value-kind.ts';
import type { CallContext } from '../../host/context.ts';
import { fail } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';

export type { JsonSchema };

/**
 * Standard Schema v1, as zod, valibot, arktype and others implement it (https://standardschema.dev). Declares only the members
 * in use here, so that writing a tool needs no schema library.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string;
        readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
      }[];
    };

/**
 * A tool's possible effects. Policies deny by these flags; approvals ask by them.
 *
 * - `reads`: reads files or state of the workspace
 * - `writes`: changes files or state of the workspace
 * - `destructive`: can lose data that cannot be recovered
 * - `network`: talks to other machines
 * - `exec`: runs programs
 */
export type Risk = 'reads' | 'writes' | 'destructive' | 'network' | 'exec';

/** A tool, as its author defines it. */
export interface ToolDefinition<Args = Record<string, unknown>, Result = unknown> {
  /** Unique in its host: letters, digits, `_`, `-`, `.`; at most 128 characters. */
  readonly name: string;
  /** Its effect and the reasons to use it, for the model. */
  readonly description: string;
  /** Shape of the arguments (an object). Omitted = no arguments. Defaults of the schema are filled in. */
  readonly input?: StandardSchema<unknown, Args> | JsonSchema;
  /**
   * The JSON Schema that is published when `input` is a Standard Schema that cannot describe itself. Not needed for
   * JSON Schema input, nor for zod 4 and other vendors that export one.
   */
  readonly inputSchema?: JsonSchema;
  /** Shape of the return value of `run`; a result that does not fit fails the call with `schema_violation`. */
  readonly output?: StandardSchema<unknown, Result> | JsonSchema;
  /** The JSON Schema that is published when `output` is a Standard Schema that cannot describe itself. */
  readonly outputSchema?: JsonSchema;
  /** True when a second call has no further effect: failures become retryable. Default false. */
  readonly idempotent?: boolean;
  /** Offers `tool/event`s. Default true. */
  readonly streaming?: boolean;
  readonly tags?: readonly string[];
  /** Free label for filters of clients (`filter_kind`), e.g. `file`, `shell`. */
  readonly kind?: string;
  readonly risks?: readonly Risk[];
  readonly version?: string;
  /** The toolkit it belongs to; set when a toolkit contains tools. */
  readonly toolkit?: string;
  /** True: plain lists leave it out; a search finds it. */
  readonly deferred?: boolean;
  /** Upper bound for one call in seconds, even if the caller asks for more. */
  readonly maxSeconds?: number;
  /**
   * Does the work. A returned object becomes the result's `data`; any other value becomes `{ value }`; an `exit_code` in it is
   * copied up, as are `summary` and `truncated` when returned through {@link result}. Throw `fail('tool_error', …)` to refuse
   * with details; any other error becomes `tool_error` with its message.
   */
  run(args: Args, context: CallContext): Result | Promise<Result>;
}

/** A tool of any argument type, as lists hold it. */
// biome-ignore lint/suspicious/noExplicitAny: arguments are checked against `input` before `run` sees them
export type AnyTool = ToolDefinition<any, any>;

/**
 * Declares a tool. With a Standard Schema as `input`, the type of `args` comes from it.
 *
 * @example
 * const shout = tool({
 *   name: 'shout',
 *   description: 'Upper-cases a text',
 *   input: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
 *   run: ({ text }: { text: string }) => ({ text: text.toUpperCase() }),
 * });
 */
export function tool<Args = Record<string, unknown>, Result = unknown>(
  definition: ToolDefinition<Args, Result>,
): ToolDefinition<Args, Result> {
  checkTool(definition);
  return definition;
}

const MAX_NAME = 128;

/**
 * Throws `config_invalid` for a value that is no tool, with the mistake: plain JavaScript has no compiler that would find it.
 * @param maxName characters of its name
 */
export function checkTool(definition: unknown, maxName = MAX_NAME): asserts definition is AnyTool {
  if (!isObject(definition))
    throw invalid(`a tool is an object { name, description, run }, got ${valueKind(definition)}`);
  const { name, description, run, input, output } = definition;
  if (typeof name !== 'string' || !/^[\w.-]+$/.test(name) || name.length > maxName) {
    throw invalid(`tool name ${valueKind(name)} must be 1 to ${maxName} letters, digits, "_", "-" or "."`);
  }
  if (typeof run !== 'function') throw invalid(`tool "${name}": run must be a function, got ${valueKind(run)}`);
  if (typeof description !== 'string') {
    throw invalid(`tool "${name}" needs a description, what it does and when to use it, got ${valueKind(description)}`);
  }
  for (const [key, schema] of Object.entries({ input, output })) {
    if (schema === undefined || isObject(schema) || typeof schema === 'function') continue;
    throw invalid(`tool "${name}": ${key} must be a JSON Schema or a Standard Schema, got ${valueKind(schema)}`);
  }
  const { type } = { ...(input as JsonSchema | undefined) };
  if (type !== undefined && !('~standard' in (input as object)) && ![type].flat().includes('object')) {
    throw invalid(
      `tool "${name}": the schema of its arguments is invalid: /type must be "object", got ${valueKind(type)}`,
    );
  }
}

const invalid = (message: string) => fail('config_invalid', message);

/** Marks the values of {@link result}, so that a tool's own object with these keys is never mistaken for one. */
const shaped = Symbol('handfast.result');

/** A result with the fields beside `data` that models and users read first. */
export interface ShapedResult<Data> {
  readonly [shaped]: true;
  readonly data: Data;
  readonly summary?: string;
  readonly truncated?: boolean;
  readonly exitCode?: number;
}

/** Returns `data` together with a one-line summary, a truncation mark or an exit code. */
export function result<Data>(
  data: Data,
  extra: { summary?: string; truncated?: boolean; exitCode?: number } = {},
): ShapedResult<Data> {
  return { [shaped]: true, data, ...extra };
}

/** Returns true for values made by {@link result}. */
export function isShaped(value: unknown): value is ShapedResult<unknown> {
  return typeof value === 'object' && value !== null && shaped in value;
}
