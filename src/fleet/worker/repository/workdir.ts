/**
 * The folder an attempt works in: the worker's folder, or a separate worktree. It is marked before the task and compared after
 * it.
 */
import type { Log } from '../../../base/log.ts';
import { asError } from '../../../wire/errors.ts';
import type { Dispatched } from '../../messages/decoded.ts';
import type { Facts } from '../facts.ts';
import type { RepositoryReader, TreeChanges, TreeMark } from './git.ts';
import type { Worktree, Worktrees } from './worktrees.ts';

export interface WorkdirOptions {
  /** The worker's folder, absolute. */
  readonly cwd: string;
  readonly facts: Facts;
  readonly worktrees: Worktrees;
  readonly repository: RepositoryReader;
  readonly log: Log;
}

export interface Workdir {
  /** Absolute. */
  readonly cwd: string;
  /** The tree as it was; null: no repository. */
  readonly mark: TreeMark | null;
  readonly worktree: Worktree | undefined;
}

/** Fails with `runtime_error` where a worktree is wanted and cannot be made, or git cannot tell the state of the tree. */
export async function openWorkdir(dispatch: Dispatched, contextId: string, options: WorkdirOptions): Promise<Workdir> {
  const { cwd, facts, worktrees, repository } = options;
  if (dispatch.worktree) {
    // A task without a context may run again elsewhere, and starts there from the repository's commit.
    const worktree = await worktrees.open(contextId, dispatch.envelope.context_id != null);
    return { cwd: worktree.cwd, mark: worktree.mark, worktree };
  }
  if (facts.noRepository) return { cwd, mark: null, worktree: undefined };
  const tree = await facts.tree();
  const unmarked = tree === null || tree.unreadable !== undefined;
  return { cwd, mark: unmarked ? null : await repository.markTree(cwd, tree), worktree: undefined };
}

/** Returns the changes; undefined without a repository. Never rejects. */
export async function changesIn(
  { mark, cwd }: Workdir,
  { repository, log }: WorkdirOptions,
): Promise<TreeChanges | undefined> {
  if (mark === null) return undefined;
  try {
    return await repository.changesSince(mark);
  } catch (thrown) {
    log.warn('what a task changed could not be found', { cwd, error: asError(thrown).message });
    const { branch, head } = mark;
    return { branch, base_commit: head, head_commit: null, clean: false, files_changed: [], truncated: false };
  }
}

/** Removes a worktree that has nothing in it. Gives the path of one that stays. Never rejects. */
export async function closeWorkdir(
  { worktree }: Workdir,
  changes: TreeChanges | undefined,
  { worktrees, log }: WorkdirOptions,
): Promise<string | undefined> {
  if (worktree === undefined) return undefined;
  try {
    return (await worktrees.leave(worktree, changes)) ? undefined : worktree.path;
  } catch (thrown) {
    log.warn('a worktree could not be removed', { worktree: worktree.path, error: asError(thrown).message });
    return worktree.path;
  }
}
