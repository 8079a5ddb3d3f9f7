/**
 * Applies the rules of `.gitignore` files to a path. The only file that imports the `ignore` package.
 *
 * Rules of nested files are rewritten to start at the top of the walk and stored in one list, outer before inner, so that
 * the last matching rule decides as git has it.
 */
import ignore, { type Ignore } from 'ignore';

/** The rules that apply in one directory; directories below add to them. */
export interface IgnoreRules {
  /** Returns true for an ignored path; `path` from the top, without a leading or trailing slash. */
  ignores(path: string, directory: boolean): boolean;
  /** Returns these rules and those of a `.gitignore` found in `directory` (`''` = the top). */
  with(directory: string, text: string): IgnoreRules;
}

/** The rules of a tree without any `.gitignore`. */
export const noRules: IgnoreRules = rulesOf([]);

function rulesOf(lines: readonly string[]): IgnoreRules {
  // Case matters to git on the file systems where it matters to the system.
  const matcher: Ignore | undefined =
    lines.length === 0 ? undefined : ignore({ ignorecase: false, allowRelativePaths: true }).add(lines);
  return {
    ignores: (path, directory) => matcher?.ignores(directory ? `${path}/` : path) ?? false,
    with: (directory, text) => rulesOf([...lines, ...text.split('\n').flatMap((line) => fromTop(directory, line))]),
  };
}

/** Returns one line of the `.gitignore` in `directory` as a rule that starts at the top; nothing for blanks and comments. */
function fromTop(directory: string, line: string): string[] {
  const text = line.endsWith('\r') ? line.slice(0, -1) : line;
  if (text.trim() === '' || text.startsWith('#')) return [];
  if (directory === '') return [text];
  const negative = text.startsWith('!');
  const pattern = negative ? text.slice(1) : text;
  // `\#` and `\!` are escapes only at the start of a line, where the pattern no longer is.
  const bare = pattern.replace(/^\\([#!])/, '$1');
  const slash = bare.indexOf('/');
  // A slash before the end ties the pattern to its directory; without one it applies at any depth.
  const tied = slash !== -1 && slash < bare.trimEnd().length - 1;
  const place = directory.replace(/[\\*?[\]]/g, '\\$&');
  const rule = tied ? `/${place}/${bare.replace(/^\//, '')}` : `/${place}/**/${bare}`;
  return [negative ? `!${rule}` : rule];
}
