/**
 * `handfast session send`: one prompt to a session, its answer, and an exit code for the end of the turn. Uses the server that
 * runs, else it starts one for this turn.
 */
import type { ControlSession } from '../../control-client/session.ts';
import type { ImageReference, SessionSettings, StopReason } from '../../protocol/session-types.ts';
import { fail } from '../../wire/errors.ts';
import { type ControlFlags, folderFor } from '../connect/open-control.ts';
import { type ReachedServer, withServer } from '../connect/reach-server.ts';
import { INTERRUPTED } from '../interrupt.ts';
import { modelLine, mustServe, statusOf } from '../model/model-text.ts';
import { SessionOutput } from '../output/session-output.ts';
import type { Terminal } from '../output/terminal.ts';
import { imageFile } from '../read-image.ts';
import { textOf } from '../read-text.ts';
import { fullId } from './session.ts';

type Approvals = NonNullable<SessionSettings['approvals']>;

export interface SendFlags extends ControlFlags {
  /** Configuration of a server that this command starts. */
  readonly config?: string;
  /** Backend of a new session. */
  readonly backend?: string;
  /** Settings of the session, from this turn on. */
  readonly model?: string;
  readonly thinking?: string;
  readonly approvals?: Approvals;
  readonly image?: readonly string[];
  /** Return when the prompt was accepted. */
  readonly detach?: boolean;
  readonly enqueue?: boolean;
}

/** The prompt to send. */
interface Prompt {
  readonly text: string;
  readonly images: readonly ImageReference[] | undefined;
}

/** Exit codes of a turn that failed, and of one that its time limit ended. */
const TURN_FAILED = 5;
const TURN_TIMED_OUT = 7;

/**
 * Sends a prompt; `new` opens a session for it. Resolves with the exit code of the turn. Fails as reaching or starting the
 * server does, with `usage`, and with `session_not_found`.
 */
export async function sessionSend(id: string, prompt: string, flags: SendFlags, terminal: Terminal): Promise<number> {
  if (flags.backend !== undefined && id !== 'new') {
    throw fail('usage', '--backend is for new sessions: handfast session send new --backend NAME PROMPT');
  }
  const text = await textOf(prompt);
  // Before a server is reached: a mistyped path costs nothing.
  const images = flags.image && (await Promise.all(flags.image.map(imageFile)));
  // While a server of this command lasts, no user is at hand to answer.
  const attended = flags.approvals !== undefined;
  return withServer({ ...flags, attended }, terminal, (server, signal) =>
    sendTo(server, id, { text, images }, flags, terminal, signal),
  );
}

async function sendTo(
  { control, own }: ReachedServer,
  id: string,
  prompt: Prompt,
  flags: SendFlags,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<number> {
  const { backend, model, thinking, approvals } = flags;
  if (own && flags.detach) throw fail('usage', '--detach needs a server that stays; start one with: handfast up');
  if (id === 'new') await mustServe(control, flags);
  const session =
    id === 'new'
      ? await control.create({ ...folderFor(control), backend, model, thinking, approvals })
      : await control.open(await fullId(control, id));
  if (id !== 'new' && [model, thinking, approvals].some((given) => given !== undefined)) {
    await control.rpc.sessionConfigure({ session_id: session.id, model, thinking_level: thinking, approvals });
  }
  if (id === 'new' && !terminal.json) {
    terminal.note(`session ${session.id}`);
    const status = await statusOf(control, session.id);
    const line = status && modelLine(status, process.env);
    if (line !== undefined) terminal.note(line);
  }
  return promptIn(session, prompt, flags, terminal, signal);
}

async function promptIn(
  session: ControlSession,
  { text, images }: Prompt,
  { detach, enqueue = true }: SendFlags,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<number> {
  const turn = await session.prompt(text, { images, enqueue });
  if (detach) {
    if (terminal.json) terminal.document({ session_id: session.id, turn_id: turn.turnId, queued: turn.queued });
    else terminal.line(turn.turnId);
    return 0;
  }
  const interrupt = (): void => void session.interrupt(turn.turnId).catch(() => {});
  signal.addEventListener('abort', interrupt, { once: true });
  const output = new SessionOutput(terminal);
  for await (const event of turn) output.show(event);
  output.settle();
  signal.throwIfAborted();
  return exitCodeOf((await turn.result()).stopReason);
}

/** Returns the exit code: 0 for a turn that came to its end, also at a limit of its answer. @see docs/errors.md#exit-codes */
export function exitCodeOf(stopReason: StopReason): number {
  switch (stopReason) {
    case 'interrupted':
      return INTERRUPTED;
    case 'timeout':
      return TURN_TIMED_OUT;
    case 'error':
    case 'cleared':
    case 'closed':
    case 'shutdown':
    case 'restart':
      return TURN_FAILED;
    default:
      return 0;
  }
}
