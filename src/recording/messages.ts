/**
 * Classifies a recorded message in its protocol: its kind, and the request it belongs to. Pure; the only knowledge of
 * protocols that replay and diff have.
 */
import { A2ECodec } from '../wire/a2e.ts';
import type { Codec, IncomingKind } from '../wire/codec.ts';
import { membersOf } from '../wire/json.ts';
import { JsonRpcCodec } from '../wire/jsonrpc.ts';
import type { Protocol } from './format.ts';

type Message = Readonly<Record<string, unknown>>;

/** `ping` and `pong` only show that a side responds: their times vary. */
export interface Classified {
  readonly kind: Exclude<IncomingKind, 'invalid'> | 'other';
  /** Type or method; of a reply of session RPC, which has none, `''`. */
  readonly type: string;
  /** Its own id, where others may refer to it; `''` = none. */
  readonly id: string;
  /** The id of the request it belongs to, replies, events and cancels alike; `''` = none. */
  readonly ref: string;
}

/** Ids as keys: the number 1 and the text "1" are two. */
export const idKey = (id: unknown): string =>
  typeof id === 'string' && id !== '' ? `s${id}` : typeof id === 'number' ? `n${id}` : '';

/** Messages of the fleet that show nothing but that a side responds. */
const HEARTBEAT = 'SESSION_HEARTBEAT';

/**
 * Returns true for messages that a worker of a fleet sends on its own initiative: progress, and its announce again.
 * Their time and number vary. `isFirst`: it is the first message that counts on its connection.
 */
export const isReport = (type: string, isFirst: boolean): boolean =>
  type === 'TASK_PROGRESS' || (type === 'SESSION_ANNOUNCE' && !isFirst);

/**
 * Returns the reply of a played side of a fleet to a heartbeat, since its silence would count as its end; undefined for
 * another message. `own`: the members that name a played worker.
 */
export const heartbeatTo = (message: Message, own: Message = {}): Message | undefined =>
  message.type === HEARTBEAT ? { ...message, active_tasks: 0, ...own } : undefined;

const a2e = new A2ECodec('recording-');
const rpc = new JsonRpcCodec({ calls: true });

/** Returns the protocol that a first message selects. */
export function protocolOf(message: Message): Protocol {
  if (Object.hasOwn(message, 'jsonrpc')) return 'session-rpc';
  const { type } = message;
  if (typeof type !== 'string') return 'unknown';
  return /^(?:SESSION|TASK)_[A-Z_]+$/.test(type) ? 'fleet' : 'a2e';
}

export function classify(protocol: Protocol, message: Message): Classified {
  if (protocol === 'fleet' || protocol === 'unknown') {
    const type = typeof message.type === 'string' ? message.type : '';
    return { kind: type === HEARTBEAT ? 'ping' : 'notice', type, id: '', ref: '' };
  }
  const codec: Codec = protocol === 'a2e' ? a2e : rpc;
  const read = codec.read(message as Record<string, unknown>, Number.POSITIVE_INFINITY);
  if (read === undefined || read.kind === 'invalid') return { kind: 'other', type: '', id: '', ref: '' };
  const { kind, type } = read;
  const isPing = protocol === 'session-rpc' && type === 'rpc.ping';
  return {
    kind: isPing ? 'ping' : kind,
    type,
    id: kind === 'request' || kind === 'ping' ? idKey(message.id) : '',
    ref: idKey(read.ref),
  };
}

/** Returns the message with the member that names the request of a reply, event or cancel. */
export function withRef(protocol: Protocol, message: Message, kind: Classified['kind'], id: unknown): Message {
  if (protocol === 'a2e') return { ...message, req_id: id };
  if (kind === 'cancel') return { ...message, params: { ...(message.params as object), id } };
  return { ...message, id };
}

const RESUME = 'handfast/resume';

/** Returns the session that a handshake of A2E resumes, and the cursor after which; undefined for any other message. */
export function resumed(message: Message): { readonly session: string; readonly cursor: number } | undefined {
  const { session_id: session, cursor } = membersOf(membersOf(message.extensions)[RESUME]);
  return typeof session === 'string' && typeof cursor === 'number' ? { session, cursor } : undefined;
}

/**
 * Returns the reply to a handshake of A2E for an agent that did not ask for resume: whether one asks depends on its
 * transport, which may differ from the recorded one.
 */
export function asAsked(reply: Message, handshake: Message): Message {
  const { extensions } = reply;
  if (RESUME in membersOf(handshake.extensions) || !(RESUME in membersOf(extensions))) return reply;
  const { [RESUME]: _unasked, ...others } = membersOf(extensions);
  return { ...reply, extensions: others };
}
