/**
 * `handfast session …`: looks at sessions and acts on them, from any terminal.
 */
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { counted } from '../../base/counted.ts';
import { escapedJsonText } from '../../base/escape-controls.ts';
import type { ControlClient } from '../../control-client/control.ts';
import type { ControlEvent, EventGap } from '../../control-client/control-event.ts';
import { byPrefix, type Sought } from '../../packages/named-id.ts';
import type { SessionSummary } from '../../protocol/session-types.ts';
import { fail } from '../../wire/errors.ts';
import { type ControlFlags, withControl } from '../connect/open-control.ts';
import { SessionOutput } from '../output/session-output.ts';
import { snakeKeys } from '../output/snake-case.ts';
import type { Terminal } from '../output/terminal.ts';
import { oneLine } from '../output/tool-summary.ts';
import { readText, textOf } from '../read-text.ts';
import { shortId, shownIds } from '../short-id.ts';

/** Exit code of a command whose steer was not accepted. */
const REJECTED = 5;

const soughtPrompt = (session: string): Sought => ({
  noun: 'queued prompt',
  missing: 'not_found',
  see: `handfast session queue ${session}`,
});

const SOUGHT: Sought = { noun: 'session', missing: 'session_not_found', see: 'handfast session ls --all' };

export interface ListFlags extends ControlFlags {
  readonly all?: boolean;
  readonly cwd?: string;
}

export async function sessionList({ all, cwd, ...flags }: ListFlags, terminal: Terminal): Promise<void> {
  await withControl(flags, terminal, async ({ control }) => {
    const sessions = await Array.fromAsync(control.sessions({ includeClosed: all, cwd: cwd && resolve(cwd) }));
    if (terminal.json) return terminal.document(sessions);
    if (sessions.length === 0) return terminal.note('no sessions; start one with: handfast chat');
    const shown = shownIds(
      sessions.map(({ session_id }) => session_id),
      terminal,
    );
    // Forks, and sessions of subagents.
    const below = sessions.some(({ parent_session_id }) => parent_session_id !== null);
    const idOf = (id: string | null): string => {
      const at = sessions.findIndex(({ session_id }) => session_id === id);
      return shown[at] ?? id ?? '';
    };
    terminal.page();
    terminal.table(
      ['SESSION', ...(below ? ['PARENT'] : []), 'STATE', 'UPDATED', 'MESSAGES', 'BACKEND', 'TITLE'],
      sessions.map((session, at) => [
        shown[at] as string,
        ...(below ? [idOf(session.parent_session_id)] : []),
        stateOf(session),
        session.updated_at.slice(0, 16).replace('T', ' '),
        String(session.message_count),
        session.backend,
        session.title,
      ]),
      ['MESSAGES', 'UPDATED', 'BACKEND', ...(below ? ['PARENT'] : [])],
    );
  });
}

function stateOf({ closed, pending, queue_length, approvals_pending }: SessionSummary): string {
  if (closed) return 'closed';
  if (approvals_pending > 0) return 'asks';
  if (!pending) return 'idle';
  return queue_length > 0 ? `running+${queue_length}` : 'running';
}

export async function sessionShow(id: string, flags: ControlFlags, terminal: Terminal): Promise<void> {
  await withControl(flags, terminal, async ({ control }) => {
    const session = await control.open(await fullId(control, id));
    const state = await session.state(terminal.json ? {} : { messages: 0 });
    if (terminal.json) return terminal.document(snakeKeys({ ...state, queue: state.queue.map(snakeKeys) }));
    const { usage } = state;
    terminal.page();
    terminal.line(`session   ${state.id}`);
    terminal.line(`title     ${state.title}`);
    terminal.line(
      `state     ${state.closed ? 'closed' : state.statusLabel}${state.turnId === null ? '' : ` (turn ${state.turnId})`}`,
    );
    terminal.line(`backend   ${state.backend}${state.settings.model === undefined ? '' : `, ${state.settings.model}`}`);
    terminal.line(`folder    ${state.cwd}`);
    terminal.line(
      `tokens    ${usage.input_tokens} in, ${usage.output_tokens} out; context about ${state.contextTokenEstimate}`,
    );
    for (const { id: turn, text } of state.queue) terminal.line(`queued    ${turn}  ${text}`);
    for (const { id: approval, title } of state.approvals) terminal.line(`asks      ${approval}  ${title}`);
    for await (const { kind, text, unsent } of session.messages()) {
      if (unsent === true) continue;
      terminal.line();
      terminal.line(`${kind}: ${text}`);
    }
  });
}

export interface TailFlags extends ControlFlags {
  /** Only events after this sequence number. */
  readonly after?: number;
  readonly follow?: boolean;
}

export async function sessionTail(
  id: string,
  { after = 0, follow, ...flags }: TailFlags,
  terminal: Terminal,
): Promise<void> {
  await withControl(flags, terminal, async ({ control, signal }) => {
    const session = await control.open(await fullId(control, id));
    const { seq } = await session.state();
    if (after > seq) {
      throw fail('usage', `--after ${after} is beyond the newest event of this session, which is ${seq}`);
    }
    if (!follow && seq === after) return;
    if (!follow) terminal.page();
    const output = new SessionOutput(terminal, { conversation: true });
    for await (const event of session.events({ afterSeq: after, signal })) {
      output.show(event);
      if (!follow && reached(event) >= seq) break;
    }
    output.settle();
    signal.throwIfAborted();
  });
}

