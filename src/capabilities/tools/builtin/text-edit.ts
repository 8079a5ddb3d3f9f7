/**
 * Exact replacements in a text: the step of `edit_file` between reading and writing.
 *
 * Line ends are matched loosely and retained: an `old_text` written with `\n` also finds `\r\n`, and inserted text takes the
 * line ends of the file. A conflict reports enough to correct the call without reading the file again.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { fail } from '../../../wire/errors.ts';

export interface Replacement {
  readonly old_text: string;
  readonly new_text: string;
  readonly replace_all?: boolean;
}

export interface EditedText {
  readonly text: string;
  /** Number of replaced places, over all edits. */
  readonly replacements: number;
}

/** Texts up to this length are searched with `indexOf`. */
const SHORT_CHARACTERS = 64;
/** Texts longer than this are not edited twice in one turn of the event loop. */
const LARGE_CHARACTERS = 256 * 1024;
/** Maximum number of places that are replaced, or counted. */
const MAX_PLACES = 100_000;
/** Maximum length of a text after an edit. */
const MAX_CHARACTERS = 16 * 1024 * 1024;
/** Maximum number of line numbers in a conflict report. */
const LISTED_LINES = 20;
/** Maximum number of lines compared in the search for the nearest ones; the rest of a longer file is not compared. */
const COMPARED_LINES = 20_000;
const NEAREST_LINES = 3;
/** Compared and shown characters of a line. */
const COMPARED_CHARACTERS = 200;
/** Search texts of more lines are not compared without their spaces. */
const COMPARED_SEARCH_LINES = 500;
/** Share of common character pairs from which a line counts as similar. */
const SIMILAR = 0.5;

/**
 * Applies the edits in order, each to the result of the one before; all or none. Yields to the event loop between two edits of
 * large texts.
 *
 * Fails with `tool_error` and `detail.reason`: `no_match` (with `nearest` lines, and `whitespace_only: true` when only spaces
 * differ), `ambiguous` (with `count`, up to 100,001, and `lines`), `no_change`, `too_many_places`, `too_large`. `detail.edit`
 * counts from 1.
 */
export async function applyEdits(
  original: string,
  edits: readonly Replacement[],
  signal?: AbortSignal,
): Promise<EditedText> {
  let text = original;
  let replacements = 0;
  for (const [index, edit] of edits.entries()) {
    if (index > 0 && text.length > LARGE_CHARACTERS) await turn();
    signal?.throwIfAborted();
    const step = applyEdit(text, edit, `edit ${index + 1} of ${edits.length}`, index + 1);
    text = step.text;
    replacements += step.replacements;
  }
  return { text, replacements };
}

function applyEdit(text: string, edit: Replacement, label: string, number: number): EditedText {
  if (edit.old_text === edit.new_text) {
    throw fail('tool_error', `${label}: old_text and new_text are the same`, { reason: 'no_change', edit: number });
  }
  const crlf = usesCrlf(text);
  const spans = spansOf(text, edit.old_text);
  if (spans.length === 0) throw noMatch(text, edit.old_text, label, number);
  if (spans.length > 1 && edit.replace_all !== true) throw ambiguous(text, spans, label, number);
  if (spans.length > MAX_PLACES) {
    throw fail('tool_error', `${label}: old_text occurs more than ${MAX_PLACES} times`, {
      reason: 'too_many_places',
      edit: number,
    });
  }
  // Carriage returns in a call are intended.
  const plain = edit.new_text;
  const explicit = plain.includes('\r') || edit.old_text.includes('\r');
  const converted = explicit ? plain : plain.replaceAll('\n', '\r\n');
  const growth = spans.length * Math.max(0, converted.length - edit.old_text.length);
  if (text.length + growth > MAX_CHARACTERS) {
    throw fail('tool_error', `${label}: the file would become too large`, { reason: 'too_large', edit: number });
  }
  const pieces: string[] = [];
  let from = 0;
  for (const { start, end } of spans) {
    const asCrlf = crlf || text.slice(start, end).includes('\r\n');
    pieces.push(text.slice(from, start), asCrlf ? converted : plain);
    from = end;
  }
  pieces.push(text.slice(from));
  return { text: pieces.join(''), replacements: spans.length };
}

/** Returns true when most line ends of the text are `\r\n`. */
export function usesCrlf(text: string): boolean {
  let crlf = 0;
  let bare = 0;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) {
    if (at > 0 && text[at - 1] === '\r') crlf += 1;
    else bare += 1;
  }
  return crlf > bare;
}

/** A piece of the text, end excluded. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** Returns the places of `search`, without overlaps. A `\n` in it also stands for `\r\n`, unless it contains `\r` itself. */
function spansOf(text: string, search: string): Span[] {
  const forgiving = search.includes('\n') && !search.includes('\r') && text.includes('\r\n');
  if (!forgiving) return placesOf(text, search).map((start) => ({ start, end: start + search.length }));
  // Searched in a copy without the carriage returns; each place is moved by the number removed before it.
  let removed = 0;
  let next = text.indexOf('\r\n');
  const original = (place: number): number => {
    while (next !== -1 && next - removed < place) {
      removed += 1;
      next = text.indexOf('\r\n', next + 2);
    }
    return place + removed;
  };
  return placesOf(text.replaceAll('\r\n', '\n'), search).map((place) => ({
    start: original(place),
    end: original(place + search.length),
  }));
}

/** Returns the places of a text in another, without overlaps; at most one more than {@link MAX_PLACES}. */
export function placesOf(text: string, search: string): number[] {
  if (search.length > SHORT_CHARACTERS) return placesOfLong(text, search);
  const places: number[] = [];
  for (let at = text.indexOf(search); at !== -1; at = text.indexOf(search, at + search.length)) {
    if (places.push(at) > MAX_PLACES) break;
  }
  return places;
}

