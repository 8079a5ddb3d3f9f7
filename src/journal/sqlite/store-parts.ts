/**
 * The options of the SQLite journal's store, and its durable batch.
 */
import type { Mark } from '../../base/sqlite/mark.ts';
import type { HandfastError } from '../../wire/errors.ts';
import type { Retention } from '../journal.ts';
import type { JournalShares } from '../shares.ts';
import type { SqliteSession } from './session.ts';

export interface StoreOptions {
  /** See `SqliteJournalOptions.retentionOf`. */
  readonly retentionOf?: Readonly<Record<string, Retention>>;
  /** Counts the writes, and shows at opening that some are missing. Without one no loss is noticed. */
  readonly mark?: Mark;
  /** See `SqliteJournalOptions.onDamaged`. */
  readonly onDamaged?: (error: HandfastError) => void;
  /** See `SqliteJournalOptions.namesReturn`. */
  readonly namesReturn?: boolean;
  /** See `SqliteJournalOptions.sparing`. */
  readonly sparing?: boolean | undefined;
  /** See `SqliteJournalOptions.shares`. */
  readonly shares?: JournalShares;
}

/** The content of the next durable commit. Its promise is the one every durable `append` of the batch returned. */
export interface Batch {
  readonly committed: PromiseWithResolvers<void>;
  readonly sessions: Set<SqliteSession>;
  readonly deleted: Set<string>;
  readonly timer: NodeJS.Immediate;
  entries: number;
  bytes: number;
}