const reached = (event: ControlEvent | EventGap): number => (event.type === 'gap' ? event.to : event.seq);

export async function sessionSteer(
  id: string,
  text: string,
  { turn, ...flags }: ControlFlags & { readonly turn?: string },
  terminal: Terminal,
): Promise<number> {
  return withControl(flags, terminal, async ({ control }) => {
    const session = await control.open(await fullId(control, id));
    const result = await session.steer(await textOf(text), { expectedTurnId: turn, whenLate: 'queue' });
    if (terminal.json) terminal.document(result);
    else terminal.line(result.outcome);
    return result.accepted ? 0 : REJECTED;
  });
}

export async function sessionInterrupt(id: string, flags: ControlFlags, terminal: Terminal): Promise<void> {
  await withControl(flags, terminal, async ({ control }) => {
    const interrupted = await (await control.open(await fullId(control, id))).interrupt();
    if (terminal.json) terminal.document({ interrupted });
    else terminal.note(interrupted ? 'interrupted' : 'nothing was running');
  });
}

export async function sessionQueue(
  id: string,
  { clear, remove, ...flags }: ControlFlags & { readonly clear?: boolean; readonly remove?: string },
  terminal: Terminal,
): Promise<void> {
  await withControl(flags, terminal, async ({ control }) => {
    const session = await control.open(await fullId(control, id));
    if (clear) {
      const cleared = await session.clearQueue();
      return terminal.json ? terminal.document({ cleared }) : terminal.note(`${cleared} dropped`);
    }
    const queue = await session.queue();
    if (remove !== undefined) {
      const { id: turn_id, text } = byPrefix(remove, queue, (item) => item.id, soughtPrompt(id));
      const { removed } = await control.rpc.queueRemove({ session_id: session.id, turn_id });
      if (!removed) throw fail('not_found', `the prompt ${shortId(turn_id)} has started already`);
      return terminal.json ? terminal.document({ removed }) : terminal.note(`removed ${oneLine(text)}`);
    }
    if (terminal.json) return terminal.document(queue.map(snakeKeys));
    if (queue.length === 0) return terminal.note('no queued prompts');
    const shown = shownIds(
      queue.map((item) => item.id),
      terminal,
    );
    terminal.table(
      ['TURN', 'SINCE', 'PROMPT'],
      queue.map((item, at) => [shown[at] as string, item.enqueuedAt.slice(11, 19), item.text]),
    );
  });
}

export async function sessionFork(
  id: string,
  { through, title, ...flags }: ControlFlags & { readonly through?: string; readonly title?: string },
  terminal: Terminal,
): Promise<void> {
  await withControl(flags, terminal, async ({ control }) => {
    const fork = await (await control.open(await fullId(control, id))).fork({ throughTurnId: through, title });
    if (terminal.json) terminal.document({ session_id: fork.id });
    else terminal.line(fork.id);
  });
}

export async function sessionExport(
  id: string,
  { out, ...flags }: ControlFlags & { readonly out?: string },
  terminal: Terminal,
): Promise<void> {
  await withControl(flags, terminal, async ({ control }) => {
    const session_id = await fullId(control, id);
    const lines: string[] = [];
    let after_seq: number | undefined;
    do {
      const page = await control.rpc.sessionExport({ session_id, after_seq });
      lines.push(...page.lines.map(escapedJsonText));
      terminal.passing(`${counted(lines.length, 'line')} read`);
      after_seq = page.next_after_seq ?? undefined;
    } while (after_seq !== undefined);
    const text = `${lines.join('\n')}\n`;
    if (out === undefined) {
      terminal.page();
      terminal.exact(text);
    } else {
      // The conversation may hold secrets.
      await writeFile(out, text, { mode: 0o600 });
      terminal.note(`${counted(lines.length, 'line')} written to ${out}`);
    }
  });
}

export async function sessionImport(
  file: string,
  { title, ...flags }: ControlFlags & { readonly title?: string },
  terminal: Terminal,
): Promise<void> {
  const text = await readText(file);
  // With the empty ones, so that an error has the number of its line.
  const lines = text.split('\n');
  await withControl(flags, terminal, async ({ control }) => {
    const { session_id } = await control.rpc.sessionImport({ lines, title, cwd: process.cwd() });
    if (terminal.json) terminal.document({ session_id });
    else terminal.line(session_id);
  });
}

export async function sessionRemove(ids: readonly string[], flags: ControlFlags, terminal: Terminal): Promise<void> {
  await withControl(flags, terminal, async ({ control }) => {
    for (const id of ids) {
      const session_id = await fullId(control, id);
      await control.rpc.sessionDelete({ session_id });
      if (terminal.json) terminal.document({ session_id, deleted: true });
      else terminal.note(`removed ${session_id}`);
    }
  });
}

/** Returns the id of the session named by an id, a prefix of one, or `last`. Fails with `session_not_found` or `usage`. */
export async function fullId(control: ControlClient, id: string): Promise<string> {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) return id;
  const sessions: SessionSummary[] = [];
  for await (const session of control.sessions({ includeClosed: true })) {
    if (id === 'last') return session.session_id;
    sessions.push(session);
  }
  if (id === 'last') throw fail('session_not_found', 'there are no sessions; start one with: handfast chat');
  return byPrefix(id, sessions, ({ session_id }) => session_id, SOUGHT).session_id;
}
