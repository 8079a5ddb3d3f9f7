/**
 * The common part of the tools of capabilities in sessions: their offers, and the reading of their arguments.
 */
import type { ToolOffer } from '../../control/rounds/toolbox.ts';
import { fail } from '../../wire/errors.ts';

/** A JSON Schema, or a part of one. */
export type Schema = Readonly<Record<string, unknown>>;

/** Arguments of a call. */
export type Input = Readonly<Record<string, unknown>>;

/** The offer of a tool that is found by search. */
export const foundOffer = (
  kind: string,
  name: string,
  description: string,
  risks: readonly string[],
  properties: Schema,
  required: readonly string[] = [],
): ToolOffer => {
  const inputSchema = { type: 'object', properties, required, additionalProperties: false };
  return { name, description, inputSchema, kind, risks, tags: [kind], deferred: true };
};

/** Returns the schema of a text that is not empty. */
export const text = (description: string) => ({ type: 'string', minLength: 1, description });

/** Returns the schema of a whole number. */
export const whole = (description: string, minimum: number, maximum: number) => ({
  type: 'integer',
  minimum,
  maximum,
  description,
});

/** Returns the schema of a yes or no. */
export const flag = (description: string) => ({ type: 'boolean', description });

/** Returns the schema of a list of texts. */
export const texts = (description: string) => ({ type: 'array', items: { type: 'string' }, description });

/** @throws schema_violation for a value that is no text, or an empty one */
export function textIn(value: unknown, field: string): string {
  if (typeof value === 'string' && value !== '') return value;
  throw fail('schema_violation', `/${field} must be a text that is not empty`);
}

/** Reads as {@link textIn}, for an argument that may be left out. */
export const optionalText = (value: unknown, field: string): string | undefined =>
  value === undefined ? undefined : textIn(value, field);

/** @throws schema_violation for a value that is no list of texts */
export function textsIn(value: unknown, field: string): string[] {
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value;
  throw fail('schema_violation', `/${field} must be a list of texts`);
}

/** Reads as {@link textsIn}, for an argument that may be left out. */
export const optionalTexts = (value: unknown, field: string): string[] | undefined =>
  value === undefined ? undefined : textsIn(value, field);

/** Reads a whole number that may be left out. @throws schema_violation outside of its bounds */
export function wholeIn(value: unknown, field: string, minimum: number, maximum: number): number | undefined {
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && (value as number) >= minimum && (value as number) <= maximum) return value as number;
  throw fail('schema_violation', `/${field} must be a whole number from ${minimum} to ${maximum}`);
}

/** Returns the members that were given. */
export const given = <Members extends object>(
  members: Members,
): { [Key in keyof Members]?: NonNullable<Members[Key]> } =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;

/** Longest wait of one call for work that outlives it; less than a call may last. */
export const MAX_WAIT_SECONDS = 600;
const DEFAULT_WAIT_SECONDS = 300;

/** The argument of tools that wait. */
export const waitSeconds = whole(
  `Longest wait for the result; the work continues after it. 0: do not wait. Default ${DEFAULT_WAIT_SECONDS}.`,
  0,
  MAX_WAIT_SECONDS,
);

/** That argument in milliseconds. @throws schema_violation */
export const waitMsOf = (value: unknown, defaultSeconds = DEFAULT_WAIT_SECONDS): number =>
  1000 * (wholeIn(value, 'wait_seconds', 0, MAX_WAIT_SECONDS) ?? defaultSeconds);
