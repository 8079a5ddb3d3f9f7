/**
 * The stores of this process that cannot store: databases whose sync failed, files on a full disk. Each owner of a store
 * reports its own; the health pages, the log and `handfast doctor` say so.
 */
import type { HandfastError } from '../wire/errors.ts';

export interface FailingStore {
  /** Its name in errors: `the journal file`. */
  readonly store: string;
  readonly code: string;
  /** With the cause and the remedy. */
  readonly message: string;
  /** True when only a restart of the process helps. */
  readonly fatal: boolean;
}

const failing = new Map<object, FailingStore>();
const listeners = new Set<(failure: FailingStore) => void>();

/** A write of `owner` failed. */
export function storeFailed(owner: object, store: string, { code, message }: HandfastError, fatal: boolean): void {
  const before = failing.get(owner);
  if (before?.fatal === true || (before?.message === message && before.fatal === fatal)) return;
  const failure: FailingStore = { store, code, message, fatal };
  failing.set(owner, failure);
  for (const listener of listeners) listener(failure);
}

/** A write of `owner` succeeded, or it was closed. */
export function storeWorks(owner: object): void {
  if (failing.size > 0) failing.delete(owner);
}

/** Those that fail now. */
export const failingStores = (): readonly FailingStore[] => [...failing.values()];

/** Calls `listener` with each new failure. Returns the function that ends it. */
export function onFailingStore(listener: (failure: FailingStore) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
