/**
 * A unified diff of two texts, for the answer of `edit_file`: pure, bounded in time and in output.
 *
 * Lines are compared with the greedy shortest-edit search of Myers ("An O(ND) Difference Algorithm and Its
 * Variations", 1986) after the common start and end are set aside. Texts that differ in more than
 * {@link MAX_DISTANCE} lines are shown as one replaced block, which is correct though not the shortest.
 */

/** Edit distance up to which the shortest diff is searched; bounds time and memory by its square. */
const MAX_DISTANCE = 400;

/** Lines, old and new, up to which a changed part is compared at all. */
const MAX_LINES = 20_000;

export interface DiffOptions {
  /** Unchanged lines around each change. Default 3. */
  readonly context?: number;
  /** Longest diff returned, in characters; what is over ends with a line that says so. Default 16,384. */
  readonly maxCharacters?: number;
}

/** One step of the way from the old lines to the new: keep, delete or add one line. */
interface Step {
  readonly mark: ' ' | '-' | '+';
  readonly line: string;
}

/** Lines of a text without their ends; a text that ends with a newline has no empty last line. */
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
export function unifiedDiff(before: string, after: string, options: DiffOptions = {}): string {
  const { context = 3, maxCharacters = 16_384 } = options;
  if (before === after) return '';
  const { start, oldEnd, newEnd } = changedPart(before, after, context);
  const old = linesOf(before.slice(start, oldEnd));
  const fresh = linesOf(after.slice(start, newEnd));
  const skipped = newlinesIn(before, start);
  if (old.length + fresh.length > MAX_LINES) {
    return `@@ -${range(skipped, old.length)} +${range(skipped, fresh.length)} @@\n… too many lines to show\n`;
  }
  return clip(hunks(shortestEdit(old, fresh), skipped, context), maxCharacters);
}

/**
 * The part of the texts that differs, in whole lines, with `context` lines around it. Found by characters: most of a
 * large file is never cut into lines.
 */
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
  // What follows the change is the same on both sides, but need not be at the start of a line on both.
  const whole = lineStart(before, oldEnd) === oldEnd && lineStart(after, after.length - tail) === after.length - tail;
  for (let lines = whole ? 0 : -1; lines < context && oldEnd < before.length; lines += 1) {
    const newline = before.indexOf('\n', oldEnd);
    oldEnd = newline === -1 ? before.length : newline + 1;
  }
  return { start, oldEnd, newEnd: after.length - (before.length - oldEnd) };
}

/** Where the line begins in which the character at `at` stands. */
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

/** Groups the steps into hunks; `skipped` lines come before the first step on both sides. */
function hunks(steps: readonly Step[], skipped: number, context: number): string {
  let text = '';
  let oldLine = skipped;
  let newLine = skipped;
  let index = 0;
  while (index < steps.length) {
    let change = index;
    while (change < steps.length && steps[change]!.mark === ' ') change += 1;
    if (change === steps.length) break;
    const start = Math.max(index, change - context);
    oldLine += start - index;
    newLine += start - index;
    // A hunk ends where more than two contexts of unchanged lines follow, or at the end.
    let end = change + 1;
    for (let at = end; at < steps.length && at - end < 2 * context + 1; at += 1) {
      if (steps[at]!.mark !== ' ') end = at + 1;
    }
    const part = steps.slice(start, Math.min(steps.length, end + context));
    const removed = part.filter((step) => step.mark !== '+').length;
    const added = part.filter((step) => step.mark !== '-').length;
    text += `@@ -${range(oldLine, removed)} +${range(newLine, added)} @@\n`;
    for (const step of part) text += `${step.mark}${step.line}\n`;
    oldLine += removed;
    newLine += added;
    index = start + part.length;
  }
  return text;
}

/** `first,count`; an empty side names the line before it, as diff does. */
function range(before: number, count: number): string {
  return `${count === 0 ? before : before + 1},${count}`;
}

function shortestEdit(old: readonly string[], fresh: readonly string[]): Step[] {
  const trace = search(old, fresh);
  if (trace === undefined) {
    return [...old.map((line): Step => ({ mark: '-', line })), ...fresh.map((line): Step => ({ mark: '+', line }))];
  }
  const steps: Step[] = [];
  let x = old.length;
  let y = fresh.length;
  // Backwards through the furthest points of each distance.
  for (let distance = trace.length - 1; distance >= 0; distance -= 1) {
    const reached = trace[distance]!;
    const at = (diagonal: number): number => reached[diagonal + distance + 1] ?? -1;
    const diagonal = x - y;
    const down = diagonal === -distance || (diagonal !== distance && at(diagonal - 1) < at(diagonal + 1));
    const previous = down ? diagonal + 1 : diagonal - 1;
    const fromX = distance === 0 ? 0 : at(previous);
    const fromY = distance === 0 ? 0 : fromX - previous;
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      steps.push({ mark: ' ', line: old[x]! });
    }
    if (distance === 0) break;
    if (down) steps.push({ mark: '+', line: fresh[--y]! });
    else steps.push({ mark: '-', line: old[--x]! });
  }
  return steps.reverse();
}

/**
 * For each distance d, the furthest x reached on the diagonals -d-1 … d+1 *before* step d; undefined when the texts are
 * further apart than {@link MAX_DISTANCE}.
 */
function search(old: readonly string[], fresh: readonly string[]): Int32Array[] | undefined {
  const most = Math.min(old.length + fresh.length, MAX_DISTANCE);
  const offset = most + 1;
  const furthest = new Int32Array(2 * most + 3).fill(-1);
  furthest[offset + 1] = 0;
  const trace: Int32Array[] = [];
  for (let distance = 0; distance <= most; distance += 1) {
    trace.push(furthest.slice(offset - distance - 1, offset + distance + 2));
    for (let diagonal = -distance; diagonal <= distance; diagonal += 2) {
      const below = furthest[offset + diagonal + 1]!;
      const left = furthest[offset + diagonal - 1]!;
      let x = diagonal === -distance || (diagonal !== distance && left < below) ? below : left + 1;
      let y = x - diagonal;
      while (x < old.length && y < fresh.length && old[x] === fresh[y]) {
        x += 1;
        y += 1;
      }
      furthest[offset + diagonal] = x;
      if (x >= old.length && y >= fresh.length) return trace;
    }
  }
  return undefined;
}
