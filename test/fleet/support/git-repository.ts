/** Real git repositories for tests: made with one commit, worked in with git itself. */
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Returns the environment without the settings of this user, and without the repository in whose hook this may run. */
export function gitEnvironment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_'));
  return { ...Object.fromEntries(own), GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' };
}

/** Runs git in a folder and returns its output, trimmed. */
export async function git(cwd: string, ...args: readonly string[]): Promise<string> {
  const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@example.invalid'];
  const { stdout } = await run('git', [...identity, ...args], { cwd, env: gitEnvironment() });
  return stdout.trim();
}

/** Makes a repository with one committed file, `a.txt`. Returns its first commit. */
export async function repository(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  await git(folder, 'init', '--quiet', '--initial-branch=main');
  await writeFile(join(folder, 'a.txt'), 'one\n');
  await git(folder, 'add', '.');
  await git(folder, 'commit', '--quiet', '-m', 'first');
  return git(folder, 'rev-parse', 'HEAD');
}
