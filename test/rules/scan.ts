/**
 * Reads TypeScript sources for `test/rules.test.ts`: the imports of a file, and its code without comments and strings.
 *
 * A custom scanner instead of a parser: it needs no package, reads the whole tree in milliseconds, and only has to
 * understand the formatter's output (semicolons, no exotic import forms).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The root of the repository. */
export const root = dirname(dirname(import.meta.dirname));

/** One import or re-export of a file. */
export interface ImportOf {
  readonly specifier: string;
  /** `import type … from`, `export type … from`: nothing is loaded at run time. */
  readonly typeOnly: boolean;
  /** `import(…)`: loaded when the line runs, not when the module is loaded. */
  readonly lazy: boolean;
}

export interface Source {
  /** From the root of the repository, with `/`. */
  readonly path: string;
  readonly text: string;
  /** The text with comments, strings, template texts and regular expressions replaced by blanks; same length and lines. */
  readonly code: string;
  readonly imports: readonly ImportOf[];
}

const wordBeforeRegex = /\b(?:return|typeof|case|in|of|do|else|void|delete|instanceof|new|throw|yield|await)$/;
const signBeforeRegex = /[([{,;=:!&|?+\-*%<>~^}]$/;

/** Returns true when a `/` after this code starts a regular expression and not a division. */
function regexMayStart(before: string): boolean {
  const code = before.trimEnd();
  return code === '' || signBeforeRegex.test(code) || wordBeforeRegex.test(code);
}

/**
 * Returns the index just after a quoted text, a regular expression or the like that starts at `start` and ends with
 * `end`.
 */
function skipDelimited(text: string, start: number, end: string): number {
  let inClass = false;
  for (let index = start + 1; index < text.length; index += 1) {
    const char = text[index];
    if (char === '\\') index += 1;
    else if (end === '/' && char === '[') inClass = true;
    else if (end === '/' && char === ']') inClass = false;
    else if (char === end && !inClass) return index + 1;
    else if (char === '\n') return index;
  }
  return text.length;
}

/**
 * Splits a source into code and text.
 *
 * `code` has everything except code blanked; `withStrings` has only comments and regular expressions blanked.
 */
export function blank(text: string): { code: string; withStrings: string } {
  const blanks = (from: number, to: number) => text.slice(from, to).replace(/[^\n]/g, ' ');
  let code = '';
  let withStrings = '';
  // One entry for each enclosing template: the number of open braces in its current `${…}`.
  const templates: number[] = [];
  let index = 0;
  // Text that cannot start or end a token is taken in one piece.
  const plain = /[^/'"`{}]+/y;
  const take = (to: number, kind: 'code' | 'string' | 'comment') => {
    code += kind === 'code' ? text.slice(index, to) : blanks(index, to);
    withStrings += kind === 'comment' ? blanks(index, to) : text.slice(index, to);
    index = to;
  };
  /** Takes template text up to the closing backtick or the next `${`. */
  const takeTemplateText = () => {
    let to = index + 1;
    while (to < text.length) {
      if (text[to] === '\\') to += 2;
      else if (text[to] === '`') return take(to + 1, 'string');
      else if (text.startsWith('${', to)) {
        templates.push(0);
        return take(to + 2, 'string');
      } else to += 1;
    }
    take(text.length, 'string');
  };
  while (index < text.length) {
    const char = text[index]!;
    const next = text[index + 1];
    if (char === '#' && next === '!' && index === 0) take(endOf(text, index, '\n'), 'comment');
    else if (char === '/' && next === '/') take(endOf(text, index, '\n'), 'comment');
    else if (char === '/' && next === '*') take(endOf(text, index + 2, '*/'), 'comment');
    else if (char === '"' || char === "'") take(skipDelimited(text, index, char), 'string');
    else if (char === '`') takeTemplateText();
    else if (char === '/' && regexMayStart(code.slice(-200))) take(skipDelimited(text, index, '/'), 'comment');
    else if (char === '}' && templates.at(-1) === 0) {
      templates.pop();
      takeTemplateText();
    } else {
      if (templates.length > 0 && char === '{') templates[templates.length - 1]! += 1;
      if (templates.length > 0 && char === '}') templates[templates.length - 1]! -= 1;
      plain.lastIndex = index + 1;
      take(index + 1 + (plain.exec(text)?.[0].length ?? 0), 'code');
    }
  }
  return { code, withStrings };
}

/** Returns the index after the next `mark`, or the end of the text. */
function endOf(text: string, from: number, mark: string): number {
  const at = text.indexOf(mark, from);
  return at === -1 ? text.length : at + mark.length;
}

const staticImport = /\b(?:import|export)\b(\s+type\b)?([^'"`;()=]*?)\bfrom\s*(['"])([^'"\n]+)\3/g;
const bareImport = /\bimport\s*(['"])([^'"\n]+)\1/g;
const lazyImport = /\b(?:import|getBuiltinModule)\s*\(\s*(['"`])([^'"`\n]+)\1/g;

/** Returns everything that a source imports, in no particular order. */
export function importsOf(text: string): ImportOf[] {
  const { code, withStrings } = blank(text);
  // The keyword must be code: an import inside a string or a template is only text.
  const real = (match: RegExpExecArray) => code[match.index] !== ' ';
  const found: ImportOf[] = [];
  for (const match of withStrings.matchAll(staticImport)) {
    if (real(match)) found.push({ specifier: match[4]!, typeOnly: match[1] !== undefined, lazy: false });
  }
  for (const match of withStrings.matchAll(bareImport)) {
    if (real(match)) found.push({ specifier: match[2]!, typeOnly: false, lazy: false });
  }
  for (const match of withStrings.matchAll(lazyImport)) {
    if (real(match)) found.push({ specifier: match[2]!, typeOnly: false, lazy: true });
  }
  return found;
}

/** Makes a {@link Source} of a text; tests of the rules use it to write offenders. */
export function source(path: string, text: string): Source {
  return { path, text, code: blank(text).code, imports: importsOf(text) };
}

/** Folders that hold nothing the project wrote. */
const notOurs = new Set(['node_modules', 'dist', '.git', 'coverage', '.handfast']);

/** Returns every file below a folder of the repository, as paths from its root, sorted. */
export function filesBelow(folder: string): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) {
      if (!notOurs.has(entry.name)) found.push(...filesBelow(path));
    } else if (entry.isFile() && !notOurs.has(entry.name)) found.push(path);
  }
  return found.sort();
}

/** Reads every TypeScript file below a folder of the repository. */
export function sourcesBelow(folder: string): Source[] {
  return filesBelow(folder)
    .filter((path) => path.endsWith('.ts'))
    .map((path) => source(path, readFileSync(join(root, path), 'utf8')));
}
