/**
 * The memory capability of a host: checks requests and rights, and passes them to the engine. Each principal has a separate
 * database in the data folder of the plugin.
 *
 * @see docs/memory.md
 */

import { basename } from 'node:path';
import { headerProblem } from '../../base/secret-text.ts';
import { noteLoss } from '../../base/sqlite/losses.ts';
import type { CallContext, SessionView } from '../../host/context.ts';
import { definePlugin, handle, type Plugin, type PluginContext } from '../../host/plugin.ts';
import { may, named } from '../../session/rights.ts';
import { fail } from '../../wire/errors.ts';
import { MemoryEngine } from './engine/engine.ts';
import { fileOf, SPACES } from './engine/file-name.ts';
import type { Asker, NewEntry, RankingName, Tier } from './engine/types.ts';
import { checkEntry, isTier } from './entry.ts';
import { memoryFailure } from './errors.ts';
import { keyOf, type MemoryKey } from './key.ts';
import { DEFAULT_LIMIT, MAX_ITEMS, MAX_LIMIT, MAX_QUERY, MAX_SPACES, MEMORY_DEFAULTS } from './limits.ts';
import {
  type MemoryEntry,
  memoryForget,
  memoryHistory,
  memoryInit,
  memoryPublish,
  memoryRetrieve,
  memorySpaces,
  memoryStats,
  memoryStore,
  memoryWatch,
} from './messages.ts';
import { memoryOffer } from './offer.ts';
import { MemoryWatches } from './watches.ts';

/** The members of `options`; `limits.ts` has the defaults. */
export interface MemoryPluginOptions {
  /** Entries of one principal, versions included. */
  readonly maxEntries?: number;
  readonly maxBytes?: number;
  readonly maxEntryBytes?: number;
  /** Versions of a key stored beside the newest. */
  readonly historyVersions?: number;
  readonly workingDays?: number;
  /** A server that computes vectors. Default: hashed n-grams. */
  readonly embedder?: {
    readonly baseUrl: string;
    readonly model: string;
    /** The environment variable with its key. */
    readonly apiKeyEnv?: string;
    readonly timeoutMs?: number;
  };
}

/** Rights within the capability: names of shared spaces, `*` stands for any letters. */
interface MemoryGrant {
  readonly read: readonly string[];
  readonly write: readonly string[];
}

const RANKINGS: readonly RankingName[] = ['hybrid', 'lexical', 'vector'];
const SPACE_NAME = /^[\w][\w.:@/-]{0,127}$/;

