/**
 * Promises that plugins start and forget. One that rejects would end the process, and with it the sessions of everybody;
 * here it is logged instead. What is thrown outside of promises still ends the process: the state it left is unknown.
 *
 * Used by the commands that serve.
 */
import type { Log } from '../base/log.ts';

export function logUnhandledRejections(log: Log): void {
  process.on('unhandledRejection', (error) => log.error('unhandled promise rejection', { error }));
}
