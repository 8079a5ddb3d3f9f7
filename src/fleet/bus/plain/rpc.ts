/**
 * The JSON-RPC that both dialects of plain peers share: error numbers, the body of a request, and the reply of a busy worker.
 *
 * @see docs/protocol/fleet.md#http
 */
import { FLEET_EXTENSION } from '../../../protocol/fleet.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { type Members, readStrictJson } from '../../../wire/strict-json.ts';

/** JSON-RPC error numbers. */
export const RPC = {
  parse: -32700,
  request: -32600,
  method: -32601,
  params: -32602,
  /** Inbox, bridge, timeout. */
  failed: -32000,
  /** Busy in the dialect of upstream's receivers; "no such task" in A2A 1.0. */
  busy: -32001,
  /** Busy, for a peer that speaks the fleet extension: outside the reserved range. */
  fleetBusy: -31001,
} as const;

export type RpcId = string | number | null;

/** Adds the retry delay to the text of an error, because some clients only pass that on. */
const RETRY_AFTER = /retry after (\d+(?:\.\d+)?) ?s/;
const DEFAULT_RETRY_S = 30;

export const rpcId = (id: unknown): RpcId => (typeof id === 'string' || typeof id === 'number' ? id : null);

/** The members of a request's body, or the error to respond with. Never throws. */
export type RpcBody =
  | { readonly ok: true; readonly value: Members }
  | { readonly ok: false; readonly code: number; readonly message: string };

export function readRpcBody(body: Uint8Array): RpcBody {
  const json = readStrictJson(body);
  if (json.ok) return json;
  const codes = json.errors.map(({ code }) => code);
  const code = codes.includes('E_NOT_JSON') ? RPC.parse : RPC.request;
  return { ok: false, code, message: `not a request: ${codes.join(', ')}` };
}

export function errorResponse(id: RpcId, code: number, message: string, data?: unknown): object {
  return { jsonrpc: '2.0', id, error: { code, message, ...(data !== undefined && { data }) } };
}

/** Reason why a dispatch cannot run now. */
export interface Busy {
  readonly retryAfterS: number;
  /** `in_flight`: another attempt of the task runs · `context`: another turn of its conversation does. */
  readonly reason: 'in_flight' | 'context';
}

/**
 * Returns the error of a busy worker. Without `own` (a peer that does not speak the fleet extension) it has upstream's number,
 * which means "no such task" for a message that names one. `taskId` is the peer's own id of the task that runs already.
 */
export function busyError(own: boolean, { retryAfterS, reason }: Busy, taskId?: string): object {
  const message = `busy: ${reason === 'in_flight' ? 'this task is running' : 'a turn of this context is running'}; retry after ${retryAfterS} s`;
  if (!own) return { code: RPC.busy, message };
  const info = {
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason: 'FLEET_BUSY',
    domain: new URL(FLEET_EXTENSION).host,
    metadata: {
      retry_after_s: String(retryAfterS),
      busy: reason,
      ...(taskId !== undefined && reason === 'in_flight' && { task_id: taskId }),
    },
  };
  return { code: RPC.fleetBusy, message, data: [info] };
}

/** Reads the error of a busy peer as `over_capacity`; `detail.a2a_task` names the task that runs there already. */
export function busyFailure(peer: string, message: string, data: unknown, cause?: unknown): HandfastError {
  const infos: readonly unknown[] = Array.isArray(data) ? data : [];
  const info = infos.find((one) => (one as { reason?: unknown } | null)?.reason === 'FLEET_BUSY');
  const metadata = (info as { metadata?: Readonly<Record<string, unknown>> } | undefined)?.metadata ?? {};
  const seconds = Number(metadata.retry_after_s ?? RETRY_AFTER.exec(message)?.[1]);
  const retryAfterS = Number.isFinite(seconds) && seconds >= 0 ? seconds : DEFAULT_RETRY_S;
  return fail(
    'over_capacity',
    `${peer} is busy`,
    {
      reason: metadata.busy === 'in_flight' ? 'in_flight' : 'context',
      retry_after_ms: retryAfterS * 1000,
      ...(typeof metadata.task_id === 'string' && { a2a_task: metadata.task_id }),
    },
    cause,
  );
}
