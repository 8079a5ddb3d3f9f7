/**
 * Reads the additive messages: as strict about what they need as the three of the protocol itself, as kind to what is
 * unknown. They keep their wire form, without members that are null or that nobody here knows.
 *
 * Called by `decode.ts`.
 * @see docs/protocol/fleet.md#additive-messages
 */
import type { Envelope, TaskAck, TaskQuestion } from '../../protocol/fleet.ts';
import type { Addition } from './decoded.ts';
import { lease, ROOT_FIELDS } from './envelope.ts';
import type { Findings } from './findings.ts';
import {
  agentId,
  count,
  type FieldsOf,
  filled,
  flag,
  id,
  listOf,
  may,
  need,
  object,
  objectOf,
  oneOf,
  percent,
  prompt,
  readFields,
  seconds,
  text,
} from './read.ts';
import type { Members } from './strict-json.ts';

type OwnFields<M> = FieldsOf<Omit<M, 'type' | 'protocol_version' | 'envelope'>>;

const fields: { readonly [T in Addition['type']]: OwnFields<Extract<Addition, { readonly type: T }>> } = {
  TASK_ACK: {
    task_id: need(id),
    accepted: need(flag),
    lease: may(lease),
    state: may(oneOf<NonNullable<TaskAck['state']>>(['accepted', 'running', 'finished', 'unknown', 'busy'])),
    retry_after_s: may(seconds),
  },
  TASK_PROGRESS: {
    task_id: need(id),
    seq: need(count),
    phase: need(filled),
    note: may(text),
    percent: may(percent),
    tokens_so_far: may(count),
  },
  TASK_CANCEL: { task_id: need(id), reason: may(text) },
  TASK_STEER: { task_id: need(id), steer_id: need(id), text: need(prompt) },
  TASK_POLL: { task_id: need(id) },
  TASK_QUESTION: {
    task_id: need(id),
    question_id: need(id),
    kind: need(oneOf<TaskQuestion['kind']>(['tool', 'question'])),
    title: need(filled),
    tool: may(objectOf<NonNullable<TaskQuestion['tool']>>({ name: need(filled), input: need(object) })),
    risks: may(listOf(text)),
    schema: may(object),
    expires_s: may(seconds),
  },
  TASK_ANSWER: {
    task_id: need(id),
    question_id: need(id),
    allowed: need(flag),
    content: may(object),
    reason: may(text),
  },
  SESSION_HEARTBEAT: { agent_id: need(agentId), incarnation: need(id), seq: need(count), active_tasks: need(count) },
  SESSION_BYE: { agent_id: need(agentId), incarnation: may(id), reason: need(filled) },
  SESSION_ACCEPT: {
    peer_id: need(id),
    features: need(listOf(text)),
    heartbeat_s: need(seconds),
    lease_ttl_s: need(seconds),
  },
  ANNOUNCE_REQUEST: { context_id: may(id) },
};

const known = new Map(
  Object.entries(fields).map(([type, own]) => [type, new Set<string>([...ROOT_FIELDS, ...Object.keys(own)])]),
);

/** True for the type of an additive message. */
export const isAddition = (type: string): type is Addition['type'] => known.has(type);

/** The message. Of use only when nothing was found wrong. */
export function readAddition(
  type: Addition['type'],
  message: Members,
  version: string,
  envelope: Envelope,
  found: Findings,
): Addition {
  found.unknown(message, known.get(type) as ReadonlySet<string>, '');
  const own: object = readFields(fields[type] as FieldsOf<object>, message, found, '');
  const enveloped = message.envelope === undefined || message.envelope === null ? {} : { envelope };
  return { type, protocol_version: version, ...own, ...enveloped } as Addition;
}
