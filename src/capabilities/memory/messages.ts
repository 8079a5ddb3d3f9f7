/**
 * The methods of the memory capability, with their checks and options.
 *
 * @see docs/memory.md
 */
import { methodsOf, type Push } from '../../protocol/method.ts';
import * as checks from './memory.generated.ts';
import type {
  MemoryChangedPush,
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
  MemoryWatchReq,
  MemoryWatchResp,
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
  MemoryWatchReq,
  MemoryWatchResp,
};

/** Repeating a request of the memory has no further effect: a repeated store finds its entries stored. */
const memory = methodsOf({ capability: 'memory', event: 'invoke/event', idempotent: true });
export const memoryInit = memory<MemoryInitReq, MemoryInitResp>('memory/init/req', checks.MemoryInitReq);
export const memoryStore = memory<MemoryStoreReq, MemoryStoreResp>('memory/store/req', checks.MemoryStoreReq);
export const memoryRetrieve = memory<MemoryRetrieveReq, MemoryRetrieveResp>(
  'memory/retrieve/req',
  checks.MemoryRetrieveReq,
);
export const memoryForget = memory<MemoryForgetReq, MemoryForgetResp>('memory/forget/req', checks.MemoryForgetReq);
export const memoryHistory = memory<MemoryHistoryReq, MemoryHistoryResp>('memory/history/req', checks.MemoryHistoryReq);
export const memoryPublish = memory<MemoryPublishReq, MemoryPublishResp>('memory/publish/req', checks.MemoryPublishReq);
export const memorySpaces = memory<MemorySpacesReq, MemorySpacesResp>('memory/spaces/req', checks.MemorySpacesReq);
export const memoryStats = memory<MemoryStatsReq, MemoryStatsResp>('memory/stats/req', checks.MemoryStatsReq);
export const memoryWatch = memory<MemoryWatchReq, MemoryWatchResp>('memory/watch/req', checks.MemoryWatchReq);

/** The push about a change of a memory that the session watches. */
export const memoryChanged: Push<Omit<MemoryChangedPush, 'type' | 'id'>> = {
  push: 'memory/changed/push',
  capability: 'memory',
};
