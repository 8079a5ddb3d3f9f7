/**
 * The regular expressions of conditions: those of RE2, as the Common Expression Language has them, whose time is linear
 * in the text and in the pattern. The only file that knows the package for them.
 */
import { createRequire } from 'node:module';
import type * as Re2 from 're2js';
import { setNewest } from '../evict-oldest.ts';
import type { Steps } from '../steps.ts';

export interface Pattern {
  /** Returns true if any part of a text matches. Counts the text and the pattern. */
  test(text: string, steps: Steps): boolean;
}

/** Longest pattern, in characters. */
const MAX_CHARS = 1_000;

/** Compiling costs this much for each character at worst. */
const STEPS_PER_CHAR = 400;

/** Compiled patterns that are stored. */
const MAX_STORED = 64;

const stored = new Map<string, Pattern>();
let loaded: typeof Re2 | undefined;

/**
 * Compiles a pattern, or returns the stored one. Throws for one that RE2 does not have.
 * @param steps of the evaluation; undefined: the pattern is compiled with its condition
 */
export function patternOf(text: string, steps?: Steps): Pattern {
  const before = stored.get(text);
  if (before !== undefined) {
    steps?.countText(text.length);
    return before;
  }
  if (text.length > MAX_CHARS) throw new Error(`the pattern exceeds ${MAX_CHARS} characters`);
  steps?.count(text.length * STEPS_PER_CHAR);
  loaded ??= createRequire(import.meta.url)('re2js') as typeof Re2;
  const compiled = loaded.RE2JS.compile(text);
  const size = compiled.programSize();
  const pattern: Pattern = {
    test(where, counting) {
      counting.count(size + where.length * size);
      return compiled.test(where);
    },
  };
  setNewest(stored, text, pattern, MAX_STORED);
  return pattern;
}
