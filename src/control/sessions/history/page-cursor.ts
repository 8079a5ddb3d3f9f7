/**
 * Cursors of lists: text that means nothing to a client and names a place that does not move while the list is written to.
 */
import { wrongParam } from '../../../protocol/rpc-reader.ts';

/** Writes a position in a list as text. */
export function writeCursor(place: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

type CursorValue = 'string' | 'number' | 'number?';

/** Reads the place a cursor names: values of these types. Fails with `schema_violation` when it is none of this server. */
export function readCursor<const Types extends readonly CursorValue[]>(
  cursor: string,
  types: Types,
  method: string,
  field: string,
): {
  readonly [At in keyof Types]: Types[At] extends 'string'
    ? string
    : Types[At] extends 'number'
      ? number
      : number | undefined;
} {
  let place: unknown;
  try {
    place = JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    // Reported below.
  }
  const fits =
    Array.isArray(place) &&
    place.length <= types.length &&
    types.every((type, at) =>
      type === 'number?' ? ['number', 'undefined'].includes(typeof place[at]) : typeof place[at] === type,
    );
  if (!fits) throw wrongParam(method, field, 'a cursor of this server');
  return place as never;
}

/** Returns the number of rows of a page: `limit` in whole numbers between 1 and `most`; absent, and 0, mean `usual`. */
export function pageSize(limit: number | undefined, usual: number, most: number): number {
  if (limit === undefined || limit === 0) return usual;
  return Math.min(Math.max(1, Math.floor(limit)), most);
}
