/**
 * The worktrees of a repository as git lists them, and the locks of those that a task works in now. A lock names the process,
 * so that no other worker of the repository takes the worktree, and `git worktree remove` of a person refuses it.
 */
import { LIST_WORKTREES, readWorktrees, type WorktreeEntry } from '../../../base/git-output.ts';
import { identityOf } from '../process-identity.ts';
import { git, tryGit } from './git.ts';

/** The form of the reason of a lock that a worker sets. */
const WORKING = /^handfast: a task works here \(process (\d+), (.+)\)$/;

/** Worktrees that tasks of this process work in, by their real paths. */
const inUse = new Set<string>();

export async function worktreesOf(repository: string): Promise<readonly WorktreeEntry[]> {
  const { code, stdout } = await tryGit(repository, LIST_WORKTREES);
  if (code === 0) return readWorktrees(stdout);
  return readWorktrees(await git(repository, LIST_WORKTREES.slice(0, -1)));
}

/** True when git was stopped while it made this one. */
export const isHalfMade = ({ locked }: WorktreeEntry): boolean => locked === 'initializing';

/** True when a person locked it, to protect it from removal. */
export const isProtected = (entry: WorktreeEntry): boolean =>
  entry.locked !== undefined && !isHalfMade(entry) && !WORKING.test(entry.locked);

/** A task works in it, or did so when its process ended. */
export const isMarked = ({ locked = '' }: WorktreeEntry): boolean => WORKING.test(locked);

/** Returns whether a task works in it, of this process or of another. */
export async function isInUse({ path, locked = '' }: WorktreeEntry): Promise<boolean> {
  if (inUse.has(path)) return true;
  const [, pid, started] = WORKING.exec(locked) ?? [];
  // In this process, but not in use: it could not be unlocked.
  if (pid === undefined || Number(pid) === process.pid) return false;
  return (await identityOf(Number(pid)))?.started === started;
}

/** Marks a worktree as worked in. A lock of a person stays as it is. */
export async function take(repository: string, path: string): Promise<void> {
  inUse.add(path);
  const entry = (await worktreesOf(repository)).find((one) => one.path === path);
  if (entry !== undefined && isProtected(entry)) return;
  if (entry?.locked !== undefined) await tryGit(repository, ['worktree', 'unlock', path]);
  const started = (await identityOf(process.pid))?.started ?? 'unknown';
  const reason = `handfast: a task works here (process ${process.pid}, ${started})`;
  // Without the lock the work is as good: only other processes do not see it.
  await tryGit(repository, ['worktree', 'lock', '--reason', reason, path]);
}

/** Unlocks a worktree whose task has ended. Never rejects: the next start of its worker unlocks it where this fails. */
export async function giveBack(repository: string, path: string): Promise<void> {
  inUse.delete(path);
  const list = await worktreesOf(repository).catch(() => []);
  const entry = list.find((one) => one.path === path);
  if (WORKING.test(entry?.locked ?? '')) await tryGit(repository, ['worktree', 'unlock', path]);
}

/** Takes an entry off the list whose folder does not exist. */
export async function forget(repository: string, path: string): Promise<void> {
  // Twice: it may be locked, by git or by a task whose process has ended.
  await git(repository, ['worktree', 'remove', '--force', '--force', path]);
}
