/**
 * How parameters of session RPC are declared and read. Reading is part of the wire contract: the order of the checks,
 * what counts as "not given", and the message of each refusal are fixed, so no general validator is used here.
 *
 * Called by `session-rpc.ts` (declarations) and `control/rpc/` (reading).
 * @see docs/protocol/session-rpc.md#parameters
 */
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';

/** A JSON Schema of one parameter, for the published reference. */
export type ParamSchema = Readonly<Record<string, unknown>>;

/** One parameter: its JSON Schema, whether it must be there, and how it is read. */
export interface Param<T> {
  readonly schema: ParamSchema;
  readonly required: boolean;
  /** Returns the normalised value. Fails with `schema_violation` and `detail.field`. */
  read(value: unknown, field: string, method: string): T;
}

/** Fails as the protocol says for a parameter of the wrong kind. */
export function wrongParam(method: string, field: string, expected: string): Error {
  return fail('schema_violation', `invalid params for ${method}: \`${field}\` must be ${expected}`, { field });
}

const given = (value: unknown): boolean => value !== undefined && value !== null;

/** A string that is not blank, trimmed. */
export const text: Param<string> = {
  schema: { type: 'string', minLength: 1 },
  required: true,
  read(value, field, method) {
    const trimmed = typeof value === 'string' ? value.trim() : '';
    if (trimmed === '') throw wrongParam(method, field, 'a non-empty string');
    return trimmed;
  },
};

/** A string, trimmed; blank, `null` and absent all mean "not given". */
export const optionalText: Param<string | undefined> = {
  schema: { type: ['string', 'null'] },
  required: false,
  read(value, field, method) {
    if (!given(value)) return undefined;
    if (typeof value !== 'string') throw wrongParam(method, field, 'a string');
    return value.trim() || undefined;
  },
};

/** `true` or `false` only. */
export const flag: Param<boolean> = {
  schema: { type: 'boolean' },
  required: true,
  read(value, field, method) {
    if (typeof value !== 'boolean') throw wrongParam(method, field, 'a boolean');
    return value;
  },
};

/** A boolean; `null` and absent mean "not given". */
export const optionalFlag: Param<boolean | undefined> = {
  schema: { type: ['boolean', 'null'] },
  required: false,
  read(value, field, method) {
    return given(value) ? flag.read(value, field, method) : undefined;
  },
};

/** A finite number; `null` and absent mean "not given". */
export const optionalNumber: Param<number | undefined> = {
  schema: { type: ['number', 'null'] },
  required: false,
  read(value, field, method) {
    if (!given(value)) return undefined;
    if (typeof value !== 'number' || !Number.isFinite(value)) throw wrongParam(method, field, 'a finite number');
    return value;
  },
};

/** Anything; the method looks at it itself. */
export const anything: Param<unknown> = { schema: {}, required: false, read: (value) => value };

/** A list of strings; `null` and absent mean "not given". */
export const optionalTexts: Param<readonly string[] | undefined> = {
  schema: { type: ['array', 'null'], items: { type: 'string' } },
  required: false,
  read(value, field, method) {
    if (!given(value)) return undefined;
    if (!Array.isArray(value) || value.some((item) => typeof item !== 'string')) {
      throw wrongParam(method, field, 'an array of strings');
    }
    return value as string[];
  },
};

/** A JSON object; `null` and absent mean "not given". */
export const optionalObject: Param<Readonly<Record<string, unknown>> | undefined> = {
  schema: { type: ['object', 'null'] },
  required: false,
  read(value, field, method) {
    if (!given(value)) return undefined;
    if (typeof value !== 'object' || Array.isArray(value)) throw wrongParam(method, field, 'an object');
    return value as Record<string, unknown>;
  },
};

/** One of some words, compared exactly; `null` and absent mean "not given". */
export function optionalChoice<const Word extends string>(...words: readonly Word[]): Param<Word | undefined> {
  return {
    schema: { enum: [...words, null] },
    required: false,
    read(value, field, method) {
      if (!given(value)) return undefined;
      if (!words.includes(value as Word)) throw wrongParam(method, field, `one of: ${words.join(', ')}`);
      return value as Word;
    },
  };
}

/** The declared parameters of a method, in the order they are checked. */
export type Params = Readonly<Record<string, Param<unknown>>>;

/** What a handler is given for declared parameters. */
export type ParamsOf<Fields extends Params> = {
  readonly [Name in keyof Fields]: Fields[Name] extends Param<infer T> ? T : never;
};

/** What a caller may pass: normalised values, with everything optional that need not be given. */
export type ArgumentsOf<Fields extends Params> = {
  readonly [Name in keyof Fields as undefined extends ParamsOf<Fields>[Name] ? never : Name]: ParamsOf<Fields>[Name];
} & {
  readonly [Name in keyof Fields as undefined extends ParamsOf<Fields>[Name] ? Name : never]?: ParamsOf<Fields>[Name];
};

/** A method of session RPC as a value: caller, handler, published schema and reference come from it. */
export interface RpcMethod<Fields extends Params = Params, Result = unknown> {
  readonly name: string;
  /**
   * `ignored`: anything may stand in `params`. `optional`: absent and `null` count as `{}`. `required`: an object.
   */
  readonly takes: 'ignored' | 'optional' | 'required';
  readonly fields: Fields;
  /** One line for the reference. */
  readonly summary: string;
  /** Only its type is used. */
  readonly result?: Result;
}

/** Declares a method; `rpcMethod<Result>()(name, takes, fields, summary)`. */
export function rpcMethod<Result>() {
  return <Fields extends Params>(
    name: string,
    takes: RpcMethod['takes'],
    fields: Fields,
    summary: string,
  ): RpcMethod<Fields, Result> => ({ name, takes, fields, summary });
}

/** Reads the parameters of a request. Fails with `schema_violation`, the first field in declared order. */
export function readParams<Fields extends Params>(method: RpcMethod<Fields>, params: unknown): ParamsOf<Fields> {
  const read: Record<string, unknown> = {};
  if (method.takes === 'ignored') return read as ParamsOf<Fields>;
  const body = method.takes === 'optional' && !given(params) ? {} : params;
  if (!isObject(body)) {
    throw fail('schema_violation', `invalid params for ${method.name}: expected object`);
  }
  for (const [name, param] of Object.entries(method.fields)) {
    const value = Object.hasOwn(body, name) ? (body as Record<string, unknown>)[name] : undefined;
    read[name] = param.read(value, name, method.name);
  }
  return read as ParamsOf<Fields>;
}
