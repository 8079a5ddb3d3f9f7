/**
 * The rules about the text of files, as pure functions from files to violations; `test/rules.test.ts` calls them.
 */
import { blank, type Source } from './scan.ts';

/** Returns true for generated sources, which are checked for freshness instead of for style. */
export const isGenerated = (path: string): boolean => /\.generated\.ts$|\/generated\//.test(path);

/** Longest source file, in lines: a longer one has a second concept to split off. */
export const maxLines = 600;

/** Returns the uses of `export default` in any of its forms. */
export function defaultExports(sources: readonly Source[]): string[] {
  return sources
    .filter(({ code }) => /\bexport\s+default\b|\bas\s+default\s*[,}]/.test(code))
    .map(({ path }) => `${path}: has a default export; exports are named`);
}

/** Returns the uses of members of the process and its terminal outside `src/cli/`. */
export function processViolations(sources: readonly Source[]): string[] {
  const violations: string[] = [];
  for (const { path, code } of sources) {
    if (path.startsWith('src/cli/')) continue;
    for (const [used] of code.matchAll(/\bconsole\s*\.\s*\w+|\bprocess\s*\.\s*(?:argv|exit|exitCode)\b/g)) {
      violations.push(`${path}: uses ${used}; only src/cli/ talks to the terminal and ends the process`);
    }
  }
  return violations;
}

/** Returns the reads of the grant `admin` past `may` and outside the folder of rights. */
export function adminReads(sources: readonly Source[]): string[] {
  return sources
    .filter(({ path }) => !path.startsWith('src/session/'))
    .filter(({ code }) => /\.\s*admin\b|[{,]\s*admin\s*[,}]/.test(code))
    .map(({ path }) => `${path}: reads the grant admin; ask may(principal, 'administer')`);
}

