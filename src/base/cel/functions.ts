/**
 * Functions of the Common Expression Language on texts and lists, whose work grows with their arguments: each counts it
 * first, and searches in linear time. The package has all other functions, for small values.
 */
import type { Steps } from '../steps.ts';
import { placeIn, splitAt } from '../text-search.ts';
import { patternOf } from './pattern.ts';
import { NO_VALUE } from './values.ts';

type Method = (self: string, args: readonly unknown[], steps: Steps) => unknown;

function text(value: unknown): string {
  if (typeof value !== 'string') throw NO_VALUE;
  return value;
}

/** Returns a position in a text, from 0. */
function place(value: unknown, least: number, most: number): number {
  if (typeof value !== 'bigint') throw NO_VALUE;
  const at = Number(value);
  if (at < least || at > most) throw NO_VALUE;
  return at;
}

function indexOf(self: string, [searched, from]: readonly unknown[], steps: Steps): bigint {
  const what = text(searched);
  if (from === undefined) return BigInt(placeIn(self, what, steps));
  if (what === '') return BigInt(place(from, 0, Number.MAX_SAFE_INTEGER));
  return BigInt(placeIn(self, what, steps, { from: place(from, 0, self.length - 1) }));
}

function lastIndexOf(self: string, [searched, from]: readonly unknown[], steps: Steps): bigint {
  const what = text(searched);
  if (from === undefined) return BigInt(placeIn(self, what, steps, { last: true }));
  if (what === '') return BigInt(place(from, 0, Number.MAX_SAFE_INTEGER));
  const before = self.slice(0, place(from, 0, self.length - 1) + what.length);
  return BigInt(placeIn(before, what, steps, { last: true }));
}

function split(self: string, [by, most]: readonly unknown[], steps: Steps): string[] {
  const at = text(by);
  if (most !== undefined && typeof most !== 'bigint') throw NO_VALUE;
  if (most === 0n) return [];
  const parts = splitAt(self, at, steps);
  const limit = Number(most ?? -1);
  if (limit < 0 || parts.length <= limit) return parts;
  steps.countText(self.length);
  return [...parts.slice(0, limit - 1), parts.slice(limit - 1).join(at)];
}

function matches(self: string, [pattern]: readonly unknown[], steps: Steps): boolean {
  let compiled: ReturnType<typeof patternOf>;
  try {
    compiled = patternOf(text(pattern), steps);
  } catch (error) {
    // An invalid pattern has no value; the errors of the steps pass through.
    if (error instanceof Error && error.name === 'RE2JSSyntaxException') throw NO_VALUE;
    throw error;
  }
  return compiled.test(self, steps);
}

const counted =
  (of: (self: string) => string): Method =>
  (self, _, steps) => {
    steps.countText(self.length);
    return of(self);
  };

function beginning(of: (self: string, part: string) => boolean): Method {
  return (self, [part], steps) => {
    steps.countText(text(part).length / 8);
    return of(self, text(part));
  };
}

/** Methods of texts. */
export const textMethods: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['startsWith', beginning((self, start) => self.startsWith(start))],
  ['endsWith', beginning((self, end) => self.endsWith(end))],
  ['contains', (self, [part], steps) => placeIn(self, text(part), steps) !== -1],
  ['indexOf', indexOf],
  ['lastIndexOf', lastIndexOf],
  ['lowerAscii', counted((self) => self.toLowerCase())],
  ['upperAscii', counted((self) => self.toUpperCase())],
  ['trim', counted((self) => self.trim())],
  ['split', split],
  ['matches', matches],
  [
    'substring',
    (self, [start, end], steps) => {
      const from = place(start, 0, self.length);
      const to = end === undefined ? self.length : place(end, from, self.length);
      steps.countText(to - from);
      return self.substring(from, to);
    },
  ],
]);

/** `list.join(separator)`. */
export function join(items: readonly unknown[], [by = '']: readonly unknown[], steps: Steps): string {
  const between = text(by);
  // Counted before the text is made: the items may be one shared text.
  for (const item of items) steps.countText(text(item).length + between.length);
  return items.join(between);
}
