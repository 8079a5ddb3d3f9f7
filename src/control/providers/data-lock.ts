/**
 * One server per data directory: two would overwrite each other's settings and credentials. The lock is the operating system's,
 * so it ends with its holder, in whichever way the process ends; the process id beside it only serves the message.
 *
 * The lock is acquired before any file is read.
 */
import { join } from 'node:path';
import { acquireNamedLock, type NamedLock } from '../../base/file-lock.ts';
import { fail } from '../../wire/errors.ts';

/**
 * Locks the data directory `home`, which must exist. Returns the function that releases it. Fails with `journal_locked`, naming
 * the process that has it where that is known, or with `config_invalid` when the lock cannot be made.
 */
export function acquireDataLock(home: string): () => void {
  const { release, holder } = take(home);
  if (release !== undefined) return release;
  const who = holder === undefined ? 'another process' : `process ${holder}`;
  throw fail('journal_locked', `the data directory ${home} is in use by ${who}`, {
    home,
    ...(holder === undefined ? {} : { pid: holder }),
  });
}

function take(home: string): NamedLock {
  try {
    return acquireNamedLock(join(home, 'settings.lock'), join(home, 'settings.pid'));
  } catch (cause) {
    throw fail('config_invalid', `the data directory ${home} cannot be locked: ${(cause as Error).message}`, {}, cause);
  }
}