export function memoryPlugin(options: MemoryPluginOptions = {}): Plugin {
  let host: PluginContext;
  let engine: Promise<MemoryEngine> | undefined;
  /** Sessions that used the memory, which may have a working tier. */
  const users = new WeakSet<SessionView>();
  /** The shared spaces that the memories of a session read. */
  const spacesOf = new WeakMap<SessionView, Map<string, readonly string[]>>();

  const watches = new MemoryWatches();

  const start = async (): Promise<MemoryEngine> => {
    const { embedder, ...limits } = options;
    const { maxEntries, maxBytes, embedderTimeoutMs, ...defaults } = MEMORY_DEFAULTS;
    const { apiKeyEnv, baseUrl = '', model = '', timeoutMs = embedderTimeoutMs } = embedder ?? {};
    const key = apiKeyEnv === undefined ? undefined : process.env[apiKeyEnv];
    if (apiKeyEnv !== undefined && key === undefined) {
      throw fail('not_configured', `the environment variable ${apiKeyEnv} with the key of the embedder is not set`);
    }
    const problem = key === undefined ? undefined : headerProblem(key);
    if (problem !== undefined) {
      throw fail('not_configured', `the key of the embedder in ${apiKeyEnv} has ${problem}; set the key alone`);
    }
    const limited = {
      folder: await host.dataFolder(),
      quotaEntries: limits.maxEntries ?? maxEntries,
      quotaBytes: limits.maxBytes ?? maxBytes,
      maxEntryBytes: limits.maxEntryBytes ?? defaults.maxEntryBytes,
      historyVersions: limits.historyVersions ?? defaults.historyVersions,
      workingDays: limits.workingDays ?? defaults.workingDays,
      embedder: embedder && { baseUrl, model, key, timeoutMs },
    };
    return new MemoryEngine(
      limited,
      (name, bytes) => host.stored({ name }, bytes),
      (loss) => {
        noteLoss(host.log, loss);
        const file = basename(loss.file);
        host.lost(loss, ({ name }) => file === fileOf(name) || file === fileOf(SPACES));
      },
    );
  };
  const run: MemoryEngine['run'] = async (name, asker, args, signal) => {
    engine ??= start().catch((thrown: unknown) => {
      engine = undefined;
      throw thrown;
    });
    return (await engine).run(name, asker, args, signal);
  };
  const ask = (context: CallContext): Asker => {
    users.add(context.session);
    return { ...askerOf(context.session), storedBytes: host.stored(context.session.principal) };
  };
  /** Returns the shared spaces of a memory that the principal may still read. */
  const readable = (context: CallContext, memory: string): readonly string[] =>
    (spacesOf.get(context.session)?.get(memory) ?? []).filter((space) => maySpace(context, 'read', space));

  return definePlugin({
    name: 'memory',
    type: 'memory',
    ...memoryOffer(),
    start(context) {
      host = context;
    },
    async stop() {
      await engine?.then((started) => started.close()).catch(() => {});
    },
    closed(session) {
      watches.endSession(session);
      if (!users.has(session) || engine === undefined) return;
      // If the deletion fails now, the entries are deleted after `working_days`.
      void run('endSession', askerOf(session), {}).catch((error: unknown) =>
        host.log.warn('the working memory of a session was not deleted', { session: session.id, error }),
      );
    },
    methods: [
      handle(memoryInit, async ({ namespace = 'default', scope = {}, spaces = [], agent_id }, context) => {
        const { space, ...own } = scopeOf(scope);
        const read = [...new Set([...spaces, ...(space ? [space] : [])])];
        if (read.length > MAX_SPACES) throw tooMany('spaces', read.length, MAX_SPACES);
        for (const name of read) mustSpace(context, 'read', name);
        const { memory, embedder } = await run(
          'init',
          ask(context),
          { agent: agent_id ?? context.session.agentId, namespace, scope: own },
          context.signal,
        );
        const known = spacesOf.get(context.session) ?? new Map<string, readonly string[]>();
        spacesOf.set(context.session, known.set(memory, read));
        return { memory_id: memory, namespace, success: true, spaces: read, embedder };
      }),

      handle(memoryStore, async ({ memory_id, entries = [] }, context) => {
        if (entries.length > MAX_ITEMS) throw tooMany('entries', entries.length, MAX_ITEMS);
        const now = Date.now() / 1000;
        const errors: string[] = [];
        const valid: NewEntry[] = [];
        const at: number[] = [];
        for (const [index, given] of entries.entries()) {
          const checked = checkEntry(given, now);
          if ('problem' in checked) errors.push(`entries[${index}]: ${checked.problem}`);
          else {
            valid.push(checked.entry);
            at.push(index);
          }
        }
        const reply = await run('store', ask(context), { memory: memory_id, entries: valid, at }, context.signal);
        const { stored, name } = reply;
        if (stored.length > 0) {
          const keys = valid.flatMap(({ key, tier, supersedes }) =>
            [key, ...supersedes].map((each) => ({ key: each, tier })),
          );
          watches.changed(context.session, { memory: memory_id, name, keys });
        }
        return { stored, errors: [...errors, ...reply.errors] };
      }),

      handle(memoryRetrieve, async (request, context) => {
        const { memory_id, query = '', limit = DEFAULT_LIMIT, min_score = 0, as_of, ranking = 'hybrid' } = request;
        if (!RANKINGS.includes(ranking as RankingName)) {
          throw fail('schema_violation', '/ranking must be hybrid, lexical or vector', { path: '/ranking' });
        }
        const args = {
          ...selectionOf(request, ''),
          memory: memory_id,
          spaces: readable(context, memory_id),
          query: query.slice(0, MAX_QUERY),
          limit: Math.min(limit, MAX_LIMIT),
          minScore: min_score,
          cursor: request.page_cursor ?? '',
          asOf: as_of ?? undefined,
          ranking: ranking as RankingName,
          allVersions: request.all_versions === true,
        };
        const { entries, ...reply } = await run('retrieve', ask(context), args, context.signal);
        return { entries: entries as MemoryEntry[], ...reply };
      }),

      handle(memoryForget, async ({ space = '', sources = [], before, ...request }, context) => {
        if (space !== '') mustSpace(context, 'write', space);
        if (sources.length > MAX_ITEMS) throw tooMany('sources', sources.length, MAX_ITEMS);
        const selection = selectionOf(request, 'episodic');
        const args = { ...selection, memory: request.memory_id, sources, before: before ?? undefined, space };
        const { name, changed, more, ...reply } = await run('forget', ask(context), args, context.signal);
        if (space === '' && reply.deleted > 0) {
          watches.changed(context.session, { memory: request.memory_id, name, keys: changed, more });
        }
        return reply;
      }),

      handle(memoryHistory, async ({ memory_id, key: given, tier = '', limit = DEFAULT_LIMIT }, context) => {
        const [key] = keysOf([given], 'key') as [MemoryKey];
        const args = { memory: memory_id, key, tier: tierOf(tier), limit: Math.min(limit, MAX_LIMIT) };
        const { entries, total } = await run('history', ask(context), args, context.signal);
        return { entries: entries as MemoryEntry[], total };
      }),

      handle(memoryPublish, async ({ memory_id, space, keys = [], tags = [] }, context) => {
        mustSpace(context, 'write', space);
        const args = { memory: memory_id, space, keys: keysOf(keys, 'keys'), tags };
        const { name, published } = await run('publish', ask(context), args, context.signal);
        const moved = published.map((key) => ({ key, tier: 'semantic' as const }));
        watches.changed(context.session, { memory: memory_id, name, keys: moved });
        return { published };
      }),

      handle(memoryWatch, ({ namespace = 'default', scope = {}, agent_id, on = true }, { session }) => {
        const { space: _, ...own } = scopeOf(scope);
        const watched = { namespace, scope: own, agent: agent_id ?? session.agentId };
        return { memory_id: on ? watches.add(session, watched) : watches.remove(session, watched), on };
      }),

      handle(memorySpaces, async (_, context) => {
        const { spaces } = await run('spaces', ask(context), {}, context.signal);
        return {
          spaces: spaces
            .filter(({ space }) => maySpace(context, 'read', space))
            .map((one) => ({ ...one, write: maySpace(context, 'write', one.space) })),
        };
      }),

      handle(memoryStats, ({ memory_id = '' }, context) =>
        run('stats', ask(context), { memory: memory_id }, context.signal),
      ),
    ],
  });
}

