/**
 * The memory capability of an agent: `agent.memory`. Present only when the agent asked for `memory`.
 */
import type { Call, CallOptions, MethodCaller } from '../../connection/call.ts';
import { answered, type Push } from '../../protocol/method.ts';
import { keyOf, type MemoryKey } from './key.ts';
import * as replies from './memory.replies.generated.ts';
import type { MemoryEntry, MemoryForgetResp, MemorySpace, MemoryStatsResp, MemoryStoreResp } from './messages.ts';
import * as messages from './messages.ts';

const init = answered(messages.memoryInit, replies.MemoryInitResp);
const store = answered(messages.memoryStore, replies.MemoryStoreResp);
const retrieve = answered(messages.memoryRetrieve, replies.MemoryRetrieveResp);
const forget = answered(messages.memoryForget, replies.MemoryForgetResp);
const history = answered(messages.memoryHistory, replies.MemoryHistoryResp);
const publish = answered(messages.memoryPublish, replies.MemoryPublishResp);
const spaces = answered(messages.memorySpaces, replies.MemorySpacesResp);
const stats = answered(messages.memoryStats, replies.MemoryStatsResp);
const watch = answered(messages.memoryWatch, replies.MemoryWatchResp);
const changed = { ...messages.memoryChanged, check: replies.MemoryChangedPush };

export type MemoryTier = 'working' | 'episodic' | 'semantic';

/** A key: an object, or a text `t` that stands for `{"key": t}`. */
export type MemoryKeyLike = string | MemoryKey;

export interface MemoryName {
  /** Default `default`. */
  readonly namespace?: string;
  /** Further parts of its name. */
  readonly scope?: Readonly<Record<string, string>>;
  /** Shared spaces that its searches also read. */
  readonly spaces?: readonly string[];
  /** The memory of another agent of the same principal. */
  readonly agentId?: string;
}

/** An entry to store. */
export interface MemoryNewEntry {
  readonly key: MemoryKeyLike;
  /** Any JSON. */
  readonly content: unknown;
  /** Default `episodic`. */
  readonly tier?: MemoryTier;
  readonly tags?: readonly string[];
  readonly source?: string;
  readonly score?: number;
  /** Seconds until it is deleted. Default 0: never. */
  readonly ttl?: number;
  /** Time of its deletion, epoch seconds, in place of the time that `ttl` gives. */
  readonly expires_at?: number;
  /** Times are epoch seconds. */
  readonly created_at?: number;
  readonly updated_at?: number;
  readonly valid_from?: number | null;
  readonly valid_until?: number | null;
  /** Keys whose facts end where this one begins. */
  readonly supersedes?: readonly MemoryKeyLike[];
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface MemoryQuery {
  readonly keys?: readonly MemoryKeyLike[];
  readonly tags?: readonly string[];
  /** Default: every tier. */
  readonly tier?: MemoryTier | '';
  /** Default 10, at most 1,000. */
  readonly limit?: number;
  readonly minScore?: number;
  /** Selects only entries that were valid at this time, epoch seconds. */
  readonly asOf?: number;
  /** Default `hybrid`. */
  readonly ranking?: 'hybrid' | 'lexical' | 'vector';
  /** True: also versions that do not hold now; not with a query. */
  readonly allVersions?: boolean;
  /** `nextCursor` of the page before. */
  readonly cursor?: string;
}

export interface MemoryPage {
  readonly entries: readonly MemoryEntry[];
  /** Number of entries that match, before `limit`. */
  readonly total: number;
  /** Undefined at the end. */
  readonly nextCursor: string | undefined;
  /** The reason why the ranking is lexical only; undefined: it is not. */
  readonly degraded: string | undefined;
}

export interface MemoryForget {
  readonly keys?: readonly MemoryKeyLike[];
  readonly tags?: readonly string[];
  readonly sources?: readonly string[];
  /** Only entries that were last stored before this time, epoch seconds; alone: every entry of that age. */
  readonly before?: number;
  /** Default `episodic`; `''` = every tier. */
  readonly tier?: MemoryTier | '';
  /** Selects entries of this shared space instead of the own entries. */
  readonly space?: string;
}

/** A change of a memory. */
export interface MemoryChange {
  /** The keys that were stored or deleted. */
  readonly keys: readonly MemoryKey[];
  /** True: the change has further keys. */
  readonly more: boolean;
}

/** The parts of an agent that the memory client needs. */
export interface MemoryAgent {
  /** Calls the listener for each push. Returns the function that removes the listener. */
  on<Content extends object>(push: Push<Content>, listener: (content: Content) => void): () => void;
  readonly calls: MethodCaller;
  /** Throws `capability_missing` when memory was asked for but not granted. */
  require(capability: string): void;
}

export class MemoryClient {
  readonly #agent: MemoryAgent;
  /** Watches of this client, by memory. */
  readonly #watches = new Map<string, number>();

