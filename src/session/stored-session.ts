/**
 * The stored record of a session beside its journal, so that a restarted host restores the session; and the work that
 * the former host left, as the journal shows it.
 *
 * `host/stored-sessions.ts` writes and reads the records, `session/session.ts` replies to the work.
 * @see docs/decisions/0033-sessions-outlive-their-host.md
 */
import type { Gap, Journal, JournalEntry } from '../journal/journal.ts';
import { isObject } from '../wire/json.ts';

/** The record of a session. */
export interface SessionRecord {
  readonly agent_id: string;
  /** Capabilities granted. */
  readonly granted: readonly string[];
  /** Extensions agreed. */
  readonly extensions: readonly string[];
  /** Number of hosts that restored the session after the one that opened it. */
  readonly restarts: number;
  /** Since when it has had no link, epoch milliseconds; absent while it has one. */
  readonly detached_at?: number;
  /** Messages of its agent that were read; absent unless the host stopped in order. */
  readonly received?: number;
}

/** A session as a restarted host takes it up. */
export interface StoredSession {
  readonly id: string;
  /** The name of its principal. */
  readonly owner: string;
  /** The last cursor that may have been used. */
  readonly last: number;
  readonly record: SessionRecord;
  /** Time without a link, milliseconds. */
  readonly detachedMs: number;
}

/** Returns a record out of its text; undefined when it is none. */
export function readRecord(text: string): SessionRecord | undefined {
  let record: unknown;
  try {
    record = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(record)) return undefined;
  const { agent_id, granted, extensions, restarts } = record;
  if (typeof agent_id !== 'string' || !isNames(granted) || !isNames(extensions)) return undefined;
  return Number.isSafeInteger(restarts) ? (record as unknown as SessionRecord) : undefined;
}

const isNames = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((name) => typeof name === 'string');

/** Work that the former host left. */
export interface LeftWork {
  /** Requests that are stored and have no stored reply, the oldest first. */
  readonly requests: readonly JournalEntry[];
  /** The newest entries, which were not written when the host ended. */
  readonly lost: Gap | undefined;
}

/** Entries read at a time. */
const PAGE = 256;

/** Reads the whole journal of a session, which its retention bounds. Rejects as `Journal.read` does. */
export async function readLeftWork(journal: Journal, session: string): Promise<LeftWork> {
  const open = new Map<string, JournalEntry>();
  let lost: Gap | undefined;
  for (let at = 0; ; ) {
    const { entries, gap, last } = await journal.read(session, at, PAGE);
    if (gap !== undefined) {
      at = gap.to;
      lost = gap.to === last && entries.length === 0 ? gap : undefined;
    }
    for (const entry of entries) {
      at = entry.cursor;
      if (entry.kind === 'request') open.set(entry.request, entry);
      else if (entry.kind === 'reply' || entry.kind === 'error') open.delete(entry.request);
    }
    if (at >= last || (entries.length === 0 && gap === undefined)) return { requests: [...open.values()], lost };
  }
}
