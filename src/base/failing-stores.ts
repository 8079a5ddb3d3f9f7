/**
 * The stores of this process that cannot store: databases whose sync failed, files on a full disk. Each owner of a
 * store reports failures of that store; the health pages, the log and `handfast doctor` show them.
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

interface Failing {
  readonly failure: FailingStore;
  readonly mayWork: (() => boolean) | undefined;
  /** Time of the last try, monotonic milliseconds. */
  triedAt: number;
}

/** Time between two tries of a store, at least. */
const TRY_MS = 1_000;

const failing = new Map<object, Failing>();
/** Failing stores of threads, as each reported them last. */
const ofThreads = new Map<object, readonly FailingStore[]>();
const listeners = new Set<(failure: FailingStore) => void>();
const changeListeners = new Set<() => void>();

/**
 * Records a failed write of `owner`. `mayWork` tests whether a write would succeed now: a host that is not ready gets
 * no work, and would never learn that the disk has space again.
 */
export function storeFailed(
  owner: object,
  store: string,
  { code, message }: HandfastError,
  fatal: boolean,
  mayWork?: () => boolean,
): void {
  const before = failing.get(owner)?.failure;
  if (before?.fatal === true || (before?.message === message && before.fatal === fatal)) return;
  const failure: FailingStore = { store, code, message, fatal };
  failing.set(owner, { failure, mayWork, triedAt: performance.now() });
  for (const listener of listeners) listener(failure);
  for (const listener of changeListeners) listener();
}

/** Replaces the list of failing stores that a thread reported before. */
export function storesOfThread(thread: object, stores: readonly FailingStore[]): void {
  const before = new Set(ofThreads.get(thread)?.map(({ message }) => message));
  if (stores.length === 0) ofThreads.delete(thread);
  else ofThreads.set(thread, stores);
  for (const store of stores) if (!before.has(store.message)) for (const listener of listeners) listener(store);
}

/** Records that a write of `owner` succeeded, or that it was closed. */
export function storeWorks(owner: object): void {
  if (failing.size === 0 || !failing.delete(owner)) return;
  for (const listener of changeListeners) listener();
}

/** Returns the stores that fail now. */
export function failingStores(): readonly FailingStore[] {
  const now = performance.now();
  for (const [owner, each] of failing) {
    if (each.failure.fatal || each.mayWork === undefined || now - each.triedAt < TRY_MS) continue;
    each.triedAt = now;
    if (each.mayWork()) storeWorks(owner);
  }
  return known();
}

const known = (): FailingStore[] => [
  ...[...failing.values()].map(({ failure }) => failure),
  ...[...ofThreads.values()].flat(),
];

/** Calls `listener` when a store of this thread fails or works again. */
export function onStoresChanged(listener: () => void): void {
  changeListeners.add(listener);
}

/** Calls `listener` with each present failure, and with each new one. Returns the function that ends it. */
export function onFailingStore(listener: (failure: FailingStore) => void): () => void {
  listeners.add(listener);
  for (const failure of known()) listener(failure);
  return () => listeners.delete(listener);
}
