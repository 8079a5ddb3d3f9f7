/**
 * `handfast chat`: a conversation in the terminal, with the server that runs or with one that it starts, continuing the last
 * session of this folder.
 *
 * This file chooses the session; `cli/chat/conversation.ts` runs the conversation.
 */
import type { StateChange } from '../../connection/reconnect.ts';
import type { ControlClient } from '../../control-client/control.ts';
import type { ControlSession } from '../../control-client/session.ts';
import { Conversation } from '../chat/conversation.ts';
import { type ControlFlags, folderFor } from '../connect/open-control.ts';
import { reachServer } from '../connect/reach-server.ts';
import { modelLine, mustServe, statusOf } from '../model/model-text.ts';
import type { Terminal, TerminalOutput } from '../output/terminal.ts';
import { fullId } from './session.ts';

export interface ChatFlags extends ControlFlags {
  /** Start a new session. */
  readonly new?: boolean;
  /** Continue this session. */
  readonly session?: string;
  readonly backend?: string;
  readonly model?: string;
  readonly thinking?: string;
  readonly title?: string;
  readonly config?: string;
  /** Decision where the policy asks. */
  readonly approvals?: 'ask' | 'allow' | 'deny';
}

/** Resolves with the exit code. Fails as reaching or starting the server does, and with `session_not_found`. */
export async function chat(flags: ChatFlags, terminal: Terminal): Promise<number> {
  const attended = !terminal.json && isScreen();
  const received: { state: (change: StateChange) => void; output: TerminalOutput } = { state() {}, output: terminal };
  const { approvals } = flags;
  const server = await reachServer(
    // With a server of this command and no terminal, no user can answer.
    { ...flags, ask: terminal, attended: attended || approvals !== undefined },
    {
      onStderr: (line) => received.output.note(line),
      onState: (change) => received.state(change),
    },
  );
  try {
    const { control } = server;
    const session = await sessionFor(control, flags);
    const { model, thinking } = flags;
    if (flags.session !== undefined && (model ?? thinking) !== undefined) {
      await control.rpc.sessionConfigure({ session_id: session.id, model, thinking_level: thinking });
    }
    if (!terminal.json) {
      const status = await statusOf(control, session.id);
      const line = status && modelLine(status, process.env);
      if (line !== undefined) terminal.note(line);
    }
    if (approvals !== undefined) await control.rpc.sessionConfigure({ session_id: session.id, approvals });
    // The packages of the screen are loaded only for users who see it.
    const screen = attended
      ? new (await import('../chat/screen/chat-screen.ts')).ChatScreen(flags.connect === undefined)
      : undefined;
    const conversation = new Conversation({ control, session, terminal, screen, isShared: !server.own });
    received.state = (change) => conversation.connection(change);
    if (screen !== undefined) received.output = screen;
    try {
      return await conversation.run();
    } finally {
      received.output = terminal;
      if (conversation.turnContinues)
        terminal.note('· the turn continues; see it with: handfast session tail last --follow');
    }
  } finally {
    await server.close();
  }
}

/** Opens the session that is named, else the last one of this folder, else a new one. */
async function sessionFor(control: ControlClient, flags: ChatFlags): Promise<ControlSession> {
  if (flags.session !== undefined) return control.open(await fullId(control, flags.session));
  const { title, backend, model, thinking } = flags;
  const isNew = flags.new === true || [title, backend, model, thinking].some((wanted) => wanted !== undefined);
  if (!isNew) {
    for await (const { session_id } of control.sessions({ cwd: process.cwd() })) return control.open(session_id);
  }
  await mustServe(control, flags);
  return control.create({ title, backend, model, thinking, ...folderFor(control), parallelTools: true });
}

/** True where a user can type, and where the terminal can redraw the screen. */
const isScreen = (): boolean =>
  process.stdin.isTTY === true && process.stdout.isTTY === true && process.env.TERM !== 'dumb';