  constructor(agent: MemoryAgent) {
    this.#agent = agent;
  }

  /** Opens a memory; equal names open the same memory. Rejects with `memory.space_denied`, `memory_full`. */
  open(name: MemoryName = {}, options: CallOptions = {}): Call<Memory> {
    this.#agent.require('memory');
    const { namespace = 'default', scope = {}, spaces: read, agentId } = name;
    const more = { ...(read && { spaces: [...read] }), ...(agentId !== undefined && { agent_id: agentId }) };
    const body = { namespace, scope, metadata: {}, ...more };
    return this.#agent.calls.call(
      init,
      body,
      options,
      (reply) => new Memory(this.#agent.calls, reply.memory_id, reply.embedder ?? ''),
    );
  }

  /**
   * Calls the listener for changes of a memory by any session of the principal, until the caller calls the returned function or
   * the session ends. Changes of a moment are combined. Rejects with `memory.too_many_watches`, and with `unknown_type` at
   * hosts that have no such request.
   */
  async watch(
    name: Omit<MemoryName, 'spaces'>,
    listener: (change: MemoryChange) => void,
    options: CallOptions = {},
  ): Promise<() => void> {
    this.#agent.require('memory');
    const { namespace = 'default', scope = {}, agentId } = name;
    const body = { namespace, scope, ...(agentId !== undefined && { agent_id: agentId }) };
    let memory: string | undefined;
    // Before the request, because a change may arrive with its reply.
    const early: { memory_id: string; keys: unknown[]; more: boolean }[] = [];
    const end = this.#agent.on(changed, (change) => {
      if (memory === undefined) early.push(change);
      else if (change.memory_id === memory) listener({ keys: change.keys as MemoryKey[], more: change.more });
    });
    try {
      memory = (await this.#agent.calls.call(watch, body, options)).memory_id;
    } catch (error) {
      end();
      throw error;
    }
    const watched = memory;
    this.#watches.set(watched, (this.#watches.get(watched) ?? 0) + 1);
    for (const { memory_id, keys, more } of early) {
      if (memory_id === memory) listener({ keys: keys as MemoryKey[], more });
    }
    return () => {
      end();
      const left = (this.#watches.get(watched) ?? 1) - 1;
      this.#watches.set(watched, left);
      if (left > 0) return;
      this.#watches.delete(watched);
      // A session that has ended watches nothing.
      this.#agent.calls.call(watch, { ...body, on: false }).then(undefined, () => {});
    };
  }

  /** Returns the shared spaces that this principal may read. */
  spaces(options: CallOptions = {}): Call<readonly MemorySpace[]> {
    this.#agent.require('memory');
    return this.#agent.calls.call(spaces, {}, options, (reply) => reply.spaces);
  }

  /** Returns the amounts stored for this principal. */
  stats(options: CallOptions = {}): Call<MemoryStats> {
    this.#agent.require('memory');
    return this.#agent.calls.call(stats, {}, options, statsOf);
  }
}

export type MemoryStats = Pick<MemoryStatsResp, 'tiers' | 'used' | 'quota' | 'embedder' | 'pending' | 'problem'>;

const statsOf = ({ tiers, used, quota, embedder, pending, problem }: MemoryStatsResp): MemoryStats => ({
  tiers,
  used,
  quota,
  embedder,
  pending,
  ...(problem !== undefined && { problem }),
});

/** One memory. All calls reject with `memory_not_found` when the memory is not one of this agent. */
export class Memory {
  /** Its id, valid over sessions and restarts. */
  readonly id: string;
  /** The name of the embedder that computes its vectors. */
  readonly embedder: string;
  readonly #calls: MethodCaller;

  constructor(calls: MethodCaller, id: string, embedder: string) {
    this.id = id;
    this.embedder = embedder;
    this.#calls = calls;
  }

