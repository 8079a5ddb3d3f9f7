/**
 * Lists in pages of a fixed size. A cursor is the position where the next page starts; clients cannot interpret it.
 */
import { invalidParams, type Params } from './protocol.ts';

/** Items on a page. */
const PAGE = 200;

/** Returns the page that the params ask for. Throws `RpcError` for a cursor that no page gave. */
export function pageOf<Item>(name: string, items: readonly Item[], { cursor }: Params): Record<string, unknown> {
  const from = cursor === undefined ? 0 : placeOf(cursor);
  if (from === undefined || (from > 0 && from >= items.length)) throw invalidParams('params.cursor is not valid');
  const end = from + PAGE;
  return { [name]: items.slice(from, end), ...(end < items.length && { nextCursor: `p${end}` }) };
}

function placeOf(cursor: unknown): number | undefined {
  const place = typeof cursor === 'string' ? /^p(\d{1,9})$/.exec(cursor)?.[1] : undefined;
  return place === undefined ? undefined : Number(place);
}
