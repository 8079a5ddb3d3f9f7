/**
 * The memory engine: does each operation on the databases of a folder. Runs in a separate thread (`memory-thread.ts`), so that
 * no search and no write holds up the host.
 *
 * @see docs/memory.md
 */
import type { DatabaseLoss } from '../../../base/sqlite/losses.ts';
import { SteadyClock } from '../../../base/steady-clock.ts';
import { fail } from '../../../wire/errors.ts';
import { memoryFailure } from '../errors.ts';
import { canonical, type MemoryKey } from '../key.ts';
import { type MemoryDatabase, seconds } from './database.ts';
import type { Embedder } from './embedder.ts';
import { endpointEmbedder } from './endpoint.ts';
import { fileOf, SPACES } from './file-name.ts';
import { forget } from './forgetting.ts';
import { hashedEmbedder } from './hashed.ts';
import { loadedIndex } from './index-loading.ts';
import { memoryIdOf, memoryName } from './memory-id.ts';
import {
  countEntries,
  countedEntries,
  entryOf,
  filterOf,
  historyOf,
  idsOf,
  isBehind,
  listEntries,
  type PartView,
  readEntry,
  type Source,
  storedEntry,
} from './reads.ts';
import { search } from './search.ts';
import { Shelf } from './shelf.ts';
import {
  type Arguments,
  type Asker,
  type EngineOptions,
  type ForgetRequest,
  type OperationName,
  type Reply,
  type RetrieveRequest,
  TIERS,
  type Tier,
} from './types.ts';
import { deleteExpired, deleteOrphans, deletePart, embedBatch, packAll, pendingVectors, refoldAll } from './upkeep.ts';
import { deleteKey, type PreparedEntry, prepare, storeVersion } from './writes.ts';

/** Interval of searches for expired entries. */
const SWEEP_MS = 2000;
/** Interval of such searches in files that are not in use. */
const SWEEP_ALL_MS = 60 * 60_000;
/** Delay after a failed background request to the embedder. */
const EMBED_RETRY_MS = 5000;
/** Maximum wait of a search for the vector of its query; after it the search is lexical. */
const QUERY_EMBED_MS = 2000;
/** Memories that one principal may open. */
const MAX_MEMORIES = 100_000;
/**
 * Maximum number of entries of all indexes in memory together, about 110 bytes each, beside 6 MB of word lists for each index.
 */
const MAX_INDEXED = 4_000_000;
/** Approximate bytes that storing a version puts into the log. */
const ENTRY_LOG_BYTES = 16_384;
/** The index of a memory with fewer entries loads within milliseconds. */
const MIN_LOADED = 10_000;
/** Entries published in one transaction. */
const MOVED_AT_ONCE = 100;
/** Hits of a search from which pages are made. */
const MAX_HITS = 1000;

interface MemoryRow {
  readonly id: string;
  readonly agent: string;
  readonly name: string;
}

type Handlers = { readonly [Name in OperationName]: (asker: Asker, args: Arguments<Name>) => Promise<Reply<Name>> };

export class MemoryService {
  readonly #options: EngineOptions;
  readonly #shelf: Shelf;
  readonly #embedder: Embedder;
  readonly #embedderIds = new WeakMap<MemoryDatabase, number>();
  readonly #timers: NodeJS.Timeout[];
  #embedding = false;
  /** The error of the embedder in the background, until it succeeds. */
  #problem: string | undefined;
  #retryAt = 0;
  readonly #clock = new SteadyClock();
  /** Sessions that have used their memory in this process, and not ended. */
  readonly #sessions = new Set<string>();
  #closed = false;

  /** `lost` is called with the loss of a database when it is opened. */
  constructor(options: EngineOptions, lost?: (loss: DatabaseLoss) => void) {
    this.#options = options;
    this.#shelf = new Shelf(options.folder, lost);
    this.#embedder = options.embedder === undefined ? hashedEmbedder : endpointEmbedder(options.embedder);
    const every = (ms: number, work: () => Promise<void>): NodeJS.Timeout =>
      setInterval(() => void work().catch(() => {}), ms).unref();
    this.#timers = [every(SWEEP_MS, () => this.#sweep()), every(SWEEP_ALL_MS, () => this.#sweepAll())];
    void this.#sweepAll().catch(() => {});
  }

