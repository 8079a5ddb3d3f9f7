/**
 * Parses points in time that peers and users write: RFC 3339 with an offset, and nothing else.
 *
 * `Date.parse` is not used: it takes dates without an offset, rolls impossible days over and refuses leap seconds.
 * @see docs/protocol/fleet.md#scalars
 */

const DATE_TIME = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/** First and last moment that is written with a year of four digits. */
const EARLIEST = Date.parse('0000-01-01T00:00:00.000Z');
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');

const LEAP_FEBRUARY = 29;
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const;

function daysIn(year: number, month: number): number {
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return month === 2 && leap ? LEAP_FEBRUARY : (DAYS[month - 1] ?? 0);
}

/**
 * Returns the epoch milliseconds of an RFC 3339 date-time, or undefined for any other text. A fraction is cut to
 * milliseconds, second 60 is the next second.
 */
export function parseTimestamp(text: string): number | undefined {
  const parts = DATE_TIME.exec(text);
  if (parts === null) return undefined;
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  if (day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 60) return undefined;
  const offsetHours = Number(parts[9] ?? 0);
  const offsetMinutes = Number(parts[10] ?? 0);
  if (offsetHours > 23 || offsetMinutes > 59) return undefined;
  const offset = (offsetHours * 60 + offsetMinutes) * 60_000 * (parts[8] === '-' ? -1 : 1);
  const fraction = Number((parts[7] ?? '').slice(0, 3).padEnd(3, '0'));
  // Not Date.UTC, which takes the years 0 to 99 for 1900 to 1999.
  const midnight = new Date(0).setUTCFullYear(year, month - 1, day);
  const time = midnight + ((hour * 60 + minute) * 60 + second) * 1000 + fraction - offset;
  return time < EARLIEST || time > LATEST ? undefined : time;
}

/**
 * Returns the epoch milliseconds of a time that a person wrote: a blank may stand for the `T`. Undefined for any other
 * text.
 */
export const parseWrittenTimestamp = (text: string): number | undefined =>
  parseTimestamp(text.replace(/^(\d{4}-\d\d-\d\d) (?=\d)/, '$1T'));

/** The form that errors ask for. */
export const TIMESTAMP_FORM = 'RFC 3339 with an offset, such as 2026-05-31T21:00:00Z or 2026-05-31T23:00:00+02:00';

/** Returns `YYYY-MM-DDThh:mm:ss.mmmZ`, the form in which timestamps are written and compared. */
export const formatTimestamp = (ms: number): string => new Date(ms).toISOString();
