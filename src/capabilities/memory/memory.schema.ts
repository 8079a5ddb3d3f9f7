/**
 * The messages of the memory capability as schemas.
 *
 * `init`, `store`, `retrieve` and `forget` are those of A2E 1.0; their further fields and the other messages are additions,
 * which peers that do not know them ignore.
 * @see docs/protocol/a2e.md#memory-messages
 */
import { answer, base, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, flag, may, number, orNull, shape, text } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';

const integer = (description: string) => Type.Integer({ description });
const texts = (description: string) => Type.Array(Type.String(), { description });
const memoryId = Type.String({ description: 'The memory, from memory/init/resp.' });
const keys = may(
  Type.Array(Type.Unknown(), { description: 'Keys: objects, compared as a whole; a text t stands for {"key": t}.' }),
);
const tags = may(texts('Any of these tags.'));
const tier = (description: string) => may(Type.String({ description }));
const limit = (most: string) =>
  may(Type.Integer({ minimum: 0, description: `Most entries of the reply; default 10, ${most}. 0: the total alone.` }));
const asOf = may(orNull(number('Only entries valid at this time, epoch seconds. Default: now.')));

export const MemoryParts = shape('How a search found an entry.', {
  lexical: number('BM25 of the words, scaled to 0 to 1; 0 when no word matches.'),
  vector: number('Cosine of the vectors, 0 to 1; 0 when it is not among the nearest.'),
  literal: flag('The query as it stands is part of the entry.'),
  rank: integer('Place in the ranking, from 1.'),
});

export const MemoryProvenance = shape(
  'Which agent stored an entry. The host writes it; what an agent sends here is ignored.',
  {
    agent_id: text('The agent.'),
    session_id: text('Its session.'),
    principal: may(text('In a shared space: the principal that published it.')),
    published_at: may(number('In a shared space: when, epoch seconds.')),
  },
);

export const MemoryEntry = shape('One version of an entry.', {
  key: anyObject('The key, an object. Storing the same key in the same tier replaces the entry.'),
  content: Type.Unknown({ description: 'Any JSON.' }),
  tier: text(
    'working: ends with the session. episodic: of this agent of this principal. semantic: of the principal, or of a shared space.',
  ),
  tags: may(texts('Labels.')),
  source: may(text('Where it comes from; free text.')),
  score: may(number('In replies to a search its score, 0 to 1; else as stored, default 1.')),
  ttl: may(integer('Seconds from storing until it is deleted; 0: none.')),
  expires_at: may(
    number('In a store: when it is deleted, epoch seconds, in place of the moment that ttl gives. Imports send it.'),
  ),
  created_at: may(number('Epoch seconds.')),
  updated_at: may(number('Epoch seconds.')),
  valid_from: may(orNull(number('The fact holds from this time on, epoch seconds. Default: when it was stored.'))),
  valid_until: may(orNull(number('It holds until this time. Null: until another one replaces it.'))),
  supersedes: may(
    Type.Array(Type.Unknown(), { description: 'Keys of the same tier whose facts end where this one begins.' }),
  ),
  metadata: may(anyObject('Of the caller; metadata.importance, a number, decides among equal scores.')),
  parts: may(MemoryParts),
  space: may(text('The shared space it is in.')),
  provenance: may(MemoryProvenance),
  current: may(flag('In a history: holds now.')),
});

export const MemoryInitReq = Type.Object(
  {
    ...base,
    type: Type.Literal('memory/init/req'),
    namespace: may(text('Name of the memory; default "default".')),
    scope: may(
      anyObject('Further parts of its name, texts by name. `space` names a shared space to read, as `spaces` does.'),
    ),
    metadata: may(anyObject('Of the caller; not stored.')),
    spaces: may(texts('Shared spaces that its searches read too.')),
    agent_id: may(text('The memory of another agent of the same principal.')),
  },
  { ...fromAgent, description: 'Opens a memory of this agent of this principal; the same names open the same memory.' },
);

export const MemoryInitResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('memory/init/resp'),
    memory_id: text('Stays valid over sessions and restarts.'),
    namespace: text('As asked for.'),
    success: may(flag('True.')),
    spaces: may(texts('The shared spaces its searches read.')),
    embedder: may(text('The embedder, which makes the vectors.')),
  },
  { ...fromHost, description: 'The memory.' },
);

export const MemoryStoreReq = Type.Object(
  {
    ...base,
    type: Type.Literal('memory/store/req'),
    memory_id: memoryId,
    entries: may(Type.Array(anyObject(), { description: 'MemoryEntry each.' })),
  },
  { ...fromAgent, description: 'Stores entries. Invalid ones are reported and the others stored.' },
);

