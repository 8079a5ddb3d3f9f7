/**
 * Session RPC on the pipes of this process, from the first byte to the end of the input, a signal, or `system.shutdown`.
 *
 * Standard output belongs to the link from the first line on: all other output goes to stderr.
 */
import { createLog, type Log } from '../../base/log.ts';
import type { HostConfig } from '../../config/config.ts';
import type { RpcServer } from '../../control/rpc/rpc-server.ts';
import { type Link, MESSAGE_BYTES_CEILING } from '../../transport/link.ts';
import { stdioLink } from '../../transport/stdio.ts';
import type { HandfastError } from '../../wire/errors.ts';
import { leaveSoon } from '../leave.ts';
import { logUnhandledRejections } from '../unhandled-rejections.ts';

export interface RpcFlags {
  readonly config?: string;
  /** Backend of new sessions, by its name in the configuration. */
  readonly backend?: string;
  /** Working directory of new sessions that name none. Default: where the command was called. */
  readonly cwd?: string;
  /** Name of this server in the handshake. */
  readonly serverName?: string;
  readonly verbose?: boolean;
}

/** The parts of a server of sessions. */
export interface RpcComposition {
  readonly config: HostConfig;
  readonly log: Log;
  readonly backend: string;
  readonly cwd?: string;
  readonly serverName?: string;
}

/** Milliseconds after the start: opening the private socket takes nothing of the time until the handshake is answered. */
const SOCKET_AFTER_MS = 100;

/** Makes the server; stopping it stops the parts it depends on. */
export type ComposeRpc = (composition: RpcComposition) => Promise<RpcServer>;

/** The reason in `state.changed` for each signal. */
const reasons = { SIGINT: 'sigint', SIGTERM: 'sigterm' } as const;

/**
 * Serves until the end; everything has ended and is written then. Nothing but the protocol goes to stdout; without `verbose`
 * only errors are logged to stderr. Without `backend`, turns go to the configured model: without one, each ends with an error
 * that names the missing model. Fails as `configOf` and `compose` do.
 */
export async function serveRpc(
  { backend, cwd, serverName, verbose }: RpcFlags,
  configOf: () => Promise<HostConfig>,
  compose: ComposeRpc,
): Promise<void> {
  // Before any other code is loaded: from here on its prints go to stderr.
  const link = stdioLink({ maxMessageBytes: MESSAGE_BYTES_CEILING, loneReturns: true });
  const log = createLog({ level: verbose ? 'info' : 'error', format: 'text' });
  logUnhandledRejections(log);
  try {
    const config = await configOf();
    const chosen = backend ?? config.control.backend ?? 'model';
    const server = await compose({ config, log, backend: chosen, cwd: cwd ?? process.cwd(), serverName });
    let withdrawn: HandfastError | undefined;
    config.trust?.onWithdrawn((error) => {
      withdrawn = error;
      void server.stop('shutdown');
    });
    const opening = setTimeout(async () => {
      const { openPrivateSocket } = await import('../../server/control/private-socket.ts');
      await openPrivateSocket(server, { home: config.home, log });
    }, SOCKET_AFTER_MS);
    await serveUntilEnd(link, server).finally(() => clearTimeout(opening));
    if (withdrawn !== undefined) throw withdrawn;
  } catch (error) {
    link.destroy();
    throw error;
  }
}

/**
 * Serves until the end. The process ends soon after, even if tools or plugins left work running. A second signal ends it at
 * once.
 */
async function serveUntilEnd(link: Link, server: RpcServer): Promise<void> {
  const stop = (signal: keyof typeof reasons): void => {
    for (const name of Object.keys(reasons)) process.removeListener(name, stop);
    void server.stop(reasons[signal]);
  };
  for (const name of Object.keys(reasons)) process.on(name, stop);
  try {
    await server.serve(link);
  } finally {
    leaveSoon();
  }
}
