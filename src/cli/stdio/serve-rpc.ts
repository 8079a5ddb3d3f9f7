/**
 * Session RPC on the pipes of this process, from the first byte to the end of the input, a signal, or `system.shutdown`.
 *
 * Called by `commands/rpc.ts`, which says what is served. Standard output belongs to the link from the first line on:
 * whatever else prints finds itself on stderr.
 */
import type { RpcServer } from '../../control/rpc/rpc-server.ts';
import type { Link } from '../../transport/link.ts';
import { stdioLink } from '../../transport/stdio.ts';
import { leaveSoon } from '../leave.ts';

/** Takes stdin and stdout over. Called before anything that may print is loaded. */
export function openRpcPipes(maxMessageBytes: number): Link {
  return stdioLink({ maxMessageBytes, loneReturns: true });
}

/** What a signal is called in `state.changed`. */
const reasons = { SIGINT: 'sigint', SIGTERM: 'sigterm' } as const;

/**
 * Serves until the end, whoever brings it about; everything has ended and is written then. The process ends soon after,
 * whatever tools and plugins left running. A second signal ends it at once.
 */
export async function serveRpc(link: Link, server: RpcServer): Promise<void> {
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
