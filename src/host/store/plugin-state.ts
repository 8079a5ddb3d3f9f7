/**
 * The state of the plugins of one host: opened when the first of them needs it, closed with the host. A host whose
 * plugins store nothing loads no database.
 */
import type { Log } from '../../base/log.ts';
import { type DatabaseLoss, recordedLoss } from '../../base/sqlite/losses.ts';
import type { StorageShares } from '../../session/storage-shares.ts';
import { fail } from '../../wire/errors.ts';
import type { StateDatabase } from './store.ts';

export interface PluginStateOptions {
  /** A path; undefined: in memory. */
  readonly file: string | undefined;
  readonly storage: StorageShares | undefined;
  readonly log: Log;
  readonly now: () => number;
  /** Called once, when a file was opened. */
  readonly opened?: (() => void) | undefined;
  /** Called when an opened file has lost writes. */
  readonly lost: () => void;
  /** Returns the sessions that exist, with their owners: state of other sessions is dropped at opening. */
  readonly sessions: () => ReadonlyMap<string, string>;
}

export class PluginState {
  readonly #options: PluginStateOptions;
  #database: StateDatabase | undefined;
  #loss: DatabaseLoss | undefined;
  #closed = false;

  constructor(options: PluginStateOptions) {
    this.#options = options;
  }

  /** The loss of the opened file. */
  get loss(): DatabaseLoss | undefined {
    return this.#loss;
  }

  /** Opens a file that may have lost writes, so that agents learn of it in their handshake. Never rejects. */
  async openDoubtful(): Promise<void> {
    const { file } = this.#options;
    if (file === undefined || !process.getBuiltinModule('node:fs').existsSync(`${file}.mark`)) return;
    try {
      const { Mark, sameAsClosed } = await import('../../base/sqlite/mark.ts');
      if (sameAsClosed(new Mark(`${file}.mark`), file) && recordedLoss(file) === undefined) return;
      await this.open();
    } catch {
      // The first request that needs the file fails with the reason.
    }
  }

  /** The database; the first call opens it. Fails as `openStateDatabase` does, and with `interrupted` once closed. */
  readonly open = async (): Promise<StateDatabase> => {
    const { noteLoss, openStateDatabase } = await import('./database.ts');
    if (this.#closed) throw fail('interrupted', 'the host has stopped');
    const { file = ':memory:', storage, log, now, sessions } = this.#options;
    if (this.#database !== undefined) return this.#database;
    this.#database = openStateDatabase({
      file,
      storage,
      now,
      sessions: sessions(),
      onCorrupt: ({ reason, movedTo }) =>
        log.error('the store of the plugins was damaged; a new one was created', { file, reason, movedTo }),
      onLoss: (loss) => {
        noteLoss(log, loss);
        this.#loss = loss;
      },
    });
    if (this.#loss !== undefined) this.#options.lost();
    if (file !== ':memory:') this.#options.opened?.();
    return this.#database;
  };

  /** Deletes the state of a session that ended. */
  dropSession(session: string): void {
    void this.#database?.dropSession(session);
  }

  close(): void {
    this.#closed = true;
    this.#database?.close();
  }
}
