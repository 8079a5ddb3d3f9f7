/**
 * The rules about the text of files, as pure functions from files to violations; `test/rules.test.ts` calls them.
 */
import type { Source } from './scan.ts';

/** Generated sources are checked for freshness instead of for style. */
export const isGenerated = (path: string): boolean => /\.generated\.ts$|\/generated\//.test(path);

/** Longest source file, in lines: past it there is a second concept to split off. */
export const maxLines = 600;

/** `export default` in any of its forms. */
export function defaultExports(sources: readonly Source[]): string[] {
  return sources
    .filter(({ code }) => /\bexport\s+default\b|\bas\s+default\s*[,}]/.test(code))
    .map(({ path }) => `${path}: has a default export; exports are named`);
}

/** What belongs to the process and its terminal, used outside `src/cli/`. */
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

/** Files that are too long, or do not open with a comment that says what they are. */
export function shapeViolations(sources: readonly Source[]): string[] {
  const violations: string[] = [];
  for (const { path, text } of sources) {
    if (!/^(?:#!.*\n)?\/[*/]/.test(text)) violations.push(`${path}: does not open with a header comment`);
    const lines = text.split('\n').length - 1;
    if (lines > maxLines && !isGenerated(path)) violations.push(`${path}: has ${lines} lines, more than ${maxLines}`);
  }
  return violations;
}

/** Paths of somebody's machine: nobody else has them. */
const machinePath = /(?<![\w.~*/-])\/(?:work|root|builds|(?:home|Users)\/[\w.-]+)\/[\w.-]+/g;
/** Hosts of package registries: the reader's own configuration names those. */
const registryHost = /https?:\/\/registry\.[\w.-]+|\bregistry\.(?:npmjs|yarnpkg)\.[a-z]+|\bnpm\.pkg\.github\.com\b/g;

/** Texts that speak of the place they were written at. */
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

/** The files a page names in code spans: a span with a folder and an extension, from the root or from `src/`. */
export function filesNamedIn(page: string): string[] {
  const spans = [...page.matchAll(/`([\w.-]+(?:\/[\w.-]+)+\.[a-z]+)`/g)].map((match) => match[1]!);
  return [...new Set(spans)];
}

/** The files the comments of a source name by folder and name: `wire/errors.ts`, `docs/errors.md`. */
export function filesNamedInComments(text: string): string[] {
  const comments = [...text.matchAll(/\/\*.*?\*\/|\/\/[^\n]*/gs)].map(([comment]) => comment).join('\n');
  return [
    ...new Set([...comments.matchAll(/[`\s]((?:[\w-]+\/)+[\w.-]+\.(?:ts|md|json))\b/g)].map((match) => match[1]!)),
  ];
}
