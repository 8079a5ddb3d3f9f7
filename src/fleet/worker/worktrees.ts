/**
 * A git worktree of its own for a task that asks for one: a branch and a folder below the worker's home, kept while there
 * is something in them, removed when the task left nothing.
 *
 * Called by `task-run.ts`. Turns of one context share one, since their executor's conversation is about that folder.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fail } from '../../wire/errors.ts';
import { git, markTree, type TreeChanges, type TreeMark, treeState } from './git.ts';

/** Checking out a large repository takes its time. */
const CHECKOUT_MS = 120_000;

/** A worktree that is ready to be worked in. */
export interface Worktree {
  /** Its top, absolute. */
  readonly path: string;
  /** The folder in it that the worker's own folder is in the repository. */
  readonly cwd: string;
  readonly branch: string;
  readonly mark: TreeMark;
}

export class Worktrees {
  readonly #repository: string;
  readonly #folder: string;
  /** Git's own lock fails the second of two that come together; here it waits. */
  #turn: Promise<unknown> = Promise.resolve();
  /** From the top of the repository to the worker's folder. */
  #prefix: string | undefined;

  /** `repository`: any folder in it. `home`: the worker's own folder. Both absolute. */
  constructor(repository: string, home: string) {
    this.#repository = repository;
    this.#folder = join(home, 'worktrees');
  }

  /**
   * The worktree of a context, made from the repository's present commit when there is none yet. Fails with `runtime_error`
   * where git will not make one.
   */
  open(contextId: string): Promise<Worktree> {
    const name = nameOf(contextId);
    const path = join(this.#folder, name);
    const branch = `handfast/${name}`;
    return this.#inTurn(async () => {
      if (!existsSync(path)) {
        await mkdir(this.#folder, { recursive: true, mode: 0o700 });
        // What was removed by hand is still in git's list, and would be in the way.
        await git(this.#repository, ['worktree', 'prune']);
        const kept = (await git(this.#repository, ['branch', '--list', branch])).trim() !== '';
        const what = kept ? [path, branch] : ['-b', branch, path, 'HEAD'];
        await git(this.#repository, ['worktree', 'add', '--quiet', ...what], CHECKOUT_MS);
      }
      const mark = await markTree(path);
      if (mark === null) throw fail('runtime_error', `no worktree at ${path}`);
      this.#prefix ??= (await git(this.#repository, ['rev-parse', '--show-prefix'])).trimEnd().replace(/\/$/, '');
      const cwd = join(path, this.#prefix);
      // The folder itself may not be in the commit.
      await mkdir(cwd, { recursive: true });
      return { path, cwd, branch: mark.branch ?? branch, mark };
    });
  }

  /** Removes it when nothing is in it: no commit the repository does not have elsewhere, no file. True: it is gone. */
  leave(worktree: Worktree, changes: TreeChanges): Promise<boolean> {
    const { path, branch, mark } = worktree;
    if (!changes.clean || changes.head_commit !== mark.head) return Promise.resolve(false);
    return this.#inTurn(async () => {
      const here = (await git(this.#repository, ['rev-parse', 'HEAD'])).trim();
      const elsewhere = [here, `--exclude=${branch}`, '--branches', '--remotes'];
      const commits = await git(path, ['rev-list', '--count', 'HEAD', '--not', ...elsewhere]);
      const state = await treeState(path);
      if (commits.trim() !== '0' || state?.clean !== true) return false;
      // Without force: git looks once more, and refuses what it would lose.
      await git(this.#repository, ['worktree', 'remove', path]);
      await git(this.#repository, ['branch', '--quiet', '-D', branch]);
      return true;
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work, work);
    this.#turn = done.catch(() => {});
    return done;
  }
}

/** A name that is safe as a folder and as a branch, readable, and different for different contexts. */
function nameOf(contextId: string): string {
  const readable = contextId
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  const unique = createHash('sha256').update(contextId).digest('hex').slice(0, 10);
  return readable === '' ? unique : `${readable}-${unique}`;
}