  /**
   * Stores entries: resolves when they are on disk, with the reasons of those that are not stored. Rejects with `memory_full`.
   */
  store(
    entries: MemoryNewEntry | readonly MemoryNewEntry[],
    options: CallOptions = {},
  ): Call<{ readonly stored: readonly MemoryKey[]; readonly errors: readonly string[] }> {
    const list = (Array.isArray(entries) ? entries : [entries]) as readonly MemoryNewEntry[];
    const body = {
      memory_id: this.id,
      entries: list.map((entry) => ({ tier: 'episodic', ...entry, key: keyOf(entry.key) ?? entry.key })),
    };
    return this.#calls.call(store, body, options, storedOf);
  }

  /** Searches entries, the best first: `query` is literal text. */
  search(query: string, filter: MemoryQuery = {}, options: CallOptions = {}): Call<MemoryPage> {
    const { keys = [], tags = [], tier = '', limit = 10, minScore = 0, asOf, ranking, allVersions, cursor } = filter;
    const body = {
      memory_id: this.id,
      query,
      keys: keys.map(keyOf),
      tags: [...tags],
      tier,
      limit,
      min_score: minScore,
      ...(asOf !== undefined && { as_of: asOf }),
      ...(ranking !== undefined && { ranking }),
      ...(allVersions !== undefined && { all_versions: allVersions }),
      ...(cursor !== undefined && { page_cursor: cursor }),
    };
    return this.#calls.call(
      retrieve,
      body,
      options,
      ({ entries = [], total = entries.length, next_cursor, degraded }) => ({
        entries,
        total,
        nextCursor: next_cursor,
        degraded,
      }),
    );
  }

  /** Lists entries by key, tag or tier, the newest first. */
  list(filter: MemoryQuery = {}, options: CallOptions = {}): Call<MemoryPage> {
    return this.search('', filter, options);
  }

  /** Returns the entry of a key that holds now, of the first tier that has one. */
  get(
    key: MemoryKeyLike,
    filter: Pick<MemoryQuery, 'tier' | 'asOf'> = {},
    options: CallOptions = {},
  ): Call<MemoryEntry | undefined> {
    const { tier = '', asOf } = filter;
    const body = {
      memory_id: this.id,
      keys: [keyOf(key)],
      query: '',
      tags: [],
      tier,
      limit: 3,
      ...(asOf !== undefined && { as_of: asOf }),
    };
    return this.#calls.call(retrieve, body, options, ({ entries = [] }) => entries[0]);
  }

  /** Yields all entries that match a filter, page by page. */
  async *all(filter: MemoryQuery = {}, options: CallOptions = {}): AsyncGenerator<MemoryEntry> {
    let cursor = filter.cursor;
    do {
      const page = await this.list({ limit: 200, ...filter, ...(cursor !== undefined && { cursor }) }, options);
      yield* page.entries;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
  }

  /** Returns the versions of a key and of the keys it superseded, the newest fact first. */
  history(key: MemoryKeyLike, tier: MemoryTier | '' = '', options: CallOptions = {}): Call<readonly MemoryEntry[]> {
    return this.#calls.call(
      history,
      { memory_id: this.id, key: keyOf(key), tier, limit: 1000 },
      options,
      ({ entries }) => entries,
    );
  }

  /** Deletes entries with any of the keys, tags or sources, with all their versions and from the files. */
  forget(what: MemoryForget, options: CallOptions = {}): Call<Pick<MemoryForgetResp, 'deleted' | 'erased'>> {
    const { keys = [], tags = [], sources, before, tier = 'episodic', space } = what;
    const body = {
      memory_id: this.id,
      keys: keys.map(keyOf),
      tags: [...tags],
      tier,
      ...(sources && { sources: [...sources] }),
      ...(before !== undefined && { before }),
      ...(space !== undefined && { space }),
    };
    return this.#calls.call(forget, body, options, ({ deleted, erased }) => ({ deleted, erased }));
  }

  /** Moves semantic entries into a shared space. Rejects with `memory.space_denied`. */
  publish(
    space: string,
    what: { readonly keys?: readonly MemoryKeyLike[]; readonly tags?: readonly string[] },
    options: CallOptions = {},
  ): Call<readonly MemoryKey[]> {
    const body = { memory_id: this.id, space, keys: (what.keys ?? []).map(keyOf), tags: [...(what.tags ?? [])] };
    return this.#calls.call(publish, body, options, ({ published }) => published);
  }

  /** Returns the amounts stored in this memory. */
  stats(options: CallOptions = {}): Call<MemoryStats> {
    return this.#calls.call(stats, { memory_id: this.id }, options, statsOf);
  }
}

const storedOf = ({ stored = [], errors = [] }: MemoryStoreResp) => ({ stored: stored as MemoryKey[], errors });
