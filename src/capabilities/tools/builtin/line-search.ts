/**
 * Finds the lines of one text that match, with their surroundings. Pure.
 */
import { fail } from '../../../wire/errors.ts';

/** Longest line returned; a longer one is cut around the match. */
const SHOWN_CHARACTERS = 400;
/** Characters shown before the match in a cut line. */
const SHOWN_BEFORE = 100;

export interface LineQuery {
  readonly pattern: string;
  /** True: the pattern is plain text. */
  readonly literal: boolean;
  readonly ignore_case: boolean;
}

export interface LineMatch {
  /** Counted from 1. */
  readonly line: number;
  /** Start of the match in the line, in UTF-16 units counted from 1. */
  readonly column: number;
  readonly text: string;
  readonly before?: readonly string[];
  readonly after?: readonly string[];
}

/** Returns the position of a match in a line, counted from 0, or -1. */
export type LineTest = (line: string) => number;

/**
 * Compiles a query. Tries regular expressions with the `u` flag first and, when that refuses them, without it. Fails with
 * `tool_error`, `detail.reason: 'bad_pattern'`.
 */
export function lineTest(query: LineQuery): LineTest {
  const { pattern, literal, ignore_case } = query;
  if (literal && pattern.includes('\n')) {
    throw fail('tool_error', 'lines are searched one by one, so the pattern must not contain a line end', {
      reason: 'bad_pattern',
    });
  }
  if (literal && !ignore_case) return (line) => line.indexOf(pattern);
  const expression = compile(
    literal ? pattern.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&') : pattern,
    ignore_case ? 'i' : '',
  );
  return (line) => expression.exec(line)?.index ?? -1;
}

function compile(source: string, flags: string): RegExp {
  try {
    return new RegExp(source, `${flags}u`);
  } catch {
    try {
      return new RegExp(source, flags);
    } catch (error) {
      throw fail('tool_error', `invalid regular expression: ${(error as Error).message.slice(0, 200)}`, {
        reason: 'bad_pattern',
      });
    }
  }
}

export interface LineSearchOptions {
  /** Lines of context; a line is never returned twice. */
  readonly before: number;
  readonly after: number;
  /** Maximum number of returned matches. */
  readonly limit: number;
}

export interface LineSearchResult {
  readonly matches: LineMatch[];
  /** True when there are more matches than `limit`. */
  readonly more: boolean;
}

interface OpenMatch {
  line: number;
  column: number;
  text: string;
  before?: string[];
  after?: string[];
}

/** Returns the matching lines of a text. Line ends, `\r\n` included, are no part of a line. */
export function searchLines(text: string, test: LineTest, options: LineSearchOptions): LineSearchResult {
  const matches: OpenMatch[] = [];
  /** Lines before the current one that were not returned yet, newest last. */
  let recent: string[] = [];
  let wantedAfter = 0;
  for (const { line, number } of linesIn(text)) {
    const at = test(line);
    if (at !== -1) {
      if (matches.length === options.limit) return { matches, more: true };
      const match: OpenMatch = { line: number, column: at + 1, text: cutAround(line, at) };
      if (recent.length > 0) match.before = recent;
      matches.push(match);
      recent = [];
      wantedAfter = options.after;
    } else if (wantedAfter > 0) {
      const last = matches[matches.length - 1]!;
      last.after ??= [];
      last.after.push(cutAround(line, 0));
      wantedAfter -= 1;
    } else if (options.before > 0) {
      recent.push(cutAround(line, 0));
      if (recent.length > options.before) recent.shift();
    }
  }
  return { matches, more: false };
}

/** Returns the number of matching lines. */
export function countLines(text: string, test: LineTest): number {
  let count = 0;
  for (const { line } of linesIn(text)) if (test(line) !== -1) count += 1;
  return count;
}

function* linesIn(text: string): Generator<{ line: string; number: number }, void, undefined> {
  let number = 1;
  for (let from = 0; from < text.length; number += 1) {
    const newline = text.indexOf('\n', from);
    const end = newline === -1 ? text.length : newline;
    const stop = end > from && text[end - 1] === '\r' ? end - 1 : end;
    yield { line: text.slice(from, stop), number };
    from = end + 1;
  }
}

function cutAround(line: string, at: number): string {
  if (line.length <= SHOWN_CHARACTERS) return line;
  const from = Math.max(0, Math.min(at - SHOWN_BEFORE, line.length - SHOWN_CHARACTERS));
  const to = from + SHOWN_CHARACTERS;
  return `${from > 0 ? '…' : ''}${line.slice(from, to).toWellFormed()}${to < line.length ? '…' : ''}`;
}