/**
 * Returns these places in time that only depends on the lengths (Knuth, Morris, Pratt): `indexOf` may take their product, which
 * is minutes for a long search in a long text of few different characters.
 */
function placesOfLong(text: string, search: string): number[] {
  /** For each length of a beginning of the search text, the longest shorter beginning it ends with. */
  const fallback = new Int32Array(search.length + 1);
  for (let at = 1, length = 0; at < search.length; at += 1) {
    const character = search.charCodeAt(at);
    while (length > 0 && search.charCodeAt(length) !== character) length = fallback[length]!;
    if (search.charCodeAt(length) === character) length += 1;
    fallback[at + 1] = length;
  }
  const places: number[] = [];
  for (let at = 0, length = 0; at < text.length; at += 1) {
    const character = text.charCodeAt(at);
    while (length > 0 && search.charCodeAt(length) !== character) length = fallback[length]!;
    if (search.charCodeAt(length) === character) length += 1;
    if (length === search.length) {
      if (places.push(at + 1 - length) > MAX_PLACES) break;
      length = 0;
    }
  }
  return places;
}

function ambiguous(text: string, spans: readonly Span[], label: string, number: number): Error {
  const lines: number[] = [];
  let line = 1;
  let from = 0;
  for (const { start } of spans.slice(0, LISTED_LINES)) {
    for (let at = text.indexOf('\n', from); at !== -1 && at < start; at = text.indexOf('\n', at + 1)) line += 1;
    from = start;
    lines.push(line);
  }
  const listed = lines.join(', ') + (spans.length > lines.length ? ', …' : '');
  return fail(
    'tool_error',
    `${label}: old_text occurs ${spans.length} times (lines ${listed}); add surrounding lines to make it unique, or set replace_all`,
    { reason: 'ambiguous', edit: number, count: spans.length, lines },
  );
}

function noMatch(text: string, search: string, label: string, number: number): Error {
  const lines = text.split('\n', COMPARED_LINES);
  const wanted = search.split('\n');
  const spaced = sameButForSpaces(lines, wanted);
  if (spaced !== undefined) {
    return fail(
      'tool_error',
      `${label}: old_text was not found, but the lines from ${spaced + 1} differ only in spaces, tabs or line ends`,
      { reason: 'no_match', edit: number, whitespace_only: true, nearest: shownLines(lines, spaced, wanted.length) },
    );
  }
  const nearest = nearestLines(lines, wanted);
  const hint = nearest.length === 0 ? '' : `; the nearest line is ${nearest[0]!.line}`;
  return fail('tool_error', `${label}: old_text was not found${hint}`, { reason: 'no_match', edit: number, nearest });
}

interface ShownLine {
  readonly line: number;
  readonly text: string;
}

function shownLines(lines: readonly string[], from: number, count: number): ShownLine[] {
  return lines
    .slice(from, from + Math.min(count, LISTED_LINES))
    .map((text, index) => ({ line: from + index + 1, text: shownLine(text) }));
}

function shownLine(text: string): string {
  return text.replace(/\r$/, '').slice(0, COMPARED_CHARACTERS);
}

/** Returns the first line of a run that equals the wanted lines when white space is not counted. */
function sameButForSpaces(lines: readonly string[], wanted: readonly string[]): number | undefined {
  const compact = (line: string): string => line.replace(/\s+/g, '');
  const targets = wanted.map(compact);
  if (targets.length > COMPARED_SEARCH_LINES || targets.every((target) => target === '')) return undefined;
  const compacted = lines.map(compact);
  for (let from = 0; from + targets.length <= compacted.length; from += 1) {
    if (targets.every((target, index) => compacted[from + index] === target)) return from;
  }
  return undefined;
}

/** Returns the lines most like the first significant line of the search text, best first. */
function nearestLines(lines: readonly string[], wanted: readonly string[]): ShownLine[] {
  const anchor = wanted
    .find((line) => line.trim().length > 1)
    ?.trim()
    .slice(0, COMPARED_CHARACTERS);
  if (anchor === undefined) return [];
  const pairs = pairsOf(anchor);
  const scored: { line: number; text: string; score: number }[] = [];
  for (const [index, line] of lines.entries()) {
    const score = similarity(pairs, line.trim().slice(0, COMPARED_CHARACTERS));
    if (score >= SIMILAR) scored.push({ line: index + 1, text: shownLine(line), score });
  }
  scored.sort((one, other) => other.score - one.score || one.line - other.line);
  return scored.slice(0, NEAREST_LINES).map(({ line, text }) => ({ line, text }));
}

/** Returns the neighbouring character pairs of a text, each as one number. */
function pairsOf(text: string): Set<number> {
  const pairs = new Set<number>();
  for (let at = 0; at + 1 < text.length; at += 1) pairs.add(text.charCodeAt(at) * 65_536 + text.charCodeAt(at + 1));
  return pairs;
}

/** Returns twice the common pairs over all pairs (Dice's coefficient), 0 to 1. */
function similarity(pairs: ReadonlySet<number>, line: string): number {
  // Lines of very different length, which most lines are, cannot reach the threshold.
  if (line.length < 2 || line.length * 3 < pairs.size || line.length > pairs.size * 3 + 8) return 0;
  const own = pairsOf(line);
  let common = 0;
  for (const pair of own) if (pairs.has(pair)) common += 1;
  return (2 * common) / (own.size + pairs.size);
}