/** Returns files that are too long, or do not open with a comment that describes them. */
export function shapeViolations(sources: readonly Source[]): string[] {
  const violations: string[] = [];
  for (const { path, text } of sources) {
    if (!/^(?:#!.*\n)?\/[*/]/.test(text)) violations.push(`${path}: does not open with a header comment`);
    const lines = text.split('\n').length - 1;
    if (lines > maxLines && !isGenerated(path)) violations.push(`${path}: has ${lines} lines, more than ${maxLines}`);
  }
  return violations;
}

/** Paths of one machine: no other has them. */
const machinePath = /(?<![\w.~*/-])\/(?:work|root|builds|(?:home|Users)\/[\w.-]+)\/[\w.-]+/g;
/** Hosts of package registries: the reader's own configuration names those. */
const registryHost = /https?:\/\/registry\.[\w.-]+|\bregistry\.(?:npmjs|yarnpkg)\.[a-z]+|\bnpm\.pkg\.github\.com\b/g;

/** Returns lines that an unfinished merge left. */
export function mergeViolations(files: Iterable<{ readonly path: string; readonly text: string }>): string[] {
  const violations: string[] = [];
  for (const { path, text } of files) {
    if (/^(?:<{7}|>{7}|\|{7}) /m.test(text)) violations.push(`${path}: an unfinished merge`);
  }
  return violations;
}

/** Returns texts that name the place where they were written. */
export function placeViolations(files: Iterable<{ readonly path: string; readonly text: string }>): string[] {
  const violations: string[] = [];
  for (const { path, text } of files) {
    for (const pattern of [machinePath, registryHost]) {
      for (const match of text.matchAll(pattern)) {
        const line = text.slice(0, match.index).split('\n').length;
        violations.push(`${path}:${line}: names ${match[0]}`);
      }
    }
  }
  return violations;
}

/** Returns the files that a page names in code spans: a span with a folder and an extension, from the root or from `src/`. */
export function filesNamedIn(page: string): string[] {
  const spans = [...page.matchAll(/`([\w.-]+(?:\/[\w.-]+)+\.[a-z]+)`/g)].map((match) => match[1]!);
  return [...new Set(spans)];
}

/** Returns the files that the comments of a source name by folder and name: `wire/errors.ts`, `docs/errors.md`. */
export function filesNamedInComments(text: string): string[] {
  const comments = [...text.matchAll(/\/\*.*?\*\/|\/\/[^\n]*/gs)].map(([comment]) => comment).join('\n');
  return [
    ...new Set([...comments.matchAll(/[`\s]((?:[\w-]+\/)+[\w.-]+\.(?:ts|md|json))\b/g)].map((match) => match[1]!)),
  ];
}

/** Returns the files that they name by name alone: `errors.ts`. */
export function bareFilesNamedInComments(text: string): string[] {
  const comments = [...text.matchAll(/\/\*.*?\*\/|\/\/[^\n]*/gs)].map(([comment]) => comment).join('\n');
  return [...new Set([...comments.matchAll(/`([\w.-]+\.ts)`/g)].map((match) => match[1]!))];
}

/** Words that hide the actor, or for which the field has a term: name the actor; "again", "continues", "is reported". */
const vagueWords =
  /\b(?:who(?:m)?ever|whatever|somebody|nobody|anew|doorkeeper|doorway|front doors?|sh(?:ake|akes|aking|ook) hands|(?:is|are|was|were|be|being) told|go(?:es|ing|ne)? on|went on)\b/gi;

/** Returns the comments of a source and its matches of `expression`, without their first characters; lines stay in place. */
function wordsOf(text: string, expression: RegExp): string {
  const { withStrings } = blank(text);
  const blanked = text.replace(/[^\n]/g, (char, at: number) => (withStrings[at] === char ? ' ' : char));
  const kept = [...blanked.matchAll(/\/\*.*?\*\/|\/\/[^\n]*/gs)];
  const chars = [...text.replace(/[^\n]/g, ' ')];
  for (const { index, 0: words } of [...kept, ...withStrings.matchAll(expression)]) {
    for (let at = 1; at < words.length; at += 1) chars[index + at] = text[index + at]!;
  }
  return chars.join('');
}

/** The call of a test with its title. */
const titles = /\b(?:test|it|describe|natsTest)(?:\.\w+)?\(\s*(['`]).*?\1/gs;
/** Any string: those of a schema with a capital are descriptions. */
const strings = /(['"`])(?:\\.|(?!\1)[^\\\n])*\1/g;
/** A description of a tool, or the help of a command. */
const descriptions = /(?<=\b(?:description|help)\s*:\s*)(['"`])(?:\\.|(?!\1)[^\\])*\1/g;

/**
 * Returns vague words in texts for readers: pages without their code, sources, and for tests the comments and titles;
 * test data is free.
 */
export function wordViolations(files: Iterable<{ readonly path: string; readonly text: string }>): string[] {
  const violations: string[] = [];
  for (const { path, text } of files) {
    if (!/\.(?:ts|md)$/.test(path) || text.search(vagueWords) < 0) continue;
    let words = text;
    if (path.endsWith('.md')) words = text.replace(/`[^`\n]*`/g, (code) => ' '.repeat(code.length));
    else if (path.startsWith('test/')) words = wordsOf(text, titles);
    for (const { index, 0: word } of words.matchAll(vagueWords)) {
      violations.push(`${path}:${text.slice(0, index).split('\n').length}: "${word}"`);
    }
  }
  return violations;
}

/** A first word that makes a clause of the subject, with the rest of its sentence. */
const clauseStarts =
  /(?<![\w"'`“-])(?:What|Who|Whose|That which|So many)\b(?!\.\w)(?:(?![.!?](?:[\s"')*]|$)|\n\s*\n|\|)[\s\S])*[.!?|]?/g;

/**
 * Returns sentences, headings, list items and table cells that begin with a clause in place of a subject: in pages
 * without their code, in comments, and in descriptions of schemas and commands. Questions are free, and titles of decisions.
 */
export function clauseViolations(files: Iterable<{ readonly path: string; readonly text: string }>): string[] {
  const violations: string[] = [];
  for (const { path, text } of files) {
    if (!/\.(?:ts|md)$/.test(path) || text.search(clauseStarts) < 0) continue;
    const words = path.endsWith('.md')
      ? text.replace(/^ *```.*?^ *```|`[^`\n]*`/gms, (code) => code.replace(/[^\n]/g, ' '))
      : wordsOf(text, path.endsWith('.schema.ts') ? strings : descriptions);
    for (const { index, 0: sentence } of words.matchAll(clauseStarts)) {
      const line = text.slice(0, index).split('\n').length;
      if (sentence.endsWith('?') || (line === 1 && path.startsWith('docs/decisions/'))) continue;
      violations.push(`${path}:${line}: "${/^[\w ]{0,40}(?<=\w)/.exec(sentence)![0]}"`);
    }
  }
  return violations;
}
