/**
 * The reader of the session RPC dialect: walks the short forms of the parameters of a method. Reading is part of the
 * wire contract: the order of the checks, the values that count as absent, and the words of each refusal are fixed.
 *
 * The method values are in `session-rpc.ts` and `fleet-rpc.generated.ts`.
 * @see docs/protocol/session-rpc.md#parameters
 */
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import type { TSchema, Wire } from '../wire/schema.ts';
import type { Member, Members } from './member.ts';

/** A method of session RPC as a value, made of its schema by `npm run generate`; its caller and its handler share it. */
export interface RpcMethod<Params extends object = Readonly<Record<string, unknown>>, Result = unknown> {
  readonly name: string;
  /** `ignored`: `params` may be any value. `optional`: absent and `null` count as `{}`. `required`: an object. */
  readonly takes: 'ignored' | 'optional' | 'required';
  /** In the order in which they are checked. */
  readonly params: Members;
  /** Carries the types only; never set. */
  readonly types?: { readonly params: Params; readonly result: Result };
}

/** The method value of a schema. */
export type MethodOf<S extends { readonly params: TSchema; readonly result: TSchema }> = RpcMethod<
  // No members: TypeBox gives `object`, which has no members to destructure.
  keyof Wire<S['params']> extends never ? Record<never, never> : Wire<S['params']>,
  Wire<S['result']>
>;

/** The parameters of a method, as a handler gets them and a caller passes them. */
export type ParamsOf<M> = M extends RpcMethod<infer Params, unknown> ? Params : never;

/** The result of a method. */
export type ResultOf<M> = M extends RpcMethod<object, infer Result> ? Result : never;

/** Returns the protocol's error for a parameter of the wrong kind. */
export function wrongParam(method: string, field: string, expected: string): Error {
  return fail('schema_violation', `invalid params for ${method}: \`${field}\` must be ${expected}`, { field });
}

/** Returns the expected value of a parameter, in the words of its refusal. */
function expectedOf({ as, needed, oneOf = [] }: Member): string {
  switch (as) {
    case 'string':
      return needed ? 'a non-empty string' : 'a string';
    case 'boolean':
      return 'a boolean';
    case 'number':
      return 'a finite number';
    case 'array':
      return 'an array of strings';
    case 'object':
      return 'an object';
    default:
      return `one of: ${oneOf.join(', ')}`;
  }
}

function fits({ as, needed, oneOf = [] }: Member, value: unknown): boolean {
  switch (as) {
    case 'string':
      return typeof value === 'string' && (!needed || value !== '');
    case 'boolean':
      return typeof value === 'boolean';
    case 'number':
      return Number.isFinite(value);
    case 'array':
      return Array.isArray(value) && value.every((item) => typeof item === 'string');
    case 'object':
      return isObject(value);
    default:
      return oneOf.includes(value as string);
  }
}

/** Most characters of a text that is no prompt: an id, a name, a title, a path. Requests are answered with it, and lists hold it. */
export const MAX_TEXT_CHARS = 4096;
/** Most characters of the text of a prompt, and of others that a user writes. A longer message has images, or is an import. */
export const MAX_PROSE_CHARS = 1024 * 1024;

/** Reads one parameter: undefined where it is absent, `null`, or a blank text. */
function readParam(member: Member, given: unknown, field: string, method: string): unknown {
  if (member.as === 'any') return given;
  const value = member.as === 'string' && typeof given === 'string' ? given.trim() : (given ?? undefined);
  if (value === undefined && !member.needed) return undefined;
  if (!fits(member, value)) throw wrongParam(method, field, expectedOf(member));
  const most = member.long === true ? MAX_PROSE_CHARS : MAX_TEXT_CHARS;
  if (typeof value === 'string' && value.length > most) {
    throw wrongParam(method, field, `at most ${most} characters long`);
  }
  if (member.refusal !== undefined && !member.oneOf?.includes(value as string)) {
    throw fail('schema_violation', member.refusal, { field });
  }
  return value === '' ? undefined : value;
}

/** Reads the parameters of a request. Fails with `schema_violation` and `detail.field`, the first one in declared order. */
export function readParams<Params extends object>(method: RpcMethod<Params, unknown>, params: unknown): Params {
  const read: Record<string, unknown> = {};
  if (method.takes === 'ignored') return read as Params;
  const body = method.takes === 'optional' ? (params ?? {}) : params;
  if (!isObject(body)) throw fail('schema_violation', `invalid params for ${method.name}: expected object`);
  for (const [name, member] of Object.entries(method.params)) {
    read[name] = readParam(member, Object.hasOwn(body, name) ? body[name] : undefined, name, method.name);
  }
  return read as Params;
}
