/** A real git repository with one commit, for agents to work in. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gitEnvironment } from '../fleet/support/git-repository.ts';

const git = (folder: string, ...args: string[]): string =>
  execFileSync('git', ['-c', 'user.name=test', '-c', 'user.email=test@localhost', ...args], {
    cwd: folder,
    encoding: 'utf8',
    env: gitEnvironment(),
  });

/** Commits the folder's content, and a README. */
export function makeRepository(folder: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'README.md'), 'one\ntwo\n');
  git(folder, 'init', '--quiet', '--initial-branch=main');
  git(folder, 'add', '--all');
  git(folder, 'commit', '--quiet', '--message', 'first');
}

/** Returns the changes since the last commit, in git's short form, sorted. */
export const changesIn = (folder: string): string[] =>
  git(folder, 'status', '--short', '--untracked-files=all').split('\n').filter(Boolean).sort();