const askerOf = ({ id, agentId, principal }: SessionView): Asker => ({
  principal: principal.name,
  agent: agentId,
  session: id,
});

/** Returns the scope of a memory, whose values must be texts. */
function scopeOf(scope: Readonly<Record<string, unknown>>): Record<string, string> {
  const odd = Object.entries(scope).find(([, value]) => typeof value !== 'string');
  if (odd !== undefined) {
    throw fail('schema_violation', `/scope/${odd[0]} must be a text`, { path: `/scope/${odd[0]}` });
  }
  return scope as Record<string, string>;
}

function selectionOf(
  { keys = [], tags = [], tier }: { keys?: unknown[]; tags?: string[]; tier?: string },
  fallback: string,
) {
  if (tags.length > MAX_ITEMS) throw tooMany('tags', tags.length, MAX_ITEMS);
  return { keys: keysOf(keys, 'keys'), tags, tier: tierOf(tier ?? fallback) };
}

function keysOf(given: readonly unknown[], name: string): MemoryKey[] {
  if (given.length > MAX_ITEMS) throw tooMany(name, given.length, MAX_ITEMS);
  return given.map((value) => {
    const key = keyOf(value);
    if (key === undefined)
      throw fail('schema_violation', `/${name}: a key must be an object or a text`, { path: `/${name}` });
    return key;
  });
}

/** Returns the tier; undefined for the empty text: every tier. */
function tierOf(tier: string): Tier | undefined {
  if (tier === '') return undefined;
  if (isTier(tier)) return tier;
  throw fail('schema_violation', '/tier must be working, episodic, semantic or empty', { path: '/tier' });
}

const tooMany = (name: string, count: number, most: number) =>
  fail('schema_violation', `/${name} has ${count} items, more than ${most}`, { path: `/${name}` });

/**
 * Returns true if the principal may use a space. Administrators use every space; other principals those that their grant names.
 * A right to write includes reading.
 */
function maySpace({ grant, session }: CallContext, use: 'read' | 'write', space: string): boolean {
  if (grant === undefined) return may(session.principal, 'administer');
  const { read = [], write = [] } = grant as MemoryGrant;
  return named(write, space) || (use === 'read' && named(read, space));
}

function mustSpace(context: CallContext, use: 'read' | 'write', space: string): void {
  if (!SPACE_NAME.test(space)) {
    throw fail(
      'schema_violation',
      '/space must be a name of 1 to 128 letters, digits, ".", "_", ":", "@", "/" or "-"',
      { path: '/space' },
    );
  }
  if (maySpace(context, use, space)) return;
  throw memoryFailure(
    'space_denied',
    `this principal may not ${use} the shared space ${JSON.stringify(space)}; grant it { memory: { ${use}: [${space}] } }`,
    { space, use },
  );
}
