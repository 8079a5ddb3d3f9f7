/**
 * `handfast tail`: reads the journal of a session, and with `--follow` what happens from now on. Without a session it
 * lists those there are.
 */
import type { CallEvent } from '../../connection/call.ts';
import type { SessionLine } from '../../server/http/operator-routes.ts';
import { fail } from '../../wire/errors.ts';
import { type ConnectFlags, findHost, httpAddressOf } from '../connect/find-host.ts';
import { withAgent } from '../connect/open-agent.ts';
import { askOperator } from '../connect/operator.ts';
import { interruptible } from '../interrupt.ts';
import type { Terminal } from '../output/terminal.ts';

export interface TailFlags extends ConnectFlags {
  /** Only what came after this cursor. */
  readonly after: number;
  readonly follow?: boolean;
}

/** Entries asked for at a time. */
const PAGE = 1000;

export async function tail(session: string | undefined, flags: TailFlags, terminal: Terminal): Promise<void> {
  if (session === undefined) return listSessions(flags, terminal);
  await withAgent(flags, [], terminal, async ({ agent, signal }) => {
    let last = flags.after;
    const onEvent = ({ data }: CallEvent): void => {
      const reached = data.kind === 'gap' ? data.to : data.cursor;
      if (typeof reached === 'number') last = reached;
      if (terminal.json) terminal.document(data);
      else terminal.line(lineOf(data).slice(0, terminal.width));
    };
    for (;;) {
      const before = last;
      const read = { after: last, follow: flags.follow, limit: PAGE };
      const end = await agent.journal(session, read, { signal, onEvent });
      // What is left out of the answers, such as the reading itself, does not come any more either.
      if (flags.follow || last >= end.last || last === before) {
        // An unknown session and one without entries look the same.
        if (end.last === 0 && !flags.follow) terminal.note(`the journal has no entries of ${session}`);
        return;
      }
    }
  });
}

async function listSessions(flags: ConnectFlags, terminal: Terminal): Promise<void> {
  const found = await findHost(flags);
  const { sessions } = await interruptible((signal) =>
    askOperator<{ sessions: SessionLine[] }>(httpAddressOf(found), '/sessions', found.token, signal),
  );
  if (!Array.isArray(sessions)) throw fail('schema_violation', 'the host sent an invalid list of sessions');
  if (terminal.json) return terminal.document(sessions);
  if (sessions.length === 0) return terminal.note('no sessions');
  terminal.table(
    ['SESSION', 'STATE', 'PRINCIPAL', 'LAST', 'AGENT'],
    sessions.map(({ session_id, state, principal, last, agent_id }) => [
      session_id,
      state,
      principal,
      String(last),
      agent_id,
    ]),
  );
}

/** An entry for people: when, where, what, about which request, and as much of the message as fits. */
function lineOf(data: Readonly<Record<string, unknown>>): string {
  if (data.kind === 'gap') return `${' '.repeat(12)} #${data.from}–${data.to} are no longer stored`;
  const { cursor, ts, kind, request, body } = data;
  const time = typeof ts === 'number' ? new Date(ts).toISOString().slice(11, 23) : '';
  return `${time} #${String(cursor)} ${String(kind).padEnd(7)} ${String(request)} ${JSON.stringify(body)}`;
}
