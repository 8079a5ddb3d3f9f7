/**
 * The methods of the proc capability, with their checks and options.
 *
 * @see docs/proc.md
 */
import { methodsOf } from '../../protocol/method.ts';
import * as checks from './proc.generated.ts';
import { ProcReadEvent } from './proc.replies.generated.ts';
import type * as schema from './proc.schema.ts';

const proc = methodsOf({ capability: 'proc', event: 'proc/read/event' });
const events = { checkEvent: ProcReadEvent } as const;

export const procSpawn = proc<schema.ProcSpawnReq, schema.ProcSpawnResp>('proc/spawn/req', checks.ProcSpawnReq, events);
/** Waits until the program reads, which may be after the agent has read its output, or ends it. */
export const procWrite = proc<schema.ProcWriteReq, schema.ProcWriteResp>('proc/write/req', checks.ProcWriteReq, {
  waits: () => true,
});
export const procKill = proc<schema.ProcKillReq, schema.ProcKillResp>('proc/kill/req', checks.ProcKillReq);
export const procStatus = proc<schema.ProcStatusReq, schema.ProcStatusResp>('proc/status/req', checks.ProcStatusReq, {
  idempotent: true,
});
export const procRead = proc<schema.ProcReadReq, schema.ProcReadResp>('proc/read/req', checks.ProcReadReq, {
  ...events,
  idempotent: true,
  subscribes: true,
});
export const procAck = proc<schema.ProcAckReq, schema.ProcAckResp>('proc/ack/req', checks.ProcAckReq, {
  idempotent: true,
});
export const procResize = proc<schema.ProcResizeReq, schema.ProcResizeResp>('proc/resize/req', checks.ProcResizeReq, {
  idempotent: true,
});
