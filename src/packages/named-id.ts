/**
 * Finds the object that an id on the command line names: the whole id, its first characters, or `last`. Prefixes work
 * as in git: one that matches several ids is an error that lists them.
 *
 * For ids of sessions, tasks, runs, subagents and processes.
 */
import { type ErrorName, fail, type HandfastError } from '../wire/errors.ts';

/** Most candidates that an error lists. */
const MAX_LISTED = 5;

/** The words of the errors of {@link byPrefix} for the sought object. */
export interface Sought {
  /** In the singular, e.g. `session`. */
  readonly noun: string;
  /** The error for an id that fits none, by its name or as a function of its message. */
  readonly missing: ErrorName | ((message: string) => HandfastError);
  /** The command that lists them. */
  readonly see: string;
}

const plural = (noun: string): string => (noun.endsWith('s') ? `${noun}es` : `${noun}s`);

const missingError = (missing: Sought['missing'], message: string): HandfastError =>
  typeof missing === 'function' ? missing(message) : fail(missing, message);

/**
 * Returns the candidate that an id or a prefix of an id names. Fails with `usage` when the prefix matches several, and
 * with `missing` when it matches none.
 */
export function byPrefix<Item>(
  given: string,
  candidates: Iterable<Item>,
  idOf: (item: Item) => string,
  { noun, missing, see }: Sought,
): Item {
  if (given.trim() === '') throw fail('usage', `pass the id of a ${noun}, or its first characters; see: ${see}`);
  const found: Item[] = [];
  for (const item of candidates) {
    const id = idOf(item);
    if (id === given) return item;
    if (id.startsWith(given)) found.push(item);
  }
  const [only] = found;
  if (found.length === 1) return only as Item;
  if (only === undefined)
    throw missingError(missing, `no ${noun} has an id that starts with ${JSON.stringify(given)}; see: ${see}`);
  const listed = found.slice(0, MAX_LISTED).map(idOf).join(', ');
  const more = found.length > MAX_LISTED ? ', …' : '';
  throw fail(
    'usage',
    `${found.length} ${plural(noun)} start with ${JSON.stringify(given)}; give more characters: ${listed}${more}`,
  );
}

/** Works as {@link byPrefix}; `last` is the newest. Fails with `missing` if no candidate exists. */
export function lastOrByPrefix<Item>(
  given: string,
  newestFirst: readonly Item[],
  idOf: (item: Item) => string,
  sought: Sought,
): Item {
  if (given !== 'last') return byPrefix(given, newestFirst, idOf, sought);
  const [newest] = newestFirst;
  if (newest === undefined)
    throw missingError(sought.missing, `there are no ${plural(sought.noun)}; see: ${sought.see}`);
  return newest;
}
