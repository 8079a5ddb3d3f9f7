/**
 * What a tool author writes: `tool({ name, description, input, run })`.
 *
 * The value is plain data plus `run`; `plugin.ts` of this folder validates arguments, applies defaults, policy and
 * time limits, and turns what `run` returns into the `ToolResult` of the wire.
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
 * Standard Schema v1, as zod, valibot, arktype and others implement it (https://standardschema.dev). Only what is used
 * here is declared, so that no schema library is needed to write a tool.
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
 * What a tool can do to the world. Policies deny by these flags; approvals ask by them.
 *
 * - `reads`: reads files or state of the workspace
 * - `writes`: changes files or state of the workspace
 * - `destructive`: can lose data that cannot be had again
 * - `network`: talks to other machines
 * - `exec`: runs programs
 */
export type Risk = 'reads' | 'writes' | 'destructive' | 'network' | 'exec';

/** A tool as its author writes it. */
export interface ToolDefinition<Args = Record<string, unknown>, Result = unknown> {
  /** Unique in its host: letters, digits, `_`, `-`, `.`; at most 128 characters. */
  readonly name: string;
  /** What it does and when to use it, for the model. */
  readonly description: string;
  /** Shape of the arguments (an object). Omitted = no arguments. Defaults of the schema are filled in. */
  readonly input?: StandardSchema<unknown, Args> | JsonSchema;
  /**
   * The JSON Schema that is published when `input` is a Standard Schema that cannot describe itself. Not needed for
   * JSON Schema input, nor for zod 4 and other vendors that export one.
   */
  readonly inputSchema?: JsonSchema;
  /** Shape of what `run` returns; a result that does not fit fails the call with `schema_violation`. */
  readonly output?: StandardSchema<unknown, Result> | JsonSchema;
  /** The JSON Schema that is published when `output` is a Standard Schema that cannot describe itself. */
  readonly outputSchema?: JsonSchema;
  /** True when calling it twice does no more than calling it once: failures become retryable. Default false. */
  readonly idempotent?: boolean;
  /** Offers `tool/event`s. Default true. */
  readonly streaming?: boolean;
  readonly tags?: readonly string[];
  /** Free label clients filter by (`filter_kind`), e.g. `file`, `shell`. */
  readonly kind?: string;
  readonly risks?: readonly Risk[];
  readonly version?: string;
  /** The toolkit it belongs to; set where a toolkit is made of tools. */
  readonly toolkit?: string;
  /** Left out of plain lists; found by search. */
  readonly deferred?: boolean;
  /** Upper bound for one call in seconds, also when the caller asks for more. */
  readonly maxSeconds?: number;
  /**
   * Does the work. A returned object becomes the result's `data`; anything else `{ value }`; an `exit_code` in it is
   * copied up, as are `summary` and `truncated` when returned through {@link result}. Throw `fail('tool_error', …)` to
   * refuse with details; any other error becomes `tool_error` with its message.
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
 * Throws `config_invalid` for what is no tool, with the mistake: plain JavaScript has no compiler that would find it.
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

/** Marks what {@link result} returns, so that a tool's own object with the same keys is never mistaken for it. */
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

/** True for values made by {@link result}. */
export function isShaped(value: unknown): value is ShapedResult<unknown> {
  return typeof value === 'object' && value !== null && shaped in value;
}
