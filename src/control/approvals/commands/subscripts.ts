/**
 * Subscripts in names of variables, which builtins of a shell evaluate: `test -v 'a[$(…)]'`. Pure.
 */
import type { Word } from './shell-syntax.ts';
import { NOTHING, type Started, UNKNOWN } from './started.ts';

/** Returns the text behind the first bracket. */
const behindBracket = (text: string): string => text.slice(text.indexOf('[') + 1 || text.length);

/** Scripts that the shell would run while it reads the names of variables. */
export function subscripts(words: readonly Word[]): Started {
  const scripts = words.flatMap(({ value }) =>
    value !== undefined && /[$`]/.test(behindBracket(value)) ? [value] : [],
  );
  // A bracket outside of quotes is a pattern too, and one that matches nothing stays as it is.
  const quoted = ({ value, text }: Word): boolean => {
    const behind = value === undefined ? behindBracket(text) : '';
    return /\\[$`]/.test(behind) || /[$`]/.test(behind.slice(behind.indexOf("'") + 1 || behind.length));
  };
  return { ...NOTHING, scripts, ...(words.some(quoted) && { unreadable: UNKNOWN }) };
}
