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

/** Returns the comments of a source and the titles of its tests, everything else blank; lines stay at their positions. */
function wordsOf(text: string): string {
  const { withStrings } = blank(text);
  const blanked = text.replace(/[^\n]/g, (char, at: number) => (withStrings[at] === char ? ' ' : char));
  const kept = [...blanked.matchAll(/\/\*.*?\*\/|\/\/[^\n]*/gs)];
  const titles = [...withStrings.matchAll(/\b(?:test|it|describe|natsTest)(?:\.\w+)?\(\s*(['`]).*?\1/gs)];
  const chars = [...text.replace(/[^\n]/g, ' ')];
  for (const { index, 0: words } of [...kept, ...titles]) {
    for (let at = 0; at < words.length; at += 1) chars[index + at] = text[index + at]!;
  }
  return chars.join('');
}

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
    else if (path.startsWith('test/')) words = wordsOf(text);
    for (const { index, 0: word } of words.matchAll(vagueWords)) {
      violations.push(`${path}:${text.slice(0, index).split('\n').length}: "${word}"`);
    }
  }
  return violations;
}
