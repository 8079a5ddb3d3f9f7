/**
 * Parses times as users write them. Pure.
 */
import { parseWrittenTimestamp } from '../base/timestamp.ts';
import { fail } from '../wire/errors.ts';

const UNITS_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Returns RFC 3339 for `30m`, `2h`, `1h30m`, `45s`, `2d` from now, or for a date and time with an offset.
 *
 * @param now epoch milliseconds
 * @throws usage for anything else
 */
export function parseDeadline(text: string, now: number): string {
  return new Date(parseTime(text, now, 1)).toISOString();
}

/**
 * Returns the epoch milliseconds for `30m`, `2h`, … ago, or of a date and time with an offset.
 *
 * @param now epoch milliseconds
 * @throws usage for anything else
 */
export function parseSince(text: string, now: number): number {
  return parseTime(text, now, -1);
}

function parseTime(text: string, now: number, direction: 1 | -1): number {
  const parts = [...text.matchAll(/(\d{1,6})([smhd])/g)];
  if (parts.length > 0 && parts.map(([part]) => part).join('') === text) {
    const span = parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS_MS[unit as string] as number), 0);
    return now + direction * span;
  }
  const at = parseWrittenTimestamp(text);
  if (at !== undefined) return at;
  throw fail(
    'usage',
    `${JSON.stringify(text)} is not a valid time; use a duration (30m, 2h) or an RFC 3339 date (2026-05-31T21:00:00Z)`,
  );
}