  run<Name extends OperationName>(name: Name, asker: Asker, args: Arguments<Name>): Promise<Reply<Name>> {
    if (name === 'endSession') this.#sessions.delete(asker.session);
    else this.#sessions.add(asker.session);
    return this.#handlers[name](asker, args);
  }

  /** Returns the bytes stored for a principal; the shared spaces count for no principal. */
  bytesOf(asker: Asker): Promise<number> {
    return this.#own(asker, (database) => database.usage().bytes);
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#timers) clearInterval(timer);
    this.#shelf.closeAll();
  }

  readonly #handlers: Handlers = {
    init: (asker, { agent, namespace, scope }) =>
      this.#own(asker, async (database) => {
        if (database.index === undefined && database.usage().entries >= MIN_LOADED) this.#loadSoon(asker);
        const { principal } = asker;
        const name = memoryName(namespace, scope);
        const memory = memoryIdOf(principal, agent, name);
        const reply = { memory, embedder: this.#embedder.name };
        if (database.sql('SELECT 1 FROM memory WHERE id = ?').get(memory) !== undefined) return reply;
        const full = await database.write(() => {
          const { count } = database.sql('SELECT count(*) AS count FROM memory').get() as { count: number };
          if (count >= MAX_MEMORIES) return true;
          database
            .sql('INSERT OR IGNORE INTO memory (id, agent, namespace, scope, name) VALUES (?, ?, ?, ?, ?)')
            .run(memory, agent, namespace, canonical(scope), name);
          return false;
        });
        if (full) {
          throw memoryFailure('full', `this principal has ${MAX_MEMORIES} memories already`, {
            used: MAX_MEMORIES,
            quota: MAX_MEMORIES,
          });
        }
        return reply;
      }),

    store: (asker, { memory, entries, at }) =>
      this.#own(asker, async (database) => {
        const row = this.#memory(database, memory);
        const errors: string[] = [];
        const prepared: PreparedEntry[] = [];
        const { maxEntryBytes } = this.#options;
        for (const [index, entry] of entries.entries()) {
          const one = prepare(
            entry.tier === 'working' ? entry : { ...entry, provenance: writerOf(asker) },
            this.#embedder,
          );
          if (one.bytes > maxEntryBytes) {
            errors.push(
              `entries[${at[index]}]: has ${one.bytes} bytes, more than the ${maxEntryBytes} that an entry may have`,
            );
          } else prepared.push(one);
        }
        if (prepared.length > 0)
          await this.#store(database, prepared, this.#quotaOf(asker), (tier) => partName(asker, tier, row));
        void this.#embedSoon();
        return { stored: prepared.map(({ entry }) => entry.key), errors, name: row.name };
      }),

    retrieve: (asker, request) => this.#retrieve(asker, request),

    forget: (asker, request) => this.#forget(asker, request),

    history: (asker, { memory, key, tier, limit }) =>
      this.#own(asker, (database) => {
        const now = seconds();
        const source = { database, parts: this.#parts(database, asker, this.#memory(database, memory), tier) };
        const { total, keys, rows } = historyOf(source, canonical(key), now, limit);
        const present = { ...filterOf([], [], now, now, true), keys };
        const current = isBehind(source, now) ? new Set(idsOf(source, present)) : undefined;
        return { entries: rows.map((row) => entryOf(source, row, now, undefined, current?.has(row.id))), total };
      }),

    publish: (asker, { memory, space, keys, tags }) =>
      this.#own(asker, (database) =>
        this.#shelf.use(fileOf(SPACES), async (shared) => {
          const now = seconds();
          const row = this.#memory(database, memory);
          const source = { database, parts: this.#parts(database, asker, row, 'semantic') };
          if (keys.length === 0 && tags.length === 0) return { published: [], name: row.name };
          const ids = new Set<number>();
          const behind = isBehind(source, now);
          if (keys.length > 0) for (const id of idsOf(source, filterOf(keys, [], now, now, behind))) ids.add(id);
          if (tags.length > 0) for (const id of idsOf(source, filterOf([], tags, now, now, behind))) ids.add(id);
          const published = await this.#move(
            source,
            shared,
            [...ids].sort((left, right) => left - right),
            {
              asker,
              space,
              at: behind ? undefined : now,
              now,
            },
          );
          void this.#embedSoon();
          return { published, name: row.name };
        }),
      ),

    spaces: () =>
      this.#shelf.use(fileOf(SPACES), (shared) => {
        const rows = shared
          .sql(
            `SELECT substr(name, 3) AS space, entries FROM part WHERE name >= 'x ' AND name < 'x!' AND entries > 0 ORDER BY name`,
          )
          .all() as { space: string; entries: number }[];
        return { spaces: rows.map(({ space, entries }) => ({ space, entries })) };
      }),

    stats: (asker, { memory }) =>
      this.#own(asker, (database) => {
        const opened = memory === '' ? undefined : this.#memory(database, memory);
        const amountOf = (name: string): Amount => {
          const row = database.sql('SELECT entries, bytes FROM part WHERE name = ?').get(name);
          return { entries: (row?.entries as number) ?? 0, bytes: (row?.bytes as number) ?? 0 };
        };
        const tiers: Record<string, Amount> = {};
        for (const tier of TIERS)
          tiers[tier] = opened === undefined ? database.usage(tier[0]) : amountOf(partName(asker, tier, opened));
        return {
          tiers,
          used: database.usage(),
          quota: this.#quotaOf(asker),
          embedder: this.#embedder.name,
          pending: pendingVectors(database, this.#embedderId(database)),
          ...(this.#problem !== undefined && { problem: this.#problem }),
        };
      }),

    endSession: (asker) =>
      this.#own(asker, async (database) => {
        await deletePart(database, `w ${asker.session} `);
        return {};
      }),
  };

  /** Loads the index of a large memory that was opened, in a later turn: its first search is probably near. */
  #loadSoon({ principal }: Asker): void {
    setImmediate(() => {
      if (this.#closed) return;
      const load = async (database: MemoryDatabase): Promise<void> => {
        await refoldAll(database);
        await packAll(database);
        loadedIndex(database, this.#embedderId(database));
      };
      this.#shelf.useBehind(fileOf(principal), load).catch(() => {});
    });
  }

  #quotaOf({ storedBytes = Number.POSITIVE_INFINITY }: Partial<Asker>): Amount {
    const { quotaEntries, quotaBytes } = this.#options;
    return { entries: quotaEntries, bytes: Math.min(quotaBytes, storedBytes) };
  }

  #own<Result>({ principal }: Asker, work: (database: MemoryDatabase) => Result | Promise<Result>): Promise<Result> {
    return this.#shelf.use(fileOf(principal), work);
  }

  /** Returns the memory of an id. Only memories of this principal are searched. */
  #memory(database: MemoryDatabase, memory: string): MemoryRow {
    const row = database.sql('SELECT id, agent, name FROM memory WHERE id = ?').get(memory) as MemoryRow | undefined;
    if (row !== undefined) return row;
    const message = `there is no memory ${JSON.stringify(memory.slice(0, 64))}; open one with memory/init`;
    throw memoryFailure('not_found', message, { memory_id: memory });
  }

  /** Returns the existing parts of a memory, of one tier or of all. */
  #parts(database: MemoryDatabase, asker: Asker, memory: MemoryRow, tier: Tier | undefined): PartView[] {
    return (tier === undefined ? TIERS : [tier]).flatMap((one) => {
      const part = database.part(partName(asker, one, memory));
      return part === undefined ? [] : [{ part, tier: one }];
    });
  }

  /** Moves entries into a shared space, several at a time, so that requests of others come in between. */
  async #move(
    source: Source,
    shared: MemoryDatabase,
    ids: readonly number[],
    { asker, space, at, now }: { asker: Asker; space: string; at: number | undefined; now: number },
  ): Promise<MemoryKey[]> {
    const { database } = source;
    const { principal } = asker;
    const bytes = database.sql('SELECT sum(bytes) AS bytes FROM entry WHERE id IN (SELECT value FROM json_each(?))');
    const all = bytes.get(JSON.stringify(ids)) as { bytes: number | null };
    const quota = this.#quotaOf({});
    const used = shared.usage();
    if (!fits(used, quota, ids.length, all.bytes ?? 0)) throw full(used, quota, ids.length);
    const published: MemoryKey[] = [];
    for (let from = 0; from < ids.length; from += MOVED_AT_ONCE) {
      const chosen = ids.slice(from, from + MOVED_AT_ONCE).flatMap((id) => readEntry(source, id, at, now) ?? []);
      const prepared = chosen.map((one) => {
        const entry = storedEntry(source, one, now);
        const provenance = { ...writerOf(asker), ...entry.provenance, principal, published_at: now };
        return prepare({ ...entry, provenance }, this.#embedder);
      });
      await this.#store(shared, prepared, quota, () => `x ${space}`);
      // Stored there first, then deleted here: a kill in between leaves the entries in both, and publishing them again ends
      // that.
      await database.write(() => {
        // A version that was stored meanwhile stays.
        const newer = database.sql('SELECT 1 FROM entry WHERE part = ? AND key = ? AND id > ? LIMIT 1');
        for (const { id, part, key } of chosen)
          if (newer.get(part, key, id) === undefined) deleteKey(database, part, key);
      }, chosen.length * ENTRY_LOG_BYTES);
      for (const { entry } of prepared) published.push(entry.key);
    }
    return published;
  }

  async #store(
    database: MemoryDatabase,
    prepared: readonly PreparedEntry[],
    quota: Amount,
    nameOf: (tier: Tier) => string,
  ): Promise<void> {
    const embedder = this.#embedderId(database);
    const bytes = prepared.reduce((sum, one) => sum + one.bytes, 0);
    // In the transaction, so that no other write comes between the check and the entries.
    const used = await database.write(() => {
      const usage = database.usage();
      if (!fits(usage, quota, prepared.length, bytes)) return usage;
      const now = seconds();
      const parts = new Set<number>();
      for (const one of prepared) {
        const { tier } = one.entry;
        const historyVersions = tier === 'working' ? 0 : this.#options.historyVersions;
        const part = database.makePart(nameOf(tier));
        parts.add(part);
        storeVersion({ database, part, now, historyVersions, embedder }, one);
      }
      for (const part of parts) database.counters.advance(part, now);
      return undefined;
    }, prepared.length * ENTRY_LOG_BYTES);
    if (used !== undefined) throw full(used, quota, prepared.length);
  }

  async #retrieve(asker: Asker, request: RetrieveRequest): Promise<Reply<'retrieve'>> {
    const { query, memory, spaces, tier } = request;
    const vector = await this.#queryVector(request);
    return this.#own(asker, async (database) => {
      const row = this.#memory(database, memory);
      const sources: Source[] = [{ database, parts: this.#parts(database, asker, row, tier) }];
      if (query.trim() !== '') await packAll(database);
      const readsSpaces = spaces.length > 0 && (tier === undefined || tier === 'semantic');
      if (!readsSpaces) return this.#read(sources, request, vector);
      return this.#shelf.use(fileOf(SPACES), async (shared) => {
        if (query.trim() !== '') await packAll(shared);
        const parts = spaces.flatMap((space) => {
          const part = shared.part(`x ${space}`);
          return part === undefined ? [] : [{ part, tier: 'semantic', space }];
        });
        return this.#read([...sources, { database: shared, parts }], request, vector);
      });
    }).then((reply) => (query !== '' && vector instanceof Error ? { ...reply, degraded: vector.message } : reply));
  }

  /** Returns the vector of the query; undefined where none is needed, the error if the embedder failed. */
  async #queryVector({ query, ranking }: RetrieveRequest): Promise<Float32Array | Error | undefined> {
    if (query.trim() === '' || ranking === 'lexical') return undefined;
    try {
      return (await this.#embedder.embed([query], QUERY_EMBED_MS))[0];
    } catch (thrown) {
      return thrown as Error;
    }
  }

  #read(
    sources: readonly Source[],
    request: RetrieveRequest,
    vector: Float32Array | Error | undefined,
  ): Reply<'retrieve'> {
    return request.query.trim() === ''
      ? list(sources, request)
      : this.#search(sources, request, vector instanceof Error ? undefined : vector);
  }

  #search(sources: readonly Source[], request: RetrieveRequest, vector: Float32Array | undefined): Reply<'retrieve'> {
    const now = seconds();
    const { keys, tags, asOf, limit, minScore } = request;
    const at = asOf ?? now;
    const ranking = vector === undefined ? 'lexical' : request.ranking;
    const selective = keys.length > 0 || tags.length > 0;
    const hits = sources
      .flatMap((source) => {
        if (source.parts.length === 0) return [];
        const behind = asOf === undefined && isBehind(source, now);
        const ids = selective || behind ? new Set(idsOf(source, filterOf(keys, tags, at, now, behind))) : undefined;
        if (ids?.size === 0) return [];
        // With the clock behind, the ids already select the entries that hold.
        const valid = behind ? undefined : at;
        const found = search(
          source.database,
          { text: request.query, vector, ranking, parts: source.parts.map(({ part }) => part), at: valid, ids },
          this.#embedder,
          this.#embedderId(source.database),
        );
        return found.map((hit) => ({ source, hit, valid }));
      })
      .filter(({ hit }) => hit.score >= minScore)
      .sort((left, right) => right.hit.score - left.hit.score)
      .slice(0, MAX_HITS);
    let next = pageStart(request.cursor, 'search');
    const entries: Record<string, unknown>[] = [];
    for (; next < hits.length && entries.length < limit; next += 1) {
      const { source, hit, valid } = hits[next] as (typeof hits)[number];
      const row = readEntry(source, hit.id, valid, now);
      const current = valid === undefined ? true : undefined;
      if (row !== undefined) entries.push(entryOf(source, row, now, { ...hit, rank: next + 1 }, current));
    }
    return { entries, total: hits.length, ...(limit > 0 && next < hits.length && { next_cursor: `search.${next}` }) };
  }

  async #forget(asker: Asker, request: ForgetRequest): Promise<Reply<'forget'>> {
    const { memory, space, tier } = request;
    return this.#own(asker, async (database) => {
      const row = this.#memory(database, memory);
      if (space === '') {
        const parts = this.#parts(database, asker, row, tier);
        return { ...(await forget({ database, parts }, request)), name: row.name };
      }
      return this.#shelf.use(fileOf(SPACES), async (shared) => {
        const part = shared.part(`x ${space}`);
        const forgotten = await forget(
          { database: shared, parts: part === undefined ? [] : [{ part, tier: 'semantic', space }] },
          request,
        );
        return { ...forgotten, name: row.name };
      });
    });
  }

  /** Returns the number of the embedder in a database. */
  #embedderId(database: MemoryDatabase): number {
    let id = this.#embedderIds.get(database);
    if (id === undefined) {
      const { name } = this.#embedder;
      const read = (): { id: number } | undefined =>
        database.sql('SELECT id FROM embedder WHERE name = ?').get(name) as { id: number } | undefined;
      if (read() === undefined) {
        const failure = database.commits.transact(() => {
          database.sql('INSERT OR IGNORE INTO embedder (name) VALUES (?)').run(name);
          return 0;
        });
        if (failure !== undefined) throw failure;
      }
      id = read()?.id ?? 0;
      this.#embedderIds.set(database, id);
    }
    return id;
  }

  /** Computes the vectors of entries in the open databases, until all have one or the embedder fails. */
  async #embedSoon(): Promise<void> {
    if (this.#embedding || this.#closed || performance.now() < this.#retryAt) return;
    this.#embedding = true;
    try {
      for (const database of this.#shelf.databases) {
        while (!this.#closed && (await embedBatch(database, this.#embedder, this.#embedderId(database))) > 0) {
          this.#problem = undefined;
          // Requests come in between.
          await new Promise((resolve) => setImmediate(resolve));
        }
      }
    } catch (thrown) {
      this.#problem = (thrown as Error).message;
      this.#retryAt = performance.now() + EMBED_RETRY_MS;
    } finally {
      this.#embedding = false;
    }
  }

  async #sweep(): Promise<void> {
    this.#shelf.closeIdle();
    this.#shelf.trimIndexes(MAX_INDEXED);
    for (const database of this.#shelf.databases) {
      // An expired entry is hidden at once, and deleted when the clock can be trusted.
      if (this.#clock.trusts(database.newestBefore)) await deleteExpired(database);
    }
    for (const database of this.#shelf.databases) await refoldAll(database);
    for (const database of this.#shelf.databases) await packAll(database);
    await this.#embedSoon();
  }

  async #sweepAll(): Promise<void> {
    for (const file of this.#shelf.files) {
      if (this.#closed) return;
      await this.#shelf.useBehind(file, async (database) => {
        if (!this.#clock.trusts(database.newestBefore)) return;
        await deleteExpired(database);
        await deleteOrphans(database, this.#options.workingDays, this.#sessions);
      });
    }
  }
}

/** Numbers of entries and bytes. */
interface Amount {
  readonly entries: number;
  readonly bytes: number;
}

const fits = (used: Amount, quota: Amount, entries: number, bytes: number): boolean =>
  used.entries + entries <= quota.entries && used.bytes + bytes <= quota.bytes;

const full = (used: Amount, quota: Amount, more: number) =>
  memoryFailure(
    'full',
    `the memory holds ${used.entries} of ${quota.entries} entries and ${used.bytes} of ${quota.bytes} bytes, too much for ${more} more; forget something`,
    { used: { ...used }, quota: { ...quota } },
  );

/** Returns the writer of an entry, as its provenance names it. */
const writerOf = ({ agent, session }: Asker) => ({ agent_id: agent, session_id: session });

/** Returns the name of a part: its owner and its memory. */
function partName({ session }: Asker, tier: Tier, { agent, name }: MemoryRow): string {
  switch (tier) {
    case 'working':
      return `w ${session} ${name}`;
    case 'episodic':
      return `e ${JSON.stringify(agent)} ${name}`;
    case 'semantic':
      return `s ${name}`;
  }
}

/** Returns the entries that match a filter without a query, the newest first. */
function list(sources: readonly Source[], request: RetrieveRequest): Reply<'retrieve'> {
  const now = seconds();
  const { keys, tags, limit, minScore } = request;
  const at = request.allVersions ? undefined : (request.asOf ?? now);
  const isPresent = at !== undefined && request.asOf === undefined;
  let from = pageStart(request.cursor, 'list');
  const [, , start = Number.MAX_SAFE_INTEGER, counted] = request.cursor.split('.');
  let before = Number(start);
  const asked = sources.map((source) => {
    const filter = { ...filterOf(keys, tags, at, now, isPresent && isBehind(source, now)), minScore };
    return { source, filter, count: countedEntries(source, filter) };
  });
  const isCounted = asked.every(({ count }) => count !== undefined);
  // Without a counter, the first page counts, and its cursor passes the count to the others.
  const total =
    counted === undefined || isCounted
      ? asked.reduce((sum, { source, filter, count }) => sum + (count ?? countEntries(source, filter)), 0)
      : Number(counted);
  const suffix = isCounted ? '' : `.${total}`;
  const entries: Record<string, unknown>[] = [];
  if (limit === 0) return { entries, total };
  for (; from < asked.length; from += 1, before = Number.MAX_SAFE_INTEGER) {
    const { source, filter } = asked[from] as (typeof asked)[number];
    for (const row of listEntries(source, filter, before, limit - entries.length + 1)) {
      if (entries.length === limit) return { entries, total, next_cursor: `list.${from}.${before}${suffix}` };
      entries.push(entryOf(source, row, now, undefined, filter.behind ? true : undefined));
      before = row.id;
    }
  }
  return { entries, total };
}

/** Returns the start of a page. Fails with `schema_violation` for a cursor that no reply of this kind had. */
function pageStart(cursor: string, kind: 'list' | 'search'): number {
  if (cursor === '') return 0;
  const [, named, at, before] = /^(list|search)\.(\d{1,9})(?:\.(\d{1,16})(?:\.\d{1,9})?)?$/.exec(cursor) ?? [];
  if (named === kind && (kind === 'search') === (before === undefined)) return Number(at);
  throw fail('schema_violation', '"page_cursor" is not a next_cursor of such a request', { path: '/page_cursor' });
}
