/**
 * Small parts that the schemas of messages share.
 */
import { type TSchema, Type } from '../wire/schema.ts';

/** Returns the schema of a text, in members that need few words. */
export const text = (description?: string) => Type.String({ description });
export const flag = (description?: string) => Type.Boolean({ description });
export const number = (description?: string) => Type.Number({ description });

/** Returns the schema of any JSON object. Not Type.Record: that compiles into a loop over every key. */
export const anyObject = (description?: string) =>
  Type.Unsafe<Readonly<Record<string, unknown>>>({ type: 'object', ...(description && { description }) });

type Members = Readonly<Record<string, TSchema>>;

/** Returns the schema of an object, described before its members. */
export const shape = <P extends Members>(description: string, members: P) => Type.Object(members, { description });

/** Returns the schema of one of some words. */
export const oneOf = <const W extends string>(words: readonly W[], description?: string, more: object = {}) =>
  Type.Unsafe<W>({ enum: words, ...(description && { description }), ...more });

/** Returns the schema of a member that may be left out. */
export const may = <T extends TSchema>(schema: T) => Type.Optional(schema);

/** Returns the schema of the value or null. */
export const orNull = <T extends TSchema>(schema: T) => {
  const { description, ...rest } = schema as T & { readonly description?: string };
  return Type.Union([rest as unknown as T, Type.Null()], { ...(description && { description }) });
};
