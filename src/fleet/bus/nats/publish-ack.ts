/**
 * The acknowledgement of a stored message by a NATS server, and the errors that its refusals become here.
 */
import { fail, HandfastError } from '../../../wire/errors.ts';
import type { Msg } from './client.ts';

/** Returns the position at which a stream stored a message; throws its error otherwise. */
export function readPublishAck({ data }: Pick<Msg, 'data'>): number {
  const reply = JSON.parse(Buffer.from(data).toString()) as {
    readonly type?: unknown;
    readonly seq?: unknown;
    readonly error?: { readonly description?: string; readonly code?: number; readonly err_code?: number };
  };
  // Messages of the protocol have a type, acknowledgements have none.
  if (reply.type !== undefined) throw new Error('not an acknowledgement of a stream');
  if (reply.error !== undefined) {
    const { description = 'refused', code: status, err_code: code } = reply.error;
    throw Object.assign(new Error(description), { name: 'JetStreamApiError', code, status });
  }
  if (typeof reply.seq !== 'number') throw new Error('not an acknowledgement of a stream');
  // Servers of the 2.10 line acknowledge so what they have proposed to the others and not stored yet.
  if (reply.seq === 0) {
    const why = 'an earlier copy of the message is being stored';
    throw Object.assign(new Error(why), { name: 'JetStreamApiError', code: IN_PROCESS });
  }
  return reply.seq;
}

/** JetStream's number for a message whose earlier copy is not stored yet. */
const IN_PROCESS = 10158;

/**
 * JetStream's numbers for what passes by itself: a cluster that is choosing who decides, or has too few servers just now;
 * a stream or consumer whose server is unreachable or has too much to do; an earlier copy of the same message, or an earlier
 * write of the same key, that is not stored yet.
 */
const PASSING = new Set<unknown>([10004, 10005, 10007, 10008, 10009, 10118, 10119, IN_PROCESS, 10163, 10167]);
const UNAVAILABLE = 503;

/** True for a refusal of JetStream that says nothing about the request: the same one may succeed in a moment. */
export function isPassing(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'JetStreamApiError') return false;
  const { code, status } = error as { readonly code?: unknown; readonly status?: unknown };
  // A server that is no longer the one that decides refuses what it cannot propose without a number.
  return PASSING.has(code) || (code === undefined && status === UNAVAILABLE);
}

/** JetStream's numbers: the stream could not store it, it is too long for the stream, the server or account has no room. */
const NOT_STORED = 10077;
const TOO_LONG = 10054;
const NO_ROOM = new Set([10002, 10023, 10028, 10047]);

/** Returns the error for a refusal of the server, or of the client before sending. */
export function publishError(error: unknown): HandfastError {
  if (error instanceof HandfastError) return error;
  const { name, message } = error as Error;
  if (name === 'JetStreamApiError') {
    const { code } = error as { code?: unknown };
    if (code === NOT_STORED && message.includes('maximum')) {
      return fail('over_capacity', `the stream is full: ${message}`, { retry_after_ms: 5000 }, error);
    }
    if (code === TOO_LONG) return fail('too_large', `the NATS server refused: ${message}`, {}, error);
    if (code === NOT_STORED || NO_ROOM.has(code as number)) {
      return fail('disk_full', `the NATS server has no storage left: ${message}`, {}, error);
    }
    return fail('runtime_error', `the NATS server refused: ${message}`, { nats: code as number }, error);
  }
  if (name === 'PermissionViolationError') {
    return fail('unauthorized', `the NATS server does not permit it: ${message}`, {}, error);
  }
  if (name === 'InvalidArgumentError' && message.includes('max_payload')) {
    return fail('too_large', 'the message exceeds max_payload of the NATS server', {}, error);
  }
  return fail('runtime_error', `the NATS client failed: ${message}`, {}, error);
}
