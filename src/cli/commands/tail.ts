/**
 * `handfast tail`: reads the journal of a session, and with `--follow` new entries. Sessions of both edges are accepted.
 * Without a session it lists those of the environment edge.
 */
import type { CallEvent } from '../../connection/call.ts';
import { byPrefix, type Sought } from '../../packages/named-id.ts';
import type { SessionLine } from '../../server/http/operator-routes.ts';
import { asError, fail } from '../../wire/errors.ts';
import { type ConnectFlags, findHost, noteChosen, operatorOf } from '../connect/find-host.ts';
import { withAgent } from '../connect/open-agent.ts';
import { withControl } from '../connect/open-control.ts';
import { askOperator } from '../connect/operator.ts';
import { interruptible } from '../interrupt.ts';
import type { Terminal } from '../output/terminal.ts';
import { fitted } from '../output/text-width.ts';
import { shownIds } from '../short-id.ts';

export interface TailFlags extends ConnectFlags {
  /** Only entries after this cursor. */
  readonly after: number;
  readonly follow?: boolean;
}

const SOUGHT: Sought = { noun: 'session', missing: 'session_not_found', see: 'handfast tail' };

/** Entries asked for at a time. */
const PAGE = 1000;

export async function tail(session: string | undefined, flags: TailFlags, terminal: Terminal): Promise<void> {
  if (session === undefined) return listSessions(flags, terminal);
  const listed = await listedId(session, flags, terminal);
  if (listed === undefined) {
    // The other kind, whose events `session tail` prints.
    const { fullId, sessionTail } = await import('./session.ts');
    const other = await withControl(flags, terminal, ({ control }) => fullId(control, session)).catch(unlessAmbiguous);
    if (other !== undefined) return sessionTail(other, flags, terminal);
  }
  // One that is not listed: its journal may be stored although the session has ended.
  const id = listed ?? session;
  if (!flags.follow) terminal.page();
  await withAgent(flags, [], terminal, async ({ agent, signal }) => {
    let last = flags.after;
    const onEvent = ({ data }: CallEvent): void => {
      const reached = data.kind === 'gap' ? data.to : data.cursor;
      if (typeof reached === 'number') last = reached;
      if (terminal.json) terminal.document(data);
      else terminal.line(fitted(lineOf(data), terminal.width));
    };
    for (;;) {
      const before = last;
      const read = { after: last, follow: flags.follow, limit: PAGE };
      const end = await agent.journal(id, read, { signal, onEvent });
      // Entries that are left out of the answers, such as the reading itself, do not come any more either.
      if (flags.follow || last >= end.last || last === before) {
        // An unknown session and one without entries look the same.
        if (end.last === 0 && !flags.follow) terminal.note(`the journal has no entries of ${id}`);
        return;
      }
    }
  });
}

/** Ids as hosts make them. */
const WHOLE = /^[\da-f]{32}$/;

/**
 * Returns the session of the environment edge that an id or a prefix of one names; undefined where none is listed. A whole id
 * is taken as it is. Fails with `usage` when several have the prefix.
 */
async function listedId(given: string, flags: ConnectFlags, terminal: Terminal): Promise<string | undefined> {
  if (WHOLE.test(given)) return given;
  const sessions = await readSessions(flags, terminal).catch(() => []);
  try {
    return byPrefix(given, sessions, ({ session_id }) => session_id, SOUGHT).session_id;
  } catch (error) {
    return unlessAmbiguous(error);
  }
}

/** Returns undefined for an error that means: no such session here. */
function unlessAmbiguous(error: unknown): undefined {
  if (['usage', 'cancelled'].includes(asError(error).code)) throw error;
  return undefined;
}

async function readSessions(flags: ConnectFlags, terminal: Terminal): Promise<readonly SessionLine[]> {
  const found = await findHost(flags);
  noteChosen(found, terminal);
  const { sessions } = await interruptible((signal) =>
    askOperator<{ sessions: SessionLine[] }>(operatorOf(found), '/sessions', signal),
  );
  if (!Array.isArray(sessions)) throw fail('schema_violation', 'the host sent an invalid list of sessions');
  return sessions;
}

async function listSessions(flags: ConnectFlags, terminal: Terminal): Promise<void> {
  const sessions = await readSessions(flags, terminal);
  if (terminal.json) return terminal.document(sessions);
  if (sessions.length === 0) return terminal.note('no sessions');
  const shown = shownIds(
    sessions.map(({ session_id }) => session_id),
    terminal,
  );
  terminal.table(
    ['SESSION', 'STATE', 'PRINCIPAL', 'AGENT'],
    sessions.map(({ state, principal, agent_id }, at) => [shown[at] as string, state, principal, agent_id]),
    ['PRINCIPAL'],
  );
}

/** Returns the text of a gap for people. Its end is not named: after a crash it lies above every cursor that was used. */
const gapText = (from: unknown): string =>
  from === 1
    ? 'the oldest entries are no longer stored'
    : `entries that may have followed #${Number(from) - 1} are not stored`;

/** Returns an entry for people: time, peer, type, request, and as much of the message as fits. */
function lineOf(data: Readonly<Record<string, unknown>>): string {
  if (data.kind === 'gap') return `${' '.repeat(12)} ${gapText(data.from)}`;
  const { cursor, ts, kind, request, body } = data;
  const time = typeof ts === 'number' ? new Date(ts).toISOString().slice(11, 23) : '';
  return `${time} #${String(cursor)} ${String(kind).padEnd(7)} ${String(request)} ${JSON.stringify(body)}`;
}
