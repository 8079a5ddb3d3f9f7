/**
 * The pipes of a command whose program, an editor or another client, reads its stdout as a protocol: the link, the log on
 * stderr, and the end by a signal. A command takes its pipes before anything else: later prints go to stderr.
 */
import { createLog, type Log } from '../base/log.ts';
import type { Link } from '../transport/link.ts';
import { stdioLink } from '../transport/stdio.ts';
import { logUnhandledRejections } from './unhandled-rejections.ts';

/**
 * Takes the pipes of this process. SIGTERM and SIGINT close the link; the second signal ends the process at once.
 * @param maxMessageBytes longest message of the program
 * @param verbose log events, not only entries that need attention
 */
export function ownPipes(maxMessageBytes: number, verbose = false): { readonly link: Link; readonly log: Log } {
  const link = stdioLink({ maxMessageBytes });
  const log = createLog({ level: verbose ? 'info' : 'warn', format: 'text' });
  logUnhandledRejections(log);
  const stop = (): void => {
    // The second signal finds no listener any more and ends the process at once.
    process.removeListener('SIGTERM', stop).removeListener('SIGINT', stop);
    void link.close('the process received a signal to end');
  };
  process.on('SIGTERM', stop).on('SIGINT', stop);
  return { link, log };
}
