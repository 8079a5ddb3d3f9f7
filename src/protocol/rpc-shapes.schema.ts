/**
 * Declares methods of session RPC: a name, parameters, a result, and one line for the reference. Parameters are
 * declared with the kinds of this file, in the order in which they are checked.
 *
 * `npm run generate` writes the method values from these declarations.
 * @see docs/protocol/session-rpc.md#parameters
 */
import { type TSchema, Type } from '../wire/schema.ts';
import { NOTE } from './member.ts';
import { oneOf } from './shapes.schema.ts';

type Members = Readonly<Record<string, TSchema>>;

const described = (description: string | undefined) => description && { description };

/** Returns the schema of a string that is not blank; trimmed. */
export const textParam = (description?: string) => Type.String({ minLength: 1, ...described(description) });
/**
 * Returns the schema of a text that a user writes: it has at most a million characters. The reader bounds all other
 * texts.
 */
export const proseParam = () => Type.String({ minLength: 1, [NOTE]: { long: true } });
/** Returns the schema of `true` or `false` only. */
export const flagParam = (description?: string) => Type.Boolean(described(description) || {});

/** Returns the schema of a parameter that may be left out or null. */
export const optional = <T>(schema: object, description?: string) =>
  Type.Optional(Type.Unsafe<T>({ ...schema, ...described(description) }));
/** Returns the schema of a string, trimmed; a blank one counts as absent. */
export const optionalText = (description?: string) => optional<string>({ type: ['string', 'null'] }, description);
export const optionalProse = () => optional<string>({ type: ['string', 'null'], [NOTE]: { long: true } });
export const optionalFlag = (description?: string) => optional<boolean>({ type: ['boolean', 'null'] }, description);
/** Returns the schema of a finite number. */
export const optionalNumber = (description?: string) => optional<number>({ type: ['number', 'null'] }, description);
export const optionalTexts = (description?: string) =>
  optional<readonly string[]>({ type: ['array', 'null'], items: { type: 'string' } }, description);
export const optionalObject = (description?: string) =>
  optional<Readonly<Record<string, unknown>>>({ type: ['object', 'null'] }, description);
/** Returns the schema of one of some words, compared exactly. */
export const optionalWord = <const W extends string>(words: readonly W[], description?: string) =>
  optional<W>({ enum: [...words, null] }, description);
/** Returns the schema of any value; the method checks it itself. */
export const anything = (description?: string) => Type.Optional(Type.Unknown(described(description) || {}));
/**
 * Returns the schema of one of some words, trimmed; another one is refused with these words, before the later
 * parameters are checked.
 */
export const wordParam = <const W extends string>(words: readonly W[], refusal: string) =>
  oneOf(words, undefined, { [NOTE]: { as: 'string', refusal } });

type Takes = 'ignored' | 'optional' | 'required';

/**
 * Declares a method: `rpcMethod(name, summary).params({ … }).returns(result)`. With `params`, `params` must hold an
 * object; with `optionalParams`, absent and `null` count as `{}`; with `anyParams`, any value is accepted and ignored.
 */
export const rpcMethod = (name: string, summary: string) => {
  const taking =
    (takes: Takes) =>
    <P extends Members>(params: P) => ({
      returns: <R extends TSchema>(result: R) => ({ name, summary, takes, params: Type.Object(params), result }),
    });
  return {
    params: taking('required'),
    optionalParams: taking('optional'),
    anyParams: () => taking('ignored')({}),
  };
};
