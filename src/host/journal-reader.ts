/**
 * Serves `journal/follow/req` (extension handfast/journal): a session's journal as events, for `handfast tail` and for
 * consoles. A principal reads its own sessions, also after they ended or their host restarted; an administrator reads all.
 */
import type { Route, RunningRequest } from '../connection/running-request.ts';
import type { Gap, Journal, JournalEntry } from '../journal/journal.ts';
import { type JournalFollowReq, journalFollow } from '../protocol/a2e.ts';
import type { Method } from '../protocol/method.ts';
import { may } from '../session/rights.ts';
import { fail } from '../wire/errors.ts';
import type { CallContext, SessionView } from './context.ts';

export interface ReadableSessions {
  /** Returns the owner of a session, also when it has ended; undefined when it is unknown or has no owner. */
  owner(session: string): string | undefined;
  readonly journal: Journal | undefined;
}

export function journalReader(sessions: ReadableSessions): Route {
  return {
    method: journalFollow as unknown as Method,
    unrecorded: true,
    endless: (message) => (message as JournalFollowReq).follow === true,
    refuses: (message, session) => refusal(message as JournalFollowReq, session as SessionView, sessions),
    run: (message, request) => read(message as JournalFollowReq, request as RunningRequest & CallContext, sessions),
  };
}

async function read(request: JournalFollowReq, context: CallContext, sessions: ReadableSessions): Promise<object> {
  const { journal } = sessions;
  const id = request.session_id || context.session.id;
  const refused = refusal(request, context.session, sessions);
  if (journal === undefined || refused !== undefined) throw refused ?? unknownSession();
  let at = request.after ?? 0;
  if (request.follow === true) {
    const { last } = await journal.read(id, at, 1);
    if (at > last) throw neverIssued(at, last);
    // A follower waits for entries most of the time, and never ends by itself.
    context.yieldSlot();
    for await (const entry of journal.follow(id, at, context.signal)) {
      at = entry.kind === 'gap' ? (entry as Gap).to : (entry as JournalEntry).cursor;
      await context.emit('status', shape(entry));
    }
    return { last: at };
  }
  let left = request.limit ?? 1000;
  for (;;) {
    const page = await journal.read(id, at, Math.min(left, 256));
    if (page.gap !== undefined) await context.emit('status', shape(page.gap));
    for (const entry of page.entries) {
      at = entry.cursor;
      left--;
      await context.emit('status', shape(entry));
    }
    if (left <= 0 || page.entries.length === 0 || at >= page.last) return { last: page.last };
  }
}

/**
 * Returns the error for a cursor that the journal has not reached: entries after it may never come, and it would hide
 * those before it.
 */
const neverIssued = (after: number, last: number) =>
  fail(
    'schema_violation',
    `\`after\` is ${after} and the journal ends at ${last}: the cursor was never issued, or this host runs with an older state; read from a lower cursor`,
    { field: 'after', after, last },
  );

const unknownSession = () => fail('session_not_found', 'no such session for this principal');

/** Returns the error for a session that the reader may not read; its own session it may always read. */
function refusal({ session_id: id }: JournalFollowReq, reader: SessionView, sessions: ReadableSessions) {
  const isOwn = id === undefined || id === '' || id === reader.id;
  return isOwn || may(reader.principal, 'observe', sessions.owner(id)) ? undefined : unknownSession();
}

function shape(entry: JournalEntry | Gap): Record<string, unknown> {
  if (!('cursor' in entry)) return { kind: 'gap', from: entry.from, to: entry.to };
  const { cursor, ts, kind, request, body } = entry;
  return { cursor, ts, kind, request, body: typeof body === 'string' ? JSON.parse(body) : body };
}
