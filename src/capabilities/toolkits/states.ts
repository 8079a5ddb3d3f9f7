/**
 * The state of the toolkits in each session: the enabled ones, their configurations, and the tools that searches found. One
 * small file for each session that changed something, so that a session that outlives its host has its state again.
 *
 * A configuration holds names of secrets, never secrets.
 */

import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { readRegularSync } from '../../base/regular-file.ts';
import { replaceFile } from '../../base/replace-file.ts';
import { SerialWork } from '../../base/serial-work.ts';
import type { SessionView } from '../../host/context.ts';
import { isObject } from '../../wire/json.ts';

/** The state of one toolkit in a session. Undefined members: as the toolkit says. */
export interface KitState {
  readonly enabled?: boolean;
  readonly config?: Readonly<Record<string, unknown>>;
  /** Deferred tools that plain lists have. */
  readonly loaded?: readonly string[];
}

type States = Readonly<Record<string, KitState>>;

/** Age after which files of sessions that no host took up again are deleted. */
const ABANDONED_MS = 7 * 24 * 3600 * 1000;

interface OfSession {
  states: States;
  readonly changes: SerialWork;
}

export class SessionStates {
  readonly #sessions = new WeakMap<SessionView, OfSession>();
  /** Sessions with a file, by the name of the file. */
  readonly #stored = new Set<string>();
  #folder: string | undefined;

  /**
   * Finds the files that earlier hosts stored.
   * @param folder of the plugin
   */
  open(folder: string): void {
    this.#folder = join(folder, 'sessions');
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const files = readdirSync(this.#folder).map((name) => {
      const file = join(this.#folder as string, name);
      return { name, file, at: statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0 };
    });
    // Measured from the newest: a clock that was set ahead makes none older.
    const newest = files.reduce((most, { at }) => Math.max(most, at), 0);
    for (const { name, file, at } of files) {
      if (newest - at > ABANDONED_MS) rmSync(file, { force: true });
      else this.#stored.add(name);
    }
  }

  of(session: SessionView, toolkit: string): KitState {
    return this.#of(session).states[toolkit] ?? {};
  }

  /** Changes the state of a toolkit in a session; stored when it resolves. Changes of one session follow one another. */
  change(session: SessionView, toolkit: string, change: (state: KitState) => KitState): Promise<void> {
    const own = this.#of(session);
    return own.changes.run(async () => {
      const states = { ...own.states, [toolkit]: change(own.states[toolkit] ?? {}) };
      if (this.#folder !== undefined) {
        await replaceFile(join(this.#folder, fileOf(session)), JSON.stringify(states));
        this.#stored.add(fileOf(session));
      }
      own.states = states;
    });
  }

  /** Removes the file of a session that has ended permanently. */
  forget(session: SessionView): void {
    const name = fileOf(session);
    if (this.#folder === undefined || !this.#stored.delete(name)) return;
    rmSync(join(this.#folder, name), { force: true });
  }

  #of(session: SessionView): OfSession {
    let own = this.#sessions.get(session);
    if (own === undefined) {
      own = { states: this.#read(session), changes: new SerialWork() };
      this.#sessions.set(session, own);
    }
    return own;
  }

  /** Reads the state of a session, only if an earlier host stored one. */
  #read(session: SessionView): States {
    const name = fileOf(session);
    if (this.#folder === undefined || !this.#stored.has(name)) return {};
    try {
      const read: unknown = JSON.parse(readRegularSync(join(this.#folder, name)).toString());
      return isObject(read) ? (read as States) : {};
    } catch {
      // Removed or damaged: the session starts as a new one does.
      return {};
    }
  }
}

const fileOf = ({ id }: SessionView): string => `${encodeURIComponent(id)}.json`;
