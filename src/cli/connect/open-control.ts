/**
 * A client of session RPC for one command: finds the server, performs the handshake, is closed when the command is done.
 *
 * Called by `session`, `chat` and `approve`.
 */
import { type ConnectOptions, connect as connectControl, type InProcessServer } from '../../control-client/connect.ts';
import type { ControlClient } from '../../control-client/control.ts';
import { isPlain } from '../../control-client/plain-server.ts';
import { asError, HandfastError } from '../../wire/errors.ts';
import { interruptible } from '../interrupt.ts';
import type { Terminal } from '../output/terminal.ts';
import { packageVersion } from '../package-info.ts';
import { type ConnectFlags, findHost, noteChosen } from './find-host.ts';

export type ControlFlags = Pick<ConnectFlags, 'connect' | 'tokenFile' | 'fleet'>;

/** What a command works with. */
export interface ControlForCommand {
  readonly control: ControlClient;
  readonly address: string;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
}

/** Opens a client, runs `work`, closes it. Fails as connecting does and as `work` does. */
export async function withControl<T>(
  flags: ControlFlags,
  terminal: Terminal,
  work: (opened: ControlForCommand) => Promise<T>,
): Promise<T> {
  return interruptible(async (signal) => {
    const found = await findHost({ ...flags, sessions: true });
    const { address, token } = found;
    noteChosen(found, terminal);
    const control = await openControl(address, { token, signal, onStderr: (line) => terminal.note(line) });
    try {
      return await work({ control, address, signal });
    } finally {
      await control.close();
    }
  });
}

/** Connects as this command line. */
export async function openControl(address: string | InProcessServer, options: ConnectOptions): Promise<ControlClient> {
  try {
    return await connectControl(address, {
      clientName: 'handfast-cli',
      clientVersion: packageVersion(),
      reconnect: { maxMs: 30_000 },
      ...options,
    });
  } catch (thrown) {
    const error = asError(thrown);
    if (error.code !== 'auth_failed' && error.code !== 'handshake_required') throw error;
    const hint =
      options.token === '' ? 'give one with --token-file or HANDFAST_TOKEN' : 'check --token-file and HANDFAST_TOKEN';
    // Behind its semicolon a refused token has advice for programs.
    const [said] = error.message.split('; ');
    throw new HandfastError(error.code, `${said} (${String(address)}); ${hint}`, {
      detail: error.detail,
      cause: error,
    });
  }
}

/** The current folder as the folder of a new session. Servers of plain 1.0.0 have one folder for all sessions: their own. */
export const folderFor = ({ server }: ControlClient): { readonly cwd?: string } =>
  isPlain(server) ? {} : { cwd: process.cwd() };
