/**
 * Promises that plugins start and forget. One that rejects would end the process, and with it the sessions of all clients; here
 * it is logged instead. An error thrown outside of promises still ends the process: the state it left is unknown.
 */
import type { Log } from '../base/log.ts';

export function logUnhandledRejections(log: Log): void {
  process.on('unhandledRejection', (error) => log.error('unhandled promise rejection', { error }));
}
