/**
 * Parses a user's arguments for the commands of a capability, and words the errors: the option, the expected value, the
 * given value. All functions fail with `usage`.
 */
import { exactJson } from '../base/exact-json.ts';
import { suggest } from '../base/suggest.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';

/** Longest part of a wrong value that an error shows, in characters. */
const MAX_SHOWN = 80;

/** Returns a whole number of an option, `what` as `--limit`; undefined if it was not given. */
export function wholeNumber(
  value: unknown,
  what: string,
  { least = 0, most = Number.MAX_SAFE_INTEGER }: { readonly least?: number; readonly most?: number } = {},
): number | undefined {
  if (value === undefined) return undefined;
  const number = value === '' ? Number.NaN : Number(value);
  if (Number.isSafeInteger(number) && number >= least && number <= most) return number;
  const range = most < Number.MAX_SAFE_INTEGER ? ` from ${least} to ${most}` : least <= 0 ? '' : ` from ${least}`;
  throw unexpected(what, `a whole number${range}`, value);
}

/** Returns one of some words. */
export function oneOf<const Word extends string>(value: string, what: string, words: readonly Word[]): Word {
  const known = words.find((word) => word === value);
  if (known !== undefined) return known;
  const near = suggest(value, words);
  const all = `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
  throw unexpected(what, all, value, near === undefined ? '' : `; did you mean ${near}?`);
}

/**
 * Returns the JSON object of an argument; empty if it was not given.
 * @param example a valid one, for the error
 */
export function jsonArguments(text: string | undefined, example: string): Readonly<Record<string, unknown>> {
  if (text === undefined) return {};
  return typedObject(text, `the arguments must be a JSON object, e.g. '${example}'`);
}

/**
 * Returns the JSON object in a word. Fails with `message` and the reason: an error of syntax, or digits or keys that it
 * would lose.
 */
export function typedObject(text: string, message: string): Readonly<Record<string, unknown>> {
  const read = exactJson(text);
  if (!('value' in read)) throw fail('usage', `${message}: ${read.message}`);
  if (isObject(read.value)) return read.value;
  throw fail('usage', message);
}

/** Returns the JSON value of a word; a word that is not JSON is a text. Fails for JSON that would lose digits or keys. */
export function jsonOrText(text: string, what: string): unknown {
  const read = exactJson(text);
  if ('value' in read) return read.value;
  if (read.lost !== undefined) throw fail('usage', `${what}: ${read.lost}`);
  return text;
}

/** Returns the error of a value that an option does not accept. */
export function unexpected(what: string, expected: string, value: unknown, advice = ''): HandfastError {
  const text = String(value);
  const got = JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text);
  return fail('usage', `${what}: expected ${expected}, got ${got}${advice}`);
}

/** Returns the error about a named file, if its name causes the failure; else the thrown error. */
export function fileError(thrown: unknown, file: string, what: string): unknown {
  switch ((thrown as NodeJS.ErrnoException | undefined)?.code) {
    case 'ENOENT':
      return fail('usage', `there is no file ${file}`);
    case 'EISDIR':
      return fail('usage', `${file} is a folder; name a file of ${what}`);
    case 'EACCES':
    case 'EPERM':
      return fail('usage', `this user may not use the file ${file}`);
    default:
      return thrown;
  }
}
