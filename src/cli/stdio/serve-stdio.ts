/**
 * One host on the pipes of this process, from the first byte to the end of the input.
 *
 * The parent process has the rights of this one already, so a token is required only when the configuration lists some: then
 * the token selects the principal.
 */

import { createLog } from '../../base/log.ts';
import type { HostConfig } from '../../config/config.ts';
import { assembleHost } from '../../server/assemble.ts';
import { createAuthenticator } from '../../session/auth.ts';
import type { Link, LinkReceiver } from '../../transport/link.ts';
import { stdioLink } from '../../transport/stdio.ts';
import type { HandfastError } from '../../wire/errors.ts';
import { leaveSoon } from '../leave.ts';

export interface ServeStdioOptions {
  /** Log handshakes and the like to stderr. By default only errors are written there. */
  readonly verbose: boolean;
  readonly newId?: () => string;
}

/** Serves until the input has ended and everything is answered, or a signal; resolves with the exit code 0. */
export async function serveStdio(config: HostConfig, { verbose, newId }: ServeStdioOptions): Promise<number> {
  // Before any plugin is loaded: from here on their prints go to stderr.
  const link = stdioLink();
  const log = createLog({ level: verbose ? 'info' : 'error', format: 'text' });
  try {
    const closed = endOf(link);
    const auth = createAuthenticator(config.auth.grants);
    const assembled = await assembleHost(config, { auth, log, newId });
    assembled.host.accept(link);
    const stop = (): void => {
      // The second signal finds no listener any more and ends the process at once.
      process.removeListener('SIGTERM', stop).removeListener('SIGINT', stop);
      void assembled.stop();
    };
    process.on('SIGTERM', stop).on('SIGINT', stop);
    let withdrawn: HandfastError | undefined;
    config.trust?.onWithdrawn((error) => {
      withdrawn = error;
      stop();
    });
    await closed;
    await assembled.stop(0);
    if (withdrawn !== undefined) throw withdrawn;
    return 0;
  } catch (error) {
    link.destroy();
    throw error;
  } finally {
    leaveSoon();
  }
}

/** Resolves when the link is closed, whichever receiver it has by then. */
function endOf(link: Link): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const open = link.open.bind(link);
  link.open = (receiver: LinkReceiver) =>
    open({
      message: (message) => receiver.message(message),
      malformed: (problem) => receiver.malformed(problem),
      ended: () => receiver.ended(),
      closed: (cause) => {
        receiver.closed(cause);
        resolve();
      },
    });
  return promise;
}
