/**
 * The state of plugins across restarts of their host: one JSON file per host, replaced as a whole.
 *
 * For hosts whose plugins have state. A file that cannot be read is quarantined, never overwritten, and the host starts without
 * it: a restart must not need an operator.
 */
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../base/log.ts';
import { readRegular } from '../base/regular-file.ts';
import { replaceFile } from '../base/replace-file.ts';
import type { SnapshotStore } from '../host/host.ts';
import { isObject } from '../wire/json.ts';

export interface StateFileOptions {
  /** The user's Handfast folder; the file is `state/<host>.json` in it, 0600 in a folder of 0700. */
  readonly home: string;
  readonly hostId: string;
  readonly log: Log;
  /** Epoch milliseconds; part of the name of a quarantined file. */
  readonly now?: () => number;
}

/** Returns the path of a host's state. */
export function stateFileOf(home: string, hostId: string): string {
  return join(home, 'state', `${hostId}.json`);
}

/** Stores the states of a host's plugins, by plugin name. Neither call rejects: failures are logged. */
export function stateFile({ home, hostId, log, now = Date.now }: StateFileOptions): SnapshotStore {
  const file = stateFileOf(home, hostId);
  return {
    async load() {
      try {
        const text = await readRegular(file).catch((cause: NodeJS.ErrnoException) => {
          if (cause.code === 'ENOENT') return '{}';
          throw cause;
        });
        const states: unknown = JSON.parse(text);
        if (!isObject(states)) throw new Error('not a JSON object');
        return states;
      } catch (error) {
        const quarantine = `${file}.unreadable-${now()}`;
        await rename(file, quarantine).catch(() => {});
        log.error('the state of the plugins cannot be read and was quarantined', { file, quarantine, error });
        return {};
      }
    },

    async save(states) {
      try {
        await replaceFile(file, `${JSON.stringify(states)}\n`);
      } catch (error) {
        log.error('the state of the plugins was not stored', { file, error });
      }
    },
  };
}
