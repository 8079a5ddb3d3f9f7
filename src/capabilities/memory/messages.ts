/**
 * The methods of the memory capability: what `client.ts` calls and `plugin.ts` serves.
 *
 * @see docs/memory.md
 */
import { method } from '../../protocol/method.ts';
import * as checks from './memory.generated.ts';
import type {
  MemoryForgetReq,
  MemoryForgetResp,
  MemoryHistoryReq,
  MemoryHistoryResp,
  MemoryInitReq,
  MemoryInitResp,
  MemoryPublishReq,
  MemoryPublishResp,
  MemoryRetrieveReq,
  MemoryRetrieveResp,
  MemorySpacesReq,
  MemorySpacesResp,
  MemoryStatsReq,
  MemoryStatsResp,
  MemoryStoreReq,
  MemoryStoreResp,
} from './memory.schema.ts';

export type { MemoryAmount, MemoryEntry, MemoryParts, MemoryProvenance, MemorySpace } from './memory.schema.ts';
export type {
  MemoryForgetReq,
  MemoryForgetResp,
  MemoryHistoryReq,
  MemoryHistoryResp,
  MemoryInitReq,
  MemoryInitResp,
  MemoryPublishReq,
  MemoryPublishResp,
  MemoryRetrieveReq,
  MemoryRetrieveResp,
  MemorySpacesReq,
  MemorySpacesResp,
  MemoryStatsReq,
  MemoryStatsResp,
  MemoryStoreReq,
  MemoryStoreResp,
};

/** Of every method: the events of the protocol, and that repeating it does no more than making it once. */
const common = { event: 'invoke/event', capability: 'memory', idempotent: true } as const;

export const memoryInit = method<MemoryInitReq, MemoryInitResp>({
  ...common,
  request: 'memory/init/req',
  reply: 'memory/init/resp',
  checkRequest: checks.MemoryInitReq,
});

/** Idempotent: the same key again replaces the entry by itself. */
export const memoryStore = method<MemoryStoreReq, MemoryStoreResp>({
  ...common,
  request: 'memory/store/req',
  reply: 'memory/store/resp',
  checkRequest: checks.MemoryStoreReq,
});

export const memoryRetrieve = method<MemoryRetrieveReq, MemoryRetrieveResp>({
  ...common,
  request: 'memory/retrieve/req',
  reply: 'memory/retrieve/resp',
  checkRequest: checks.MemoryRetrieveReq,
});

export const memoryForget = method<MemoryForgetReq, MemoryForgetResp>({
  ...common,
  request: 'memory/forget/req',
  reply: 'memory/forget/resp',
  checkRequest: checks.MemoryForgetReq,
});

export const memoryHistory = method<MemoryHistoryReq, MemoryHistoryResp>({
  ...common,
  request: 'memory/history/req',
  reply: 'memory/history/resp',
  checkRequest: checks.MemoryHistoryReq,
});

export const memoryPublish = method<MemoryPublishReq, MemoryPublishResp>({
  ...common,
  request: 'memory/publish/req',
  reply: 'memory/publish/resp',
  checkRequest: checks.MemoryPublishReq,
});

export const memorySpaces = method<MemorySpacesReq, MemorySpacesResp>({
  ...common,
  request: 'memory/spaces/req',
  reply: 'memory/spaces/resp',
  checkRequest: checks.MemorySpacesReq,
});

export const memoryStats = method<MemoryStatsReq, MemoryStatsResp>({
  ...common,
  request: 'memory/stats/req',
  reply: 'memory/stats/resp',
  checkRequest: checks.MemoryStatsReq,
});
