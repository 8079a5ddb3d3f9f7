/** Counts the items of a map that have ended: the failed and the skipped ones have no output. Pure. */
import type { ChainError } from '../chains.schema.ts';
import type { RecoveredItem } from './recovery.ts';

/** Maximum number of failed items of a map that its state names with their errors. */
const MAX_FAILED_ITEMS = 20;

/** The failed items of a map: their number and the first of them. */
export class ItemFailures {
  count = 0;
  readonly #first: { readonly index: number; readonly error: ChainError }[] = [];

  add(index: number, error: ChainError): void {
    this.count += 1;
    if (this.#first.length < MAX_FAILED_ITEMS) this.#first.push({ index, error });
  }

  /** The first failed items in the order of the items. */
  get first(): readonly { readonly index: number; readonly error: ChainError }[] {
    return this.#first.toSorted((one, other) => one.index - other.index);
  }
}

/** Counts the items of a map that have ended. */
export function endedItems(items: ReadonlyMap<number, RecoveredItem>) {
  const failed = new ItemFailures();
  let [done, skipped] = [0, 0];
  for (const [index, { outcome }] of items) {
    if (outcome === undefined) continue;
    done += 1;
    if ('error' in outcome) failed.add(index, outcome.error);
    else if ('skipped' in outcome) skipped += 1;
  }
  return { done, failed, skipped };
}
