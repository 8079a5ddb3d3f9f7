/** Requests of the plugin to the memory engine, and its replies: plain data that crosses to the engine's thread. */
import type { MemoryKey } from '../key.ts';

export const TIERS = ['working', 'episodic', 'semantic'] as const;
export type Tier = (typeof TIERS)[number];

/** Options of the engine from the configuration. */
export interface EngineOptions {
  /** Folder of the databases. */
  readonly folder: string;
  readonly quotaEntries: number;
  readonly quotaBytes: number;
  readonly maxEntryBytes: number;
  /** Versions of a key that are stored beside the newest. */
  readonly historyVersions: number;
  /** Days after which the rest of a session that never ended in order is deleted. */
  readonly workingDays: number;
  readonly embedder?: EndpointOptions | undefined;
}

/** A server that computes vectors, as of the OpenAI API. */
export interface EndpointOptions {
  readonly baseUrl: string;
  readonly model: string;
  /** Value of the key, if the server requires one. */
  readonly key?: string | undefined;
  readonly timeoutMs: number;
}

/** The requester: selects the database, and the parts in it. */
export interface Asker {
  readonly principal: string;
  readonly agent: string;
  readonly session: string;
  /** Maximum bytes of this principal's memory, beside all else that is stored for it; undefined: no such limit. */
  readonly storedBytes?: number | undefined;
}

/** An entry that was checked. Times are epoch seconds. */
export interface NewEntry {
  readonly key: MemoryKey;
  readonly content: unknown;
  readonly tier: Tier;
  readonly tags: readonly string[];
  readonly source: string;
  readonly score: number;
  readonly ttl: number;
  /** Time of expiry, epoch seconds, in place of the time of storing + `ttl`. */
  readonly expiresAt?: number | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly validFrom: number | undefined;
  readonly validUntil: number | undefined;
  readonly supersedes: readonly MemoryKey[];
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  readonly provenance?: Readonly<Record<string, unknown>> | undefined;
}

export type RankingName = 'hybrid' | 'lexical' | 'vector';

/** Selects entries of a memory. */
export interface Selection {
  readonly keys: readonly MemoryKey[];
  readonly tags: readonly string[];
  /** Undefined: every tier. */
  readonly tier: Tier | undefined;
}

export interface RetrieveRequest extends Selection {
  readonly memory: string;
  readonly spaces: readonly string[];
  readonly query: string;
  readonly limit: number;
  readonly minScore: number;
  readonly cursor: string;
  readonly asOf: number | undefined;
  readonly ranking: RankingName;
  readonly allVersions: boolean;
}

export interface ForgetRequest extends Selection {
  readonly memory: string;
  readonly sources: readonly string[];
  readonly before: number | undefined;
  /** Selects a shared space instead of the own tiers. */
  readonly space: string;
}

/** The operations, each with its arguments and its reply. */
export interface Operations {
  init: [
    { readonly agent: string; readonly namespace: string; readonly scope: Readonly<Record<string, unknown>> },
    { memory: string; embedder: string },
  ];
  /** `at` are the indexes of the entries in the request, for messages. `name` in replies is that of the memory. */
  store: [
    { readonly memory: string; readonly entries: readonly NewEntry[]; readonly at: readonly number[] },
    { stored: MemoryKey[]; errors: string[]; name: string },
  ];
  retrieve: [
    RetrieveRequest,
    { entries: Record<string, unknown>[]; total: number; next_cursor?: string; degraded?: string },
  ];
  /** `changed`: the keys, incomplete if `more` is true. */
  forget: [
    ForgetRequest,
    {
      deleted: number;
      erased: boolean;
      changed: { readonly key: MemoryKey; readonly tier: Tier }[];
      more: boolean;
      name: string;
    },
  ];
  history: [
    { readonly memory: string; readonly key: MemoryKey; readonly tier: Tier | undefined; readonly limit: number },
    { entries: Record<string, unknown>[]; total: number },
  ];
  publish: [
    {
      readonly memory: string;
      readonly space: string;
      readonly keys: readonly MemoryKey[];
      readonly tags: readonly string[];
    },
    { published: MemoryKey[]; name: string },
  ];
  spaces: [Record<string, never>, { spaces: { space: string; entries: number }[] }];
  stats: [
    { readonly memory: string },
    {
      tiers: Record<string, { entries: number; bytes: number }>;
      used: { entries: number; bytes: number };
      quota: { entries: number; bytes: number };
      embedder: string;
      pending: number;
      problem?: string;
    },
  ];
  /** Ends a session: deletes its working tier. */
  endSession: [Record<string, never>, Record<string, never>];
}

export type OperationName = keyof Operations;
export type Arguments<Name extends OperationName> = Operations[Name][0];
export type Reply<Name extends OperationName> = Operations[Name][1];
