/**
 * Names on NATS: the form of ids inside subjects, keys and consumer names, and the subject of each kind of message.
 *
 * Pure. The subjects are a contract with the permissions operators give to workers, so they are all here.
 * @see docs/nats.md#subjects
 */
import { createHash } from 'node:crypto';
import { isAgentId } from '../../messages/names.ts';

/** Escaped ids longer than this are replaced by a hash. */
const MAX_TOKEN_CHARS = 120;
const PLAIN = /^[A-Za-z0-9_-]{1,120}$/;
const HASHED = /^h=[0-9a-f]{64}$/;

/** True for a byte of an id that may stand for itself: letters, digits, `_` and `-`. */
function isPlain(byte: number): boolean {
  return (
    (byte >= 0x61 && byte <= 0x7a) ||
    (byte >= 0x41 && byte <= 0x5a) ||
    (byte >= 0x30 && byte <= 0x39) ||
    byte === 0x5f ||
    byte === 0x2d
  );
}

function escaped(id: string): string {
  let token = '';
  for (const byte of Buffer.from(id, 'utf8')) {
    token += isPlain(byte) ? String.fromCharCode(byte) : `=${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return token;
}

/**
 * Returns an id as one token of a subject, a key or a consumer name. Two ids never share a token: bytes outside `[A-Za-z0-9_-]`
 * become `=XX`; a token that would be longer than 120 characters, or look like a hash, becomes `h=` and the SHA-256 of the id.
 */
export function tokenOf(id: string): string {
  if (PLAIN.test(id)) return id;
  const token = escaped(id);
  if (token.length <= MAX_TOKEN_CHARS && !HASHED.test(token)) return token;
  return `h=${createHash('sha256').update(id).digest('hex')}`;
}

/** Returns the id a token stands for; undefined when it is a hash, or no token this module makes. */
export function idOf(token: string): string | undefined {
  if (PLAIN.test(token)) return token;
  if (token === '' || HASHED.test(token)) return undefined;
  let bytes = '';
  for (let at = 0; at < token.length; at++) {
    const char = token[at]!;
    if (char !== '=') {
      bytes += char;
      continue;
    }
    const hex = token.slice(at + 1, at + 3);
    if (!/^[0-9A-F]{2}$/.test(hex)) return undefined;
    bytes += String.fromCharCode(Number.parseInt(hex, 16));
    at += 2;
  }
  const id = Buffer.from(bytes, 'latin1').toString('utf8');
  return tokenOf(id) === token ? id : undefined;
}

/** True for a token that a worker may have: of the id of an agent, or the hash of one that is too long. */
export function isWorkerToken(token: string): boolean {
  const id = idOf(token);
  return id === undefined ? HASHED.test(token) : isAgentId(id);
}

/** Streams and buckets; see `streams.ts` for their settings. */
export const STREAMS = { dispatch: 'A2A_DISPATCH', events: 'A2A_EVENTS', control: 'A2A_CONTROL' } as const;
export const BUCKETS = {
  discovery: 'a2a_discovery',
  profiles: 'a2a_profiles',
  leases: 'a2a_leases',
  orchestrators: 'a2a_orchestrators',
  journal: 'a2a_journal',
} as const;

/**
 * Returns the bucket of an orchestrator's task records: a separate one, because all open records in it belong to that
 * orchestrator.
 */
export function tasksBucket(name: string): string {
  const plain = /^[A-Za-z0-9_-]{1,64}$/.test(name);
  return `a2a_tasks_${plain ? name : createHash('sha256').update(name).digest('hex')}`;
}

/** The server's advisory that a dispatch reached its delivery limit. */
export const MAX_DELIVERIES = `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.${STREAMS.dispatch}`;

/** Subjects of one worker, or of all with `*`. Arguments are tokens. */
export const subjects = {
  dispatch: (agent: string) => `a2a.agent.${agent}.dispatch`,
  poolDispatch: (pool: string) => `a2a.pool.${pool}.dispatch`,
  events: (agent: string, task: string) => `a2a.agent.${agent}.task.${task}.events`,
  control: (agent: string, task: string) => `a2a.agent.${agent}.task.${task}.control`,
  /** Requests without a task: to describe itself. Not stored. */
  requests: (agent: string) => `a2a.agent.${agent}.control`,
  announce: (agent: string) => `a2a.agent.${agent}.announce`,
  /** Dispatches that could not be read. */
  dead: (agent: string) => `a2a.agent.${agent}.dead`,
} as const;

/** The sender that a subject of the events stream names. */
export type EventSubject =
  | { readonly kind: 'events'; readonly agent: string; readonly task: string }
  | { readonly kind: 'announce' | 'dead'; readonly agent: string }
  | { readonly kind: 'max_deliveries'; readonly consumer: string };

/** Parses a subject of the events stream; undefined: the subject is of another kind. */
export function readEventSubject(subject: string): EventSubject | undefined {
  if (subject.startsWith(`${MAX_DELIVERIES}.`)) {
    return { kind: 'max_deliveries', consumer: subject.slice(MAX_DELIVERIES.length + 1) };
  }
  const [a2a, kind, agent, what, task, last, ...more] = subject.split('.');
  if (a2a !== 'a2a' || kind !== 'agent' || agent === undefined || more.length > 0) return undefined;
  if (what === 'task' && task !== undefined && last === 'events') return { kind: 'events', agent, task };
  if (task === undefined && (what === 'announce' || what === 'dead')) return { kind: what, agent };
  return undefined;
}

/** Names of durable consumers. Arguments are tokens. */
export const consumers = {
  agent: (agent: string) => `agent-${agent}`,
  pool: (pool: string) => `pool-${pool}`,
  control: (agent: string) => `control-${agent}`,
  orchestrator: (name: string) => `orchestrator-${name}`,
} as const;

/** Returns the worker or the pool whose consumer of the dispatch stream this is. */
export function readConsumer(name: string): { readonly agent?: string; readonly pool?: string } {
  if (name.startsWith('agent-')) return { agent: name.slice(6) };
  if (name.startsWith('pool-')) return { pool: name.slice(5) };
  return {};
}

/** Returns the inbox of a worker, where its answers arrive. */
export function inboxOf(agentId: string): string {
  return `_INBOX_${tokenOf(agentId)}`;
}

/** Returns key of a worker's card. */
export function cardKey(agent: string): string {
  return `${agent}.card`;
}
