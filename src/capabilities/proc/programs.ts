/**
 * Decides which programs may run. A rule is a program, or a program and a pattern for each argument: `*` stands for any
 * characters within one argument, a last word `**` for any further arguments. In front of the program `NAME=pattern` allows a
 * variable. Programs are compared by their real files, and the one that the rule names is run: no link and no second program of
 * that name takes its place.
 *
 * Pure, except that it reads the file system.
 */
import { realpathSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { isExecutable, programInPath } from '../../base/program-file.ts';
import { type CommandRule, commandRule, fitsWords } from '../../base/wildcard.ts';

/** A program and its arguments. */
export type Words = readonly [string, ...string[]];

/** Returns the executable file that a name means: a path unchanged, other names in PATH. Undefined: not found. */
function fileOf(program: string, path: string, folder: string): string | undefined {
  if (!program.includes('/')) return programInPath(program, path);
  const file = isAbsolute(program) ? program : join(folder, program);
  return isExecutable(file) ? file : undefined;
}

/** Returns true when arguments fit; a program alone may have any arguments. */
const argumentsFit = (patterns: readonly string[], given: readonly string[]): boolean =>
  patterns.length === 0 || fitsWords(patterns, given);

/** A command line to run, with the program of a rule that allows it. */
export interface Allowed {
  readonly words: Words;
  /** The rule. */
  readonly rule: CommandRule;
}

/**
 * Returns the command line to run by each rule that allows it, in the order of the rules; empty: none does.
 * @param path the PATH in which names are looked up
 * @param folder start of a relative path
 */
export function allowed(cmd: Words, rules: readonly string[], path: string, folder: string): Allowed[] {
  const [program, ...given] = cmd;
  const file = fileOf(program, path, folder);
  return rules.flatMap((text): Allowed[] => {
    const rule = commandRule(text);
    const [named = '', ...patterns] = rule.words;
    if (named === '' || !argumentsFit(patterns, given)) return [];
    const own = fileOf(named, path, '/');
    // If the program of the rule does not exist, starting it reports that.
    const isIt = own === undefined ? named === program : file !== undefined && realpathSync(own) === realpathSync(file);
    return isIt ? [{ words: [own ?? named, ...given], rule }] : [];
  });
}
