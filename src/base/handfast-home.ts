/**
 * The path of the user's Handfast folder.
 */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/** Returns the user's Handfast folder: `HANDFAST_HOME`, else `~/.handfast`. The folder is not created here. */
export function handfastHome(env: Readonly<Record<string, string | undefined>>): string {
  const chosen = env.HANDFAST_HOME;
  return chosen ? resolve(chosen) : join(homedir(), '.handfast');
}
