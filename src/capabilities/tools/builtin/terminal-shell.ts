/**
 * The work of `shell` in a terminal of the editor in which the session is open, where the user sees the output at once. Loaded
 * on the first such call.
 *
 * The program runs with the rights and the environment of the editor. Its terminal is released when the call ends, for any
 * reason; processes that still run then are killed.
 */
import { performance } from 'node:perf_hooks';
import { exitCodeOf } from '../../../base/child.ts';
import { childEnvironment } from '../../../base/child-environment.ts';
import { within } from '../../../base/race.ts';
import { holdDirectory } from '../../../base/workspace/workspace-path.ts';
import type { CallContext } from '../../../host/context.ts';
import type { EditorAccess } from '../../../session/editors.ts';
import type { ShapedResult } from '../tool.ts';
import { type ShellArgs, type ShellResult, shellReply, timeLimitMs, variablesOf, wordsOf } from './shell.ts';

/** Time for the end of a killed program, and for its output. */
const END_MS = 2000;

/** Returns the editor whose terminals run this call; undefined: it runs as a child of the host. */
export function terminalsFor({ editor, pathGuard }: CallContext, { stdin }: ShellArgs): EditorAccess | undefined {
  // Terminals of an editor take no input from the host, and do not cover the paths that are protected from a principal.
  return editor?.terminals === true && stdin === undefined && pathGuard === undefined ? editor : undefined;
}

/** The end of a terminal, in the words of the protocol. */
interface TerminalExit {
  readonly exitCode?: number | null;
  readonly signal?: string | null;
}

/**
 * Runs a program in a terminal and waits for its end. A timeout is a result. Fails as `runShell` does for its arguments, with
 * the reasons of `session/editors.ts`, and with the reason of the signal when the call is cancelled.
 */
export async function runInTerminal(
  args: ShellArgs,
  context: CallContext,
  editor: EditorAccess,
): Promise<ShapedResult<ShellResult>> {
  const startedMs = performance.now();
  const [command, ...words] = wordsOf(args);
  // Only for its checks: all other variables are the editor's.
  childEnvironment(args.env, {}, variablesOf(context));
  const { directory, path: cwd } = await holdDirectory(context.workspace, args.cwd);
  await directory.close();
  const env = Object.entries(args.env).map(([name, value]) => ({ name, value }));
  const create = { command, args: words, env, cwd, outputByteLimit: args.max_output_bytes };
  const { terminalId } = (await editor.request('terminal/create', create, context)) as { terminalId: string };
  const ask = (method: string, timeoutMs = END_MS) => editor.request(method, { terminalId }, { timeoutMs });
  let exit: TerminalExit | undefined;
  try {
    const { signal } = context;
    const waiting = editor.request(
      'terminal/wait_for_exit',
      { terminalId },
      { signal, timeoutMs: Number.POSITIVE_INFINITY },
    );
    const ending = waiting.then((ended) => ended as TerminalExit);
    exit = await within(ending, Math.max(1, timeLimitMs(args, context, END_MS)));
    const timedOut = exit === undefined;
    if (timedOut) {
      await ask('terminal/kill');
      exit = await within(ending, END_MS);
    }
    const { output, truncated } = (await ask('terminal/output')) as { output: string; truncated: boolean };
    return shellReply({
      ...codeOf(exit),
      timed_out: timedOut,
      stdout: output,
      stderr: '',
      stdout_bytes: Buffer.byteLength(output),
      stderr_bytes: 0,
      truncated,
      background_ended: false,
      duration_ms: Math.round(performance.now() - startedMs),
      by: 'editor',
    });
  } finally {
    // Even if the call was cancelled; an editor that does not reply has lost the terminal, or retains it.
    if (exit === undefined) await ask('terminal/kill').catch(() => {});
    await ask('terminal/release').catch(() => {});
  }
}

/** Returns exit code and signal, as `shell` has them; those of a killed program if the end is unknown. */
function codeOf(exit: TerminalExit | undefined): Pick<ShellResult, 'exit_code' | 'signal'> {
  const signal = exit === undefined ? 'SIGKILL' : (exit.signal ?? null);
  const code = exit?.exitCode ?? null;
  return { exit_code: exitCodeOf({ code, signal: signal as NodeJS.Signals | null }), signal };
}
