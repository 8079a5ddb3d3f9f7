/**
 * Programs whose operands may be code: of Perl for `rename`, of a shell for `sox`. Pure.
 */
import { isOption } from './options.ts';
import type { Word } from './shell-syntax.ts';
import { NOTHING, OTHER_LANGUAGE, type Started, UNKNOWN } from './started.ts';

/** Some programs called `rename` take code of Perl, the others two texts. */
const RENAMES =
  /^(?:-[a-zA-Z0]+|--[a-z][\w-]*|[\w.,+=:@%/ *?~-]*|(?:s|y|tr)([/|#,])(?:(?!\1)[^@$()\\]|\\[\w.\\/-]|\$\d)*\1(?:(?!\1)[^@$()\\]|\\[\w.\\/-]|\$\d)*\1[gi]*)$/;
export function renamed(words: readonly Word[]): Started {
  const at = words.findIndex((word) => !isOption(word));
  const isKnown = words.every(
    (word, index) =>
      (index > at + 1 && !isOption(word)) ||
      (word.value !== undefined && RENAMES.test(word.value) && !/^-\w*[eE]/.test(word.value)),
  );
  return isKnown ? NOTHING : { ...NOTHING, unreadable: OTHER_LANGUAGE };
}

/** `sox '|PROGRAM' …` reads the output of a program. */
export function sounds(words: readonly Word[]): Started {
  const scripts = words.flatMap(({ value }) =>
    /^\s*\|/.test(value ?? '') ? [(value ?? '').replace(/^\s*\|/, '')] : [],
  );
  const isKnown = words.every((word) => word.value !== undefined || word.head !== '');
  return { ...NOTHING, scripts, ...(!isKnown && { hidden: UNKNOWN }) };
}

/** Queries of a database in the line; its other commands start programs. */
export function queries(words: readonly Word[], starts: RegExp): Started {
  const operands = words.filter((word) => !isOption(word));
  const isKnown = words.every(
    ({ value }) => value !== undefined && !starts.test(value) && !/^-+(?:init|cmd|f|file)/.test(value),
  );
  return isKnown && operands.length > 1 ? NOTHING : { ...NOTHING, unreadable: OTHER_LANGUAGE };
}