export const MemoryStoreResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('memory/store/resp'),
    stored: may(Type.Array(anyObject(), { description: 'The keys that are on disk.' })),
    errors: may(texts('Why entries were not stored, with their index.')),
  },
  { ...fromHost, description: 'The stored entries.' },
);

export const MemoryRetrieveReq = Type.Object(
  {
    ...base,
    type: Type.Literal('memory/retrieve/req'),
    memory_id: memoryId,
    keys,
    query: may(text('Searched for as literal text, by words and by similarity; empty: no search.')),
    tags,
    tier: tier('Only this tier; empty: every tier.'),
    limit: limit('at most 1,000'),
    min_score: may(number('Only entries with this score or more.')),
    page_cursor: may(text('next_cursor of the page before.')),
    as_of: asOf,
    ranking: may(text('hybrid (default), lexical or vector.')),
    all_versions: may(flag('Also versions that do not hold now; not with a query.')),
  },
  { ...fromAgent, description: 'Entries that meet all of keys, query, tags, tier and min_score.' },
);

export const MemoryRetrieveResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('memory/retrieve/resp'),
    entries: may(Type.Array(MemoryEntry, { description: 'A search: the best first. Else the newest first.' })),
    total: may(
      integer(
        'Entries that match, before limit. A search counts at most its 1,000 best candidates; a list with tags, as_of or a min_score above 0 at most 10,000.',
      ),
    ),
    next_cursor: may(text('For the next page; absent at the end.')),
    degraded: may(text('Why the ranking is lexical alone, as when the embedder does not respond.')),
  },
  { ...fromHost, description: 'The entries found.' },
);

export const MemoryForgetReq = Type.Object(
  {
    ...base,
    type: Type.Literal('memory/forget/req'),
    memory_id: memoryId,
    keys,
    tags,
    tier: tier('The tier; default episodic, "" for every tier.'),
    sources: may(texts('Entries of any of these sources.')),
    before: may(
      orNull(number('Only what was last stored before this time, epoch seconds. Alone: everything that old.')),
    ),
    space: may(text('Of this shared space instead of the own entries.')),
  },
  {
    ...fromAgent,
    description:
      'Deletes entries with all their versions: those with any of the keys, tags or sources. With none of these and no before, nothing.',
  },
);

export const MemoryForgetResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('memory/forget/resp'),
    deleted: may(integer('Entries deleted.')),
    erased: may(flag('True: their bytes are no longer in the database files either.')),
  },
  { ...fromHost, description: 'How many entries were deleted.' },
);

export const MemoryHistoryReq = Type.Object(
  {
    ...base,
    type: Type.Literal('memory/history/req'),
    memory_id: memoryId,
    key: Type.Unknown({ description: 'The key; a text t stands for {"key": t}.' }),
    tier: tier('Only this tier; empty: every tier.'),
    limit: limit('at most 1,000'),
  },
  { ...fromAgent, description: 'All versions of a key, and of the keys that it superseded or that superseded it.' },
);

export const MemoryHistoryResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('memory/history/resp'),
    entries: Type.Array(MemoryEntry, { description: 'The newest valid_from first.' }),
    total: integer('Versions there are.'),
  },
  { ...fromHost, description: 'The versions of a key.' },
);

export const MemoryPublishReq = Type.Object(
  {
    ...base,
    type: Type.Literal('memory/publish/req'),
    memory_id: memoryId,
    space: text('The shared space, which the principal must be granted to write.'),
    keys,
    tags,
  },
  {
    ...fromAgent,
    description: 'Moves semantic entries with any of the keys or tags into a shared space, with their provenance.',
  },
);

export const MemoryPublishResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('memory/publish/resp'),
    published: Type.Array(anyObject(), { description: 'The keys that are in the space now.' }),
  },
  { ...fromHost, description: 'The published entries.' },
);

export const MemoryWatchReq = Type.Object(
  {
    ...base,
    type: Type.Literal('memory/watch/req'),
    namespace: may(text('Name of the memory; default "default".')),
    scope: may(anyObject('Further parts of its name, as of memory/init/req.')),
    agent_id: may(text('The memory of another agent of the same principal.')),
    on: may(flag('False ends it. Default true.')),
  },
  {
    ...fromAgent,
    description:
      'The session gets what changes in a memory, until it ends or the host is restarted. The memory need not be open.',
  },
);

export const MemoryWatchResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('memory/watch/resp'),
    memory_id: text('The memory.'),
    on: flag('It is watched.'),
  },
  { ...fromHost, description: 'Changes arrive from now on.' },
);

