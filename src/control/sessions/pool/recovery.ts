/**
 * Recovery at the start of a server: stored sessions are listed again, those whose journal is ahead of their snapshot are
 * replayed, and turns that ran when the process ended are ended or continued.
 */
import type { Approver } from '../../contract/approver.ts';
import { OpenSession, sessionOfStream, streamOf } from '../log/open-session.ts';
import { sessionHolder } from '../store/store-images.ts';
import type { SessionPool } from './session-pool.ts';
import { SUBAGENT_ENDED } from './subagent-sessions.ts';

/** Lists every stream. */
const ALL = Number.MAX_SAFE_INTEGER;

/** Brings the sessions of an earlier process back. Rejects as the journal does. */
export async function recoverSessions(pool: SessionPool, approver: Approver): Promise<void> {
  const { store, journal, log, storage } = pool.parts;
  const ends = new Map<string, number>();
  const sizes = new Map<string, number>();
  for (const { session: stream, last, bytes } of await journal.sessions(ALL)) {
    const id = sessionOfStream(stream);
    if (id === undefined) continue;
    ends.set(id, last);
    sizes.set(id, bytes);
  }
  const images = store.images.sizes();
  const storedOf = (id: string): number => (sizes.get(id) ?? 0) + (images.get(sessionHolder(id)) ?? 0);
  const unfinished: string[] = [];
  const rows = store.catalogue.all();
  for (const { id, owner, closed, deleted, busy, ofSubagent, cursor } of rows) {
    const stream = streamOf(id);
    if (deleted || (cursor === 0 && !ends.has(id))) {
      // Its deletion was interrupted; or its first entry never reached the disk, so no client knows it.
      await journal.delete(stream);
      store.catalogue.remove(id);
      ends.delete(id);
      continue;
    }
    storage.add(id, owner, storedOf(id));
    // A journal that lost the stream says which cursors may have been used.
    const last = ends.get(id) ?? (await journal.read(stream, cursor, 1)).last;
    if (busy || last > cursor || (ofSubagent && !closed)) {
      // Listed in the order of creation; its state is read below.
      if (!closed) pool.know(id, owner);
      unfinished.push(id);
    } else if (!closed) pool.know(id, owner);
  }
  const known = new Set(rows.map(({ id }) => id));
  // The journal lists the newest first.
  unfinished.push(...[...ends.keys()].filter((id) => !known.has(id)).reverse());
  for (const id of unfinished) {
    const session = await OpenSession.recover(id, pool.parts);
    if (session === undefined) log.error('a session cannot be read: its first entries are missing', { session: id });
    else {
      if (!known.has(id)) storage.add(id, session.record.owner, storedOf(id));
      await resumeSession(session, pool, approver);
    }
  }
}

async function resumeSession(session: OpenSession, pool: SessionPool, approver: Approver): Promise<void> {
  const { store, log } = pool.parts;
  const lastId = session.folded.messages.last?.id;
  if (lastId !== undefined) store.messageIds.seen(lastId);
  const turns = pool.adopt(session);
  // Stored by a process that ended before it published them.
  for (const approval of session.folded.asked) session.emit('approval.requested', { approval }, approval.turn_id);
  turns.restart();
  approver.restore(session);
  if (session.record.subagent !== null && session.record.phase !== 'closed') {
    // Its subagent ended with the process.
    await turns.close('closed', SUBAGENT_ENDED);
    pool.noteLive(session);
  }
  session.snapshot();
  try {
    await session.flushed();
  } catch (error) {
    log.error('the end of an interrupted turn could not be journaled', { session: session.id, error: String(error) });
  }
}
