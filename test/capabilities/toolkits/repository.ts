/** Real repositories for the tests of the toolkit `git`. */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { folder } from './support.ts';

const NEUTRAL = { GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
const IDENTITY = ['-c', 'user.name=Test', '-c', 'user.email=test@example.invalid'];

/** Returns the output of git, which reads only the configuration of the repository. */
export function git(cwd: string, ...words: string[]): string {
  const env = { PATH: process.env.PATH ?? '', HOME: '/nonexistent', ...NEUTRAL };
  return execFileSync('git', [...IDENTITY, ...words], { cwd, env, encoding: 'utf8' });
}

/** Makes a repository with one commit, and the command that a program of the repository would run: it leaves a file. */
export function repository(t: TestContext) {
  const workspace = folder(t);
  git(workspace, 'init', '-q', '-b', 'main');
  writeFileSync(join(workspace, 'a.txt'), 'one\n');
  git(workspace, 'add', '.');
  git(workspace, 'commit', '-q', '-m', 'first');
  const ran = join(folder(t), 'ran');
  const program = join(folder(t), 'program');
  writeFileSync(program, `#!/bin/sh\necho ran >> '${ran}'\ncat\n`);
  chmodSync(program, 0o755);
  return { workspace, program, hasRun: () => existsSync(ran) };
}
