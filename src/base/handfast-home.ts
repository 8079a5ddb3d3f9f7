/** Where the user's Handfast folder is. Used by everything that stores something for the user. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/** The user's Handfast folder: `HANDFAST_HOME`, else `~/.handfast`. It is not created here. */
export function handfastHome(env: Readonly<Record<string, string | undefined>>): string {
  const chosen = env.HANDFAST_HOME;
  return chosen ? resolve(chosen) : join(homedir(), '.handfast');
}
