/**
 * One server per data directory: two would overwrite each other's settings and credentials. The lock is the operating
 * system's, so it ends with its holder however that one dies; the process id beside it only serves the message.
 *
 * Taken by `settings.ts` before it reads anything.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { takeFileLock } from '../../host/file-lock.ts';
import { fail } from '../../wire/errors.ts';

/**
 * Takes the data directory `home`, which must exist. Returns how to let go of it. Fails with `journal_locked`, naming
 * the process that has it where that is known, or with `config_invalid` when the lock cannot be made.
 */
export function takeDataLock(home: string, pid: number = process.pid): () => void {
  const holderFile = join(home, 'settings.pid');
  const release = take(home);
  if (release === undefined) {
    const holder = holderOf(holderFile);
    const who = holder === undefined ? 'another process' : `process ${holder}`;
    throw fail('journal_locked', `the data directory ${home} is in use by ${who}`, {
      home,
      ...(holder === undefined ? {} : { pid: holder }),
    });
  }
  try {
    writeFileSync(holderFile, `${pid}\n`, { mode: 0o600 });
  } catch {
    // Without it a second server is refused all the same, only less helpfully.
  }
  return () => {
    rmSync(holderFile, { force: true });
    release();
  };
}

function take(home: string): (() => void) | undefined {
  try {
    return takeFileLock(join(home, 'settings.lock'));
  } catch (cause) {
    throw fail('config_invalid', `the data directory ${home} cannot be locked: ${(cause as Error).message}`, {}, cause);
  }
}

/** The process id another server left; undefined when it is not there yet. */
function holderOf(file: string): number | undefined {
  try {
    const pid = Number.parseInt(readFileSync(file, 'utf8'), 10);
    return pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}
