/**
 * The size of a value as JSON, found without writing it: a value that holds another one many times, over many levels,
 * is small in memory and endless as text. Pure; for values that users' expressions make.
 */

/** The bound that a value is beyond. */
export type BeyondBound = 'chars' | 'depth' | 'values';

export interface JsonBounds {
  /** Characters at most. */
  readonly chars: number;
  /** Values inside each other at most. */
  readonly depth: number;
  /** Values at most. Default: as many as the characters allow. */
  readonly values?: number;
}

/**
 * Returns the characters of a value as JSON, with one more for each list and object and without those of escapes; or
 * the bound that the value exceeds: the rest of the value was not visited.
 */
export function jsonChars(value: unknown, bounds: JsonBounds): number | BeyondBound {
  const { chars, depth, values = Number.POSITIVE_INFINITY } = bounds;
  let charsLeft = chars;
  let valuesLeft = values;
  const take = (count: number): BeyondBound | undefined => {
    charsLeft -= count;
    return charsLeft < 0 ? 'chars' : undefined;
  };
  const look = (each: unknown, level: number): BeyondBound | undefined => {
    valuesLeft -= 1;
    if (valuesLeft < 0) return 'values';
    if (typeof each === 'string') return take(each.length + 2);
    if (typeof each !== 'object' || each === null) return take(String(each).length);
    if (level === depth) return 'depth';
    let beyond = take(2);
    if (Array.isArray(each)) {
      for (const item of each) {
        beyond ??= take(1) ?? look(item, level + 1);
        if (beyond !== undefined) return beyond;
      }
      return beyond;
    }
    for (const name in each) {
      if (!Object.hasOwn(each, name)) continue;
      beyond ??= take(name.length + 4) ?? look((each as Readonly<Record<string, unknown>>)[name], level + 1);
      if (beyond !== undefined) return beyond;
    }
    return beyond;
  };
  return look(value, 0) ?? chars - charsLeft;
}
