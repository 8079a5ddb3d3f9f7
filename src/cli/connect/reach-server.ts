/**
 * The server of sessions a command talks to: the one that runs, else one that the command starts and that lasts as long as the
 * command.
 */
import type { ConnectOptions } from '../../control-client/connect.ts';
import type { ControlClient } from '../../control-client/control.ts';
import { asError, fail } from '../../wire/errors.ts';
import { interruptible } from '../interrupt.ts';
import type { Terminal } from '../output/terminal.ts';
import type { EmbeddedServerFlags } from './embedded-server.ts';
import { findHost } from './find-host.ts';
import { type ControlFlags, openControl } from './open-control.ts';

/** Length of the timer that holds the event loop open. */
const FOREVER_MS = 2 ** 30;

export interface ReachedServer {
  readonly control: ControlClient;
  /** True for a server that no other process can reach. */
  readonly own: boolean;
  close(): Promise<void>;
}

/**
 * Runs `work` with the server that runs, else with one that it starts, and closes it. Ctrl-C aborts the signal. Fails as {@link
 * reachServer} and `work` do.
 */
export function withServer<T>(
  flags: ControlFlags & Omit<EmbeddedServerFlags, 'ask'>,
  terminal: Terminal,
  work: (server: ReachedServer, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return interruptible(async (signal) => {
    const server = await reachServer({ ...flags, ask: terminal }, { signal, onStderr: (line) => terminal.note(line) });
    // A turn in this process does not hold the event loop open.
    const alive = setInterval(() => {}, FOREVER_MS);
    try {
      return await work(server, signal);
    } finally {
      clearInterval(alive);
      await server.close();
    }
  });
}

/**
 * Finds or starts the server and connects. `config`, `backend` and `attended` are those of a server that the command starts.
 * Fails as finding, connecting and `embeddedServer` do; with an address named, no server is started.
 * @param flags `ask`: where the user is asked to trust the files of the current folder
 */
export async function reachServer(
  flags: ControlFlags & EmbeddedServerFlags,
  options: ConnectOptions,
): Promise<ReachedServer> {
  const found = await findHost({ ...flags, sessions: true }).catch((thrown: unknown) => {
    const { code, detail } = asError(thrown);
    // A host without sessions runs beside a process that has them: a server of this command could not open their data either.
    if (flags.connect === undefined && code === 'unreachable' && detail.reason !== 'no_sessions') return undefined;
    throw thrown;
  });
  if (found !== undefined) {
    // The server that runs looks up the skills of this folder in the same store.
    if (flags.ask !== undefined) await (await import('../trust/trust-question.ts')).offerTrust(['skills'], flags.ask);
    const control = await openControl(found, options);
    return { control, own: false, close: () => control.close() };
  }
  const { embeddedServer } = await import('./embedded-server.ts');
  const server = await embeddedServer(flags).catch((thrown: unknown) => {
    const { code, message, detail } = asError(thrown);
    if (code !== 'journal_locked') throw thrown;
    // Usually a second terminal, or a second window of an editor, whose process has started a server too.
    const advice =
      'end it and start one server for all: handfast up (any number of terminals and editors share its sessions)';
    throw fail('journal_locked', `${message}; ${advice}`, detail, thrown);
  });
  const control = await openControl(server, options);
  return {
    control,
    own: true,
    async close() {
      // Its turns end first, so that the journal gets their last events.
      await control.close();
      await server.stop();
    },
  };
}
