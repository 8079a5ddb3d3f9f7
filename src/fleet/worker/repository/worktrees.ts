/**
 * A git worktree of its own for a task that asks for one: a branch and a folder below the worker's home, removed at once when
 * the task left nothing. What stays is removed by retention: the folder goes, what was committed stays on its branch.
 *
 * Called by `workdir.ts` and, for the end, by `worker.ts`. Turns of one context share one, since their executor's conversation
 * is about that folder; one that was removed meanwhile is made again from its branch.
 * @see docs/fleet.md#worktrees
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, stat, utimes } from 'node:fs/promises';
import { join, sep } from 'node:path';
import type { Log } from '../../../base/log.ts';
import { asError, fail } from '../../../wire/errors.ts';
import { git, markTree, type TreeChanges, type TreeMark, treeState } from './git.ts';

/** Timeout for checking out a large repository, milliseconds. */
const CHECKOUT_MS = 120_000;

const DAY_MS = 24 * 3600 * 1000;
/** Retention of a folder whose content is all in commits. */
const KEPT_MS = 7 * DAY_MS;
/** Retention of one with changes that are in no commit. */
const UNCOMMITTED_MS = 30 * DAY_MS;
/** Folders that stay; past it the oldest go whose content is all in commits. */
const MAX_KEPT = 64;
/** Files that are named in the log. */
const MAX_NAMED = 20;

/** A worktree that is ready to be worked in. */
export interface Worktree {
  /** Its top, absolute. */
  readonly path: string;
  /** The folder in it that the worker's own folder is in the repository. */
  readonly cwd: string;
  readonly branch: string;
  readonly mark: TreeMark;
}

export interface WorktreesOptions {
  /** Any folder in the repository, absolute. */
  readonly repository: string;
  /** The worker's own folder, absolute. */
  readonly home: string;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly log: Log;
  /** Folders that stay. Default 64. */
  readonly maxKept?: number;
}

export class Worktrees {
  readonly #repository: string;
  readonly #folder: string;
  readonly #now: () => number;
  readonly #log: Log;
  readonly #maxKept: number;
  /** Being worked in. */
  readonly #used = new Set<Worktree>();
  /** Git's own lock fails the second of two that come together; here it waits. */
  #turn: Promise<unknown> = Promise.resolve();
  /** From the top of the repository to the worker's folder. */
  #prefix: string | undefined;

  constructor({ repository, home, now, log, maxKept = MAX_KEPT }: WorktreesOptions) {
    this.#repository = repository;
    this.#folder = join(home, 'worktrees');
    this.#now = now;
    this.#log = log;
    this.#maxKept = maxKept;
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
      const worktree = { path, cwd, branch: mark.branch ?? branch, mark };
      this.#used.add(worktree);
      return worktree;
    });
  }

  /**
   * No task works in it any more. Removes it when nothing is in it: no commit the repository does not have elsewhere, no file.
   * True: it was removed. `changes` absent: unknown.
   */
  leave(worktree: Worktree, changes: TreeChanges | undefined): Promise<boolean> {
    const { path, branch, mark } = worktree;
    return this.#inTurn(async () => {
      this.#used.delete(worktree);
      const now = new Date(this.#now());
      await utimes(path, now, now);
      if (changes === undefined || !changes.clean || changes.head_commit !== mark.head) return false;
      if ((await this.#ownCommits(path, branch)) !== 0 || (await treeState(path))?.clean !== true) return false;
      // Without force: git checks once more, and refuses what it would lose.
      await git(this.#repository, ['worktree', 'remove', path]);
      await git(this.#repository, ['branch', '--quiet', '-D', branch]);
      return true;
    });
  }

  /**
   * Removes those past their retention. `unseen` gives the folders whose tasks run, or have unconfirmed results; those stay.
   * What is committed stays, on its branch. Never rejects.
   */
  async end(unseen: () => readonly string[]): Promise<void> {
    try {
      const kept = await this.#kept();
      if (kept.length === 0) return;
      await this.#inTurn(() => git(this.#repository, ['worktree', 'prune']));
      const folders = unseen();
      let many = kept.length;
      for (const { path, ageMs } of kept) {
        if (ageMs <= KEPT_MS && many <= this.#maxKept) break;
        if (folders.some((folder) => folder === path || folder.startsWith(path + sep))) continue;
        if (await this.#inTurn(() => this.#endOne(path, ageMs))) many -= 1;
      }
    } catch (thrown) {
      this.#log.warn('worktrees could not be listed', { error: asError(thrown).message });
    }
  }

  /** Those that exist, least recently worked in first. */
  async #kept(): Promise<{ readonly path: string; readonly ageMs: number }[]> {
    if (!existsSync(this.#folder)) return [];
    const found: { readonly path: string; readonly ageMs: number }[] = [];
    for (const name of await readdir(this.#folder)) {
      const path = join(this.#folder, name);
      // Folders without one are not worktrees of git, and none of ours.
      if (existsSync(join(path, '.git'))) found.push({ path, ageMs: await this.#ageOf(path) });
    }
    return found.sort((one, other) => other.ageMs - one.ageMs);
  }

  async #ageOf(path: string): Promise<number> {
    return this.#now() - (await stat(path)).mtimeMs;
  }

  /** True: it was removed. `ageMs`: as it was when it was chosen. */
  async #endOne(path: string, ageMs: number): Promise<boolean> {
    try {
      // A task has worked in it since, or does.
      if ([...this.#used].some((used) => used.path === path) || (await this.#ageOf(path)) < ageMs) return false;
      const state = await treeState(path);
      if (state === null || (!state.clean && ageMs <= UNCOMMITTED_MS)) return false;
      const { branch, head, clean, dirty } = state;
      // Commits on no branch would be lost with the folder.
      const onNone = await git(path, ['rev-list', '--count', 'HEAD', '--not', '--branches', '--remotes', '--tags']);
      if (onNone.trim() !== '0') await git(path, ['branch', `handfast/kept-${head?.slice(0, 16)}`, 'HEAD']);
      const merged = branch?.startsWith('handfast/') === true && (await this.#ownCommits(path, branch)) === 0;
      await git(this.#repository, ['worktree', 'remove', ...(clean ? [] : ['--force']), path], CHECKOUT_MS);
      if (merged) await git(this.#repository, ['branch', '--quiet', '-D', branch]);
      const about = { worktree: path, branch, commit: head, days: Math.floor(ageMs / DAY_MS) };
      if (clean) this.#log.info('worktree removed; its commits stay', about);
      else {
        const lost = { files: dirty.length, some: dirty.slice(0, MAX_NAMED) };
        this.#log.warn('worktree removed with uncommitted changes', { ...about, ...lost });
      }
      return true;
    } catch (thrown) {
      // Locked by its user, for example. It is tried again.
      this.#log.info('worktree could not be removed', { worktree: path, error: asError(thrown).message });
      return false;
    }
  }

  /** Commits that nothing but this branch has. */
  async #ownCommits(path: string, branch: string): Promise<number> {
    const here = (await git(this.#repository, ['rev-parse', 'HEAD'])).trim();
    const elsewhere = [here, `--exclude=${branch}`, '--branches', '--remotes'];
    return Number(await git(path, ['rev-list', '--count', 'HEAD', '--not', ...elsewhere]));
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
