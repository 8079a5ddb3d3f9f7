/**
 * Sessions that watch a memory, and their notifications: the changed keys, combined over a short time.
 *
 * A part of `plugin.ts`. @see docs/memory.md#changes
 */
import { processTimer } from '../../base/timer-queue.ts';
import type { SessionView } from '../../host/context.ts';
import { memoryIdOf, memoryName } from './engine/memory-id.ts';
import type { Tier } from './engine/types.ts';
import { memoryFailure } from './errors.ts';
import { canonical, type MemoryKey } from './key.ts';
import { MAX_CHANGED_CHARACTERS, MAX_CHANGED_KEYS, MAX_WATCHES } from './limits.ts';
import { memoryChanged } from './messages.ts';

/** Changes within this time are combined, milliseconds. */
const GATHER_MS = 50;

/** The watched memory. */
export interface WatchedMemory {
  readonly namespace: string;
  readonly scope: Readonly<Record<string, unknown>>;
  readonly agent: string;
}

/** A change that a session made. */
export interface MemoryChange {
  /** The memory through which the change was made, and its name. */
  readonly memory: string;
  readonly name: string;
  readonly keys: readonly { readonly key: MemoryKey; readonly tier: Tier }[];
  /** True: the change has further keys. */
  readonly more?: boolean;
}

interface Watch {
  readonly session: SessionView;
  readonly memory: string;
  /** Keys by their text. */
  keys: Map<string, MemoryKey>;
  characters: number;
  more: boolean;
  cancel: (() => void) | undefined;
}

export class MemoryWatches {
  /** By principal and name: memories of different agents share their semantic entries. */
  readonly #watches = new Map<string, Set<Watch>>();
  readonly #counts = new WeakMap<SessionView, number>();

  /** Starts a watch; repeating it changes nothing. Returns the id of the memory. Fails with `memory.too_many_watches`. */
  add(session: SessionView, watched: WatchedMemory): string {
    const { where, memory } = placeOf(session, watched);
    const there = this.#watches.get(where) ?? new Set<Watch>();
    if (findIn(there, session, memory) !== undefined) return memory;
    const count = this.#counts.get(session) ?? 0;
    if (count >= MAX_WATCHES) {
      throw memoryFailure('too_many_watches', `a session watches at most ${MAX_WATCHES} memories`, {
        limit: MAX_WATCHES,
      });
    }
    this.#counts.set(session, count + 1);
    this.#watches.set(
      where,
      there.add({ session, memory, keys: new Map(), characters: 0, more: false, cancel: undefined }),
    );
    return memory;
  }

  /** Ends a watch, if it exists. Returns the id of the memory. */
  remove(session: SessionView, watched: WatchedMemory): string {
    const { where, memory } = placeOf(session, watched);
    const watch = findIn(this.#watches.get(where) ?? [], session, memory);
    if (watch !== undefined) this.#end(where, watch);
    return memory;
  }

  /** Ends the watches of a session. */
  endSession(session: SessionView): void {
    for (const [where, there] of this.#watches) {
      for (const watch of [...there]) if (watch.session === session) this.#end(where, watch);
    }
  }

  /** Sends the change to the sessions that see it. */
  changed(by: SessionView, { memory, name, keys, more = false }: MemoryChange): void {
    for (const watch of this.#watches.get(idOf(by, name)) ?? []) {
      const seen = keys.filter(
        ({ tier }) => tier === 'semantic' || (watch.memory === memory && (tier === 'episodic' || watch.session === by)),
      );
      if (seen.length === 0 && !more) continue;
      for (const { key } of seen) add(watch, key);
      watch.more ||= more;
      watch.cancel ??= processTimer(() => send(watch), GATHER_MS);
    }
  }

  #end(where: string, watch: Watch): void {
    const { session } = watch;
    const there = this.#watches.get(where);
    watch.cancel?.();
    there?.delete(watch);
    if (there?.size === 0) this.#watches.delete(where);
    this.#counts.set(session, (this.#counts.get(session) ?? 1) - 1);
  }
}

function add(watch: Watch, key: MemoryKey): void {
  const text = canonical(key);
  if (watch.keys.has(text)) return;
  watch.characters += text.length;
  if (watch.keys.size < MAX_CHANGED_KEYS && watch.characters <= MAX_CHANGED_CHARACTERS) watch.keys.set(text, key);
  else watch.more = true;
}

function send(watch: Watch): void {
  const { session, memory, keys, more } = watch;
  watch.keys = new Map();
  watch.characters = 0;
  watch.more = false;
  watch.cancel = undefined;
  session.push(memoryChanged, { memory_id: memory, keys: [...keys.values()], more });
}

const idOf = ({ principal }: SessionView, name: string): string => JSON.stringify([principal.name, name]);

function placeOf(session: SessionView, { namespace, scope, agent }: WatchedMemory) {
  const name = memoryName(namespace, scope);
  return { where: idOf(session, name), memory: memoryIdOf(session.principal.name, agent, name) };
}

const findIn = (there: Iterable<Watch>, session: SessionView, memory: string): Watch | undefined =>
  [...there].find((watch) => watch.session === session && watch.memory === memory);
