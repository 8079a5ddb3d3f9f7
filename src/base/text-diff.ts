/**
 * A unified diff of two texts, bounded in time and in output: the changes of `edit_file`, the changes that a call
 * awaiting approval would make. The only file that knows `diff`, which it loads with the first diff.
 *
 * The common start and end are removed first: most of a large file is never cut into lines. Texts that differ in more
 * than {@link MAX_DISTANCE} lines are shown as one replaced block, which is correct though not the shortest.
 */

/** Edit distance up to which the shortest diff is searched; bounds time and memory by its square. */
const MAX_DISTANCE = 400;

/** Lines, old and new, up to which a changed part is compared at all. */
const MAX_LINES = 20_000;

export interface DiffOptions {
  /** Unchanged lines around each change. Default 3. */
  readonly context?: number;
  /** Longest diff returned, in characters; a longer one ends with a line that states the cut. Default 16,384. */
  readonly maxCharacters?: number;
}

/** Changed lines with their context. Numbers are of the first line and count from 1. */
interface Hunk {
  readonly oldStart: number;
  readonly oldLines: number;
  readonly newStart: number;
  readonly newLines: number;
  readonly lines: readonly string[];
}

/** Returns the lines of a text without their ends; a text that ends with a newline has no empty last line. */
function linesOf(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  return lines.map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line));
}

/**
 * Hunks (`@@ -1,4 +1,5 @@` …) that lead from `before` to `after`; empty when the lines are the same. Line ends are no
 * part of a line, so a change of line ends alone is not shown.
 */
export async function unifiedDiff(before: string, after: string, options: DiffOptions = {}): Promise<string> {
  const { context = 3, maxCharacters = 16_384 } = options;
  if (before === after) return '';
  const { start, oldEnd, newEnd } = changedPart(before, after, context);
  const old = linesOf(before.slice(start, oldEnd));
  const fresh = linesOf(after.slice(start, newEnd));
  const skipped = newlinesIn(before, start);
  if (old.length + fresh.length > MAX_LINES) {
    return `@@ -${range(skipped + 1, old.length)} +${range(skipped + 1, fresh.length)} @@\n… too many lines to show\n`;
  }
  return clip(await hunks(old, fresh, skipped, context), maxCharacters);
}

/** Returns the hunks of two lists of lines; both texts have `skipped` other lines before them. */
async function hunks(
  old: readonly string[],
  fresh: readonly string[],
  skipped: number,
  context: number,
): Promise<string> {
  const { structuredPatch } = await import('diff');
  const ended = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');
  const options = { context, maxEditLength: MAX_DISTANCE };
  const patch = structuredPatch('', '', ended(old), ended(fresh), '', '', options);
  return (patch?.hunks ?? [replaced(old, fresh)])
    .map(({ oldStart, oldLines, newStart, newLines, lines }) => {
      const places = `-${range(skipped + oldStart, oldLines)} +${range(skipped + newStart, newLines)}`;
      return `@@ ${places} @@\n${ended(lines)}`;
    })
    .join('');
}

/** Returns a hunk that replaces all lines. */
function replaced(old: readonly string[], fresh: readonly string[]): Hunk {
  const lines = [...old.map((line) => `-${line}`), ...fresh.map((line) => `+${line}`)];
  return { oldStart: 1, oldLines: old.length, newStart: 1, newLines: fresh.length, lines };
}

/** Returns the part of the texts that differs, in whole lines, with `context` lines around it. Found by characters. */
function changedPart(
  before: string,
  after: string,
  context: number,
): { start: number; oldEnd: number; newEnd: number } {
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before.charCodeAt(start) === after.charCodeAt(start)) start += 1;
  let tail = 0;
  const most = shorter - start;
  while (tail < most && before.charCodeAt(before.length - 1 - tail) === after.charCodeAt(after.length - 1 - tail)) {
    tail += 1;
  }
  start = lineStart(before, start);
  for (let lines = 0; lines < context; lines += 1) start = lineStart(before, start - 1);
  let oldEnd = before.length - tail;
  // The text after the change is the same on both sides, but need not be at the start of a line on both.
  const whole = lineStart(before, oldEnd) === oldEnd && lineStart(after, after.length - tail) === after.length - tail;
  for (let lines = whole ? 0 : -1; lines < context && oldEnd < before.length; lines += 1) {
    const newline = before.indexOf('\n', oldEnd);
    oldEnd = newline === -1 ? before.length : newline + 1;
  }
  return { start, oldEnd, newEnd: after.length - (before.length - oldEnd) };
}

/** Returns the start of the line with the character at `at`. */
function lineStart(text: string, at: number): number {
  return at <= 0 ? 0 : text.lastIndexOf('\n', at - 1) + 1;
}

function newlinesIn(text: string, end: number): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at !== -1 && at < end; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}

function clip(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  return `${text.slice(0, text.lastIndexOf('\n', maxCharacters) + 1)}… the diff continues\n`;
}

/** Returns `first,count`; an empty side names the line before it, as diff does. */
function range(first: number, count: number): string {
  return `${count === 0 ? first - 1 : first},${count}`;
}
