/** A client of session RPC for one command: finds the server, performs the handshake, is closed when the command is done. */
import { webSocketAddress } from '../../base/web-address.ts';
import { type ConnectOptions, connect as connectControl, type InProcessServer } from '../../control-client/connect.ts';
import { ControlClient } from '../../control-client/control.ts';
import { isPlain } from '../../control-client/plain-server.ts';
import { MESSAGE_BYTES_CEILING } from '../../transport/link.ts';
import { asError, HandfastError } from '../../wire/errors.ts';
import { interruptible } from '../interrupt.ts';
import type { Terminal } from '../output/terminal.ts';
import { packageVersion } from '../package-info.ts';
import { type ConnectFlags, type FoundHost, findHost, noteChosen, routeOf } from './find-host.ts';
import { lossNotes } from './told-losses.ts';

/** Time for reaching the server. */
const CONNECT_TIMEOUT_MS = 10_000;

export type ControlFlags = Pick<ConnectFlags, 'connect' | 'tokenFile' | 'fleet'>;

/** Parts that a command works with. */
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
    noteChosen(found, terminal);
    const control = await openControl(found, { signal, onStderr: (line) => terminal.note(line) });
    try {
      return await work({ control, address: found.address, signal });
    } finally {
      await control.close();
    }
  });
}

/** Connects as this command line: to a found host, or to a server of this process. */
export async function openControl(
  server: FoundHost | InProcessServer,
  options: Omit<ConnectOptions, 'token'>,
): Promise<ControlClient> {
  const asked = {
    clientName: 'handfast-cli',
    clientVersion: packageVersion(),
    reconnect: { maxMs: 30_000 },
    ...options,
  };
  const control = await connectAs(server, asked);
  for (const note of lossNotes(control.server.losses)) options.onStderr?.(note);
  return control;
}

async function connectAs(
  server: FoundHost | InProcessServer,
  asked: Omit<ConnectOptions, 'token'>,
): Promise<ControlClient> {
  if ('accept' in server) return connectControl(server, asked);
  const { address, token } = server;
  const { connectTimeoutMs: timeoutMs = CONNECT_TIMEOUT_MS, onStderr } = asked;
  const dialling = { timeoutMs, maxMessageBytes: MESSAGE_BYTES_CEILING, onStderr };
  const { dial, reconnects } = routeOf(server, dialling, (at) => webSocketAddress(at, '/rpc') ?? at);
  try {
    return await ControlClient.open(dial, {
      ...asked,
      token,
      ...(!reconnects && { reconnect: { ...asked.reconnect, maxMs: 0 } }),
    });
  } catch (thrown) {
    const error = asError(thrown);
    if (error.code !== 'auth_failed' && error.code !== 'handshake_required') throw error;
    const hint =
      token === '' ? 'give one with --token-file or HANDFAST_TOKEN' : 'check --token-file and HANDFAST_TOKEN';
    // Behind its semicolon a refused token has advice for programs.
    const [said] = error.message.split('; ');
    throw new HandfastError(error.code, `${said} (${address}); ${hint}`, { detail: error.detail, cause: error });
  }
}

/**
 * Returns the current folder as the folder of a new session. Servers of plain 1.0.0 have one folder for all sessions: their
 * own.
 */
export const folderFor = ({ server }: ControlClient): { readonly cwd?: string } =>
  isPlain(server) ? {} : { cwd: process.cwd() };