export const MemoryChangedPush = Type.Object(
  {
    ...base,
    type: Type.Literal('memory/changed/push'),
    memory_id: text('The memory.'),
    keys: Type.Array(anyObject(), { description: 'The stored or deleted keys, at most 100.' }),
    more: flag('There are further keys.'),
  },
  {
    ...fromHost,
    description:
      'A watched memory has changed, by any session of the principal. Changes of 50 ms go together. Entries whose time has passed are not announced.',
  },
);

export const MemorySpace = shape('A shared space.', {
  space: text('Its name.'),
  entries: integer('Entries in it.'),
  write: flag('The principal may publish to it and forget from it.'),
});

export const MemorySpacesReq = Type.Object(
  { ...base, type: Type.Literal('memory/spaces/req') },
  { ...fromAgent, description: 'The shared spaces that this principal may read.' },
);

export const MemorySpacesResp = Type.Object(
  { ...answer, type: Type.Literal('memory/spaces/resp'), spaces: Type.Array(MemorySpace) },
  { ...fromHost, description: 'The shared spaces.' },
);

export const MemoryAmount = shape('An amount of stored entries. Every version counts.', {
  entries: integer('Versions.'),
  bytes: integer('Bytes of keys, contents and what is stored with them.'),
});

export const MemoryStatsReq = Type.Object(
  {
    ...base,
    type: Type.Literal('memory/stats/req'),
    memory_id: may(text('Only this memory; empty: all of the principal.')),
  },
  { ...fromAgent, description: 'How much is stored, and how far the vectors are.' },
);

export const MemoryStatsResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('memory/stats/resp'),
    tiers: anyObject('MemoryAmount by tier.'),
    used: MemoryAmount,
    quota: MemoryAmount,
    embedder: text('The embedder, which makes the vectors.'),
    pending: integer('Entries that wait for a vector of this embedder.'),
    problem: may(text('Why the embedder does not get on, if so.')),
  },
  { ...fromHost, description: 'The amounts stored for this principal.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const memorySchemas = {
  MemoryInitReq,
  MemoryInitResp,
  MemoryStoreReq,
  MemoryStoreResp,
  MemoryEntry,
  MemoryParts,
  MemoryProvenance,
  MemoryRetrieveReq,
  MemoryRetrieveResp,
  MemoryForgetReq,
  MemoryForgetResp,
  MemoryHistoryReq,
  MemoryHistoryResp,
  MemoryPublishReq,
  MemoryPublishResp,
  MemoryWatchReq,
  MemoryWatchResp,
  MemoryChangedPush,
  MemorySpacesReq,
  MemorySpacesResp,
  MemorySpace,
  MemoryStatsReq,
  MemoryStatsResp,
  MemoryAmount,
};

export type MemoryEntry = Static<typeof MemoryEntry>;
export type MemoryParts = Static<typeof MemoryParts>;
export type MemoryProvenance = Static<typeof MemoryProvenance>;
export type MemoryInitReq = Static<typeof MemoryInitReq>;
export type MemoryInitResp = Static<typeof MemoryInitResp>;
export type MemoryStoreReq = Static<typeof MemoryStoreReq>;
export type MemoryStoreResp = Static<typeof MemoryStoreResp>;
export type MemoryRetrieveReq = Static<typeof MemoryRetrieveReq>;
export type MemoryRetrieveResp = Static<typeof MemoryRetrieveResp>;
export type MemoryForgetReq = Static<typeof MemoryForgetReq>;
export type MemoryForgetResp = Static<typeof MemoryForgetResp>;
export type MemoryHistoryReq = Static<typeof MemoryHistoryReq>;
export type MemoryHistoryResp = Static<typeof MemoryHistoryResp>;
export type MemoryPublishReq = Static<typeof MemoryPublishReq>;
export type MemoryPublishResp = Static<typeof MemoryPublishResp>;
export type MemoryWatchReq = Static<typeof MemoryWatchReq>;
export type MemoryWatchResp = Static<typeof MemoryWatchResp>;
export type MemoryChangedPush = Static<typeof MemoryChangedPush>;
export type MemorySpace = Static<typeof MemorySpace>;
export type MemorySpacesReq = Static<typeof MemorySpacesReq>;
export type MemorySpacesResp = Static<typeof MemorySpacesResp>;
export type MemoryAmount = Static<typeof MemoryAmount>;
export type MemoryStatsReq = Static<typeof MemoryStatsReq>;
export type MemoryStatsResp = Static<typeof MemoryStatsResp>;
