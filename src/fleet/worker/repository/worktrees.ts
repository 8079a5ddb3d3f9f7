/**
 * A separate git worktree for a task that asks for one: a branch and a folder below the worker's home, removed at once when the
 * task left nothing. Retention removes the folders that stay; committed work stays on its branch.
 *
 * Turns of one context share one, since their executor's conversation is about that folder, also where another worker of the
 * same repository continues it; one that was removed meanwhile is made again from its branch.
 * @see docs/fleet.md#worktrees
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { access, constants, mkdir, readdir, realpath, rename, rm, rmdir, stat, utimes } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { waitForFileLock } from '../../../base/file-lock.ts';
import { readableName, type WorktreeEntry } from '../../../base/git-output.ts';
import type { Log } from '../../../base/log.ts';
import { SerialWork } from '../../../base/serial-work.ts';
import { asError, fail } from '../../../wire/errors.ts';
import { branchNames } from './branch-names.ts';
import { git, markTree, placeIn, placeUnlessBare, type TreeChanges, type TreeMark, tryGit } from './git.ts';
import { contentOf, copyUncommitted, noteFresh } from './worktree-content.ts';
import { forget, giveBack, isHalfMade, isInUse, isMarked, isProtected, take, worktreesOf } from './worktree-list.ts';

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
/** Folders of one conversation that are tried, where others are taken or belong to another repository. */
const MAX_FOLDERS = 16;
/** File in the folder of a repository: the process that changes worktrees holds its lock. */
const LOCK_FILE = 'handfast-worktrees';
/** Longest wait for this lock: some checkouts of other processes. */
const LOCK_MS = 10 * 60_000;
const LOCK_POLL_MS = 25;
/** End of the name of a folder that is being removed. */
const REMOVING = '.removing';

/** A worktree that is ready to be worked in. */
export interface Worktree {
  /** Its top, absolute, a real path. */
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

/** A folder for a conversation: one that exists, or where one can be made. */
interface Found {
  readonly usable: readonly string[];
  readonly vacant: string | undefined;
}

/**
 * Work on worktrees of one repository, by its common folder: git's own lock fails the second of two that come together, here
 * the second waits, from any worker. Between processes a lock file makes it wait.
 */
const turns = new Map<string, SerialWork>();

export class Worktrees {
  readonly #repository: string;
  readonly #folder: string;
  readonly #now: () => number;
  readonly #log: Log;
  readonly #maxKept: number;
  /** The folder of the repository that all its worktrees have in common, a real path. */
  #common: string | undefined;
  #way: string | undefined;

  constructor({ repository, home, now, log, maxKept = MAX_KEPT }: WorktreesOptions) {
    this.#repository = repository;
    this.#folder = join(home, 'worktrees');
    this.#now = now;
    this.#log = log;
    this.#maxKept = maxKept;
  }

  /**
   * Opens the worktree of a context: the one it has, here or at another worker of the repository that does not work in it now;
   * else one that is made from its branch, with a copy of the uncommitted files at that worker, or from the repository's
   * present commit. A context that is no conversation (`continues` false) has none at other workers. Fails with `runtime_error`
   * where git will not make one.
   */
  open(contextId: string, continues = true): Promise<Worktree> {
    const name = nameOf(contextId);
    return this.#inTurn(async () => {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      const folder = await realpath(this.#folder);
      const list = await worktreesOf(this.#repository);
      const own = await this.#ownFolders(folder, name, list);
      const found = [...own.usable, ...(continues ? await this.#elsewhere(folder, name, list) : [])];
      const path = (await newest(found)) ?? (await this.#make(own.vacant, name, continues));
      return this.#ready(path);
    });
  }

  async #ready(path: string): Promise<Worktree> {
    try {
      await take(this.#repository, path);
      const mark = await markTree(path);
      if (mark === null) throw fail('runtime_error', `no worktree at ${path}`);
      const prefix = await this.#prefix();
      const cwd = resolve(path, prefix);
      // The folder itself may not be in the commit.
      await mkdir(cwd, { recursive: true });
      await this.#touch(path);
      return { path, cwd, branch: mark.branch ?? '', mark: { ...mark, prefix } };
    } catch (thrown) {
      await giveBack(this.#repository, path);
      throw thrown;
    }
  }

  /** Returns the path from the top of the repository to the worker's folder; nothing where the repository is bare. */
  async #prefix(): Promise<string> {
    this.#way ??= (await placeUnlessBare(this.#repository))?.prefix ?? '';
    return this.#way;
  }

  /** Returns the folders of a conversation below this worker's home. Takes half-made and missing ones off git's list. */
  async #ownFolders(folder: string, name: string, list: readonly WorktreeEntry[]): Promise<Found> {
    const usable: string[] = [];
    let vacant: string | undefined;
    for (let number = 1; number <= MAX_FOLDERS; number += 1) {
      const path = join(folder, number === 1 ? name : `${name}-${number}`);
      const entry = list.find((one) => one.path === path);
      const missing = !existsSync(path);
      // The worktree may lie on a disk that is not mounted now.
      if (missing && entry !== undefined && isProtected(entry)) continue;
      if (entry !== undefined && (isHalfMade(entry) || missing)) await this.#discard(path);
      if (!existsSync(path)) vacant ??= path;
      else if (entry !== undefined && (await isInUse(entry))) continue;
      else if (await this.#isWorktree(path)) usable.push(path);
      else if (await isRemoved(path)) vacant ??= path;
    }
    return { usable, vacant };
  }

  /** Removes a half-made folder. No task has worked in it: a task gets whole folders only. */
  async #discard(path: string): Promise<void> {
    await rm(path, { recursive: true, force: true });
    await forget(this.#repository, path);
  }

  /** Returns the worktrees of this conversation below the homes of other workers, in which no task works. */
  async #elsewhere(folder: string, name: string, list: readonly WorktreeEntry[]): Promise<string[]> {
    const found: string[] = [];
    for (const entry of list) {
      const { path } = entry;
      if (dirname(path) === folder || !isFolderOf(name, path)) continue;
      // Programs of a killed process may work on in its worktree: its own worker ends them.
      if (isHalfMade(entry) || isMarked(entry) || (await isInUse(entry)) || !(await isWritable(path))) continue;
      if (await this.#isWorktree(path)) found.push(path);
    }
    return found;
  }

  /** True for a worktree of this repository. One whose repository was moved, or that was moved itself, is repaired. */
  async #isWorktree(path: string): Promise<boolean> {
    if (await this.#belongs(path)) return true;
    await tryGit(this.#repository, ['worktree', 'repair', path]);
    return this.#belongs(path);
  }

  async #belongs(path: string): Promise<boolean> {
    if (!existsSync(join(path, '.git'))) return false;
    const listed = (await worktreesOf(this.#repository)).some((entry) => entry.path === path);
    return (
      listed &&
      (await placeIn(path).then(
        ({ top }) => top === path,
        () => false,
      ))
    );
  }

  /** Makes a worktree, on the branch of the conversation where that is free. */
  async #make(path: string | undefined, name: string, continues: boolean): Promise<string> {
    if (path === undefined) throw fail('runtime_error', `all folders for the worktree ${name} are taken`);
    const list = await worktreesOf(this.#repository);
    const held = new Set<string>();
    for (const entry of list) {
      if (entry.branch === null || !isOf(name, entry.branch.replace(/^handfast[/-]/, ''))) continue;
      // The folder of another worker that was removed with its home.
      if (existsSync(entry.path) || isProtected(entry)) held.add(entry.branch);
      else await forget(this.#repository, entry.path);
    }
    const { existing, free } = await branchNames(this.#repository, name);
    const other = continues ? await this.#otherFolder(name, list) : undefined;
    const switched = other !== undefined && !existing.includes(other.branch ?? '');
    const kept = existing.find((branch) => !held.has(branch));
    // Where the task has switched to another branch, the conversation is on that branch.
    if (kept !== undefined && !switched && (await this.#checkedOut(path, kept))) return path;
    const start = other?.head ?? (continues ? existing.at(-1) : undefined) ?? 'HEAD';
    const commit = (await git(this.#repository, ['rev-parse', '--verify', `${start}^{commit}`])).trim();
    // A damaged ref in the way of a name is on no list: another kind of name is tried then.
    const names = [free[0], free.find((branch) => branch.startsWith('handfast-'))].filter((one) => one !== undefined);
    for (const [at, branch] of names.entries()) {
      const words = ['worktree', 'add', '--quiet', '--no-track', '-b', branch, path, commit];
      try {
        await git(this.#repository, words, CHECKOUT_MS);
        await this.#noteFresh(path);
        if (other !== undefined) await this.#copy(other.path, path);
        return path;
      } catch (thrown) {
        const { message } = asError(thrown);
        // A checkout that failed leaves its branch; one that another has made since belongs to that one.
        if (!/already exists/.test(message)) {
          await tryGit(this.#repository, ['update-ref', '-d', `refs/heads/${branch}`, commit]);
        }
        if (at === names.length - 1 || !/ref|branch/.test(message)) throw thrown;
      }
    }
    throw fail('runtime_error', `all branches for the worktree ${name} are taken`);
  }

  /**
   * Returns the current folder of the conversation, which no task can work in now. A person may have the branch as well: the
   * uncommitted files there are not part of the conversation.
   */
  async #otherFolder(name: string, list: readonly WorktreeEntry[]): Promise<WorktreeEntry | undefined> {
    const folders = list.filter(({ path }) => isFolderOf(name, path) && existsSync(path));
    const whole = folders.filter((entry) => !isHalfMade(entry) && entry.head !== null);
    const path = await newest(whole.map((entry) => entry.path));
    return whole.find((entry) => entry.path === path);
  }

  /**
   * Makes a worktree from a branch; false: another worktree has it, one in the middle of a rebase, of which the list says
   * nothing.
   */
  async #checkedOut(path: string, branch: string): Promise<boolean> {
    try {
      await git(this.#repository, ['worktree', 'add', '--quiet', path, branch], CHECKOUT_MS);
    } catch (thrown) {
      if (/already (?:checked out|used)/.test(asError(thrown).message)) return false;
      throw thrown;
    }
    await this.#noteFresh(path);
    return true;
  }

  async #noteFresh(path: string): Promise<void> {
    const mark = await markTree(path);
    if (mark !== null) await noteFresh(mark);
  }

  /**
   * Copies the content of the worktree in which the conversation was so far: a task works in it, or did when its worker was
   * lost.
   */
  async #copy(from: string, to: string): Promise<void> {
    try {
      if (await copyUncommitted(from, to)) return;
      this.#log.warn('a conversation continues without the uncommitted files of its worktree: they are too many', {
        from,
        to,
      });
    } catch (thrown) {
      const error = asError(thrown).message;
      this.#log.warn('a conversation continues without the uncommitted files of its worktree', { from, to, error });
    }
  }

  /**
   * Ends the work in a worktree. Removes it when nothing is in it: no commit the repository does not have elsewhere, no file
   * that was not checked out, none that git ignores. True: it was removed. `changes` absent: unknown.
   */
  leave(worktree: Worktree, changes: TreeChanges | undefined): Promise<boolean> {
    const { path, branch, mark } = worktree;
    return this.#inTurn(async () => {
      try {
        if (!existsSync(path)) return true;
        await this.#touch(path);
        const entry = await this.#entryOf(path);
        if (changes === undefined || changes.head_commit !== mark.head || entry === undefined) return false;
        if (isProtected(entry)) return false;
        const { uncommitted, ignored } = await contentOf(path);
        if (uncommitted.length + ignored.length > 0) return false;
        const tip = await this.#tipOf(branch);
        if ((await this.#ownCommits(path, branch, tip)) !== 0) return false;
        await this.#remove(path);
        await this.#removeBranch(branch, tip);
        return true;
      } finally {
        await giveBack(this.#repository, path);
      }
    });
  }

  async #entryOf(path: string): Promise<WorktreeEntry | undefined> {
    return (await worktreesOf(this.#repository)).find((entry) => entry.path === path);
  }

  /**
   * Removes the worktrees past their retention. `unseen` gives the folders whose tasks run, or have unconfirmed results; those
   * stay. Committed work stays, on its branch. Never rejects.
   */
  async end(unseen: () => readonly string[]): Promise<void> {
    try {
      if (!existsSync(this.#folder)) return;
      const folder = await realpath(this.#folder);
      await this.#inTurn(() => this.#tidy(folder));
      const kept = await this.#kept(folder);
      const folders = await Promise.all(unseen().map((path) => realpath(path).catch(() => path)));
      let many = kept.length;
      for (const { path, ageMs } of kept) {
        if (ageMs <= KEPT_MS && many <= this.#maxKept) break;
        if (folders.some((used) => used === path || used.startsWith(path + sep))) continue;
        if (await this.#inTurn(() => this.#endOne(path, ageMs))) many -= 1;
      }
    } catch (thrown) {
      this.#log.warn('worktrees could not be listed', { error: asError(thrown).message });
    }
  }

  /** Ends interrupted removals, and takes missing folders off git's list. Folders elsewhere are not this worker's. */
  async #tidy(folder: string): Promise<void> {
    for (const name of await readdir(folder)) {
      if (name.endsWith(REMOVING)) await rm(join(folder, name), { recursive: true, force: true });
    }
    for (const entry of await worktreesOf(this.#repository)) {
      if (dirname(entry.path) !== folder || isProtected(entry)) continue;
      if (isHalfMade(entry) || !existsSync(entry.path)) await this.#discard(entry.path);
      // The programs that a killed process of this worker left have been ended by now.
      else if (isMarked(entry) && !(await isInUse(entry))) await giveBack(this.#repository, entry.path);
    }
  }

  /** Returns the existing folders, least recently worked in first. */
  async #kept(folder: string): Promise<{ readonly path: string; readonly ageMs: number }[]> {
    const found: { readonly path: string; readonly ageMs: number }[] = [];
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      // A folder without `.git` is not a worktree of git, so this worker did not make it.
      if (existsSync(join(path, '.git'))) found.push({ path, ageMs: await this.#ageOf(path) });
    }
    return found.sort((one, other) => other.ageMs - one.ageMs);
  }

  async #ageOf(path: string): Promise<number> {
    return this.#now() - (await stat(path)).mtimeMs;
  }

  async #touch(path: string): Promise<void> {
    const now = new Date(this.#now());
    await utimes(path, now, now);
  }

  /** True: it was removed. `ageMs`: as it was when it was chosen. */
  async #endOne(path: string, ageMs: number): Promise<boolean> {
    try {
      const entry = await this.#entryOf(path);
      // A task has worked in it since, or does.
      if (entry === undefined || (await isInUse(entry)) || (await this.#ageOf(path)) < ageMs) return false;
      if (isProtected(entry)) throw fail('runtime_error', `it is locked: ${entry.locked || 'no reason is given'}`);
      const { head, branch, uncommitted, ignored } = await contentOf(path);
      const clean = uncommitted.length === 0;
      if (!clean && ageMs <= UNCOMMITTED_MS) return false;
      // Commits on no branch would be lost with the folder.
      const onNone = await git(path, ['rev-list', '--count', 'HEAD', '--not', '--branches', '--remotes', '--tags']);
      if (onNone.trim() !== '0') await this.#keepCommits(path, head ?? '');
      const tip = branch === null ? undefined : await this.#tipOf(branch);
      const merged = branch !== null && (await this.#ownCommits(path, branch, tip)) === 0;
      await this.#remove(path);
      if (merged) await this.#removeBranch(branch, tip);
      const about = { worktree: path, branch, commit: head, days: Math.floor(ageMs / DAY_MS) };
      const gone = ignored.length === 0 ? {} : { ignored: ignored.length, some_ignored: someOf(ignored) };
      if (clean) this.#log.info('worktree removed; its commits stay', { ...about, ...gone });
      else {
        const lost = { files: uncommitted.length, some: someOf(uncommitted), ...gone };
        this.#log.warn('worktree removed with uncommitted changes', { ...about, ...lost });
      }
      return true;
    } catch (thrown) {
      // Locked by its user, for example. It is tried again.
      this.#log.info('worktree could not be removed', { worktree: path, error: asError(thrown).message });
      return false;
    }
  }

  async #keepCommits(path: string, head: string): Promise<void> {
    const { existing, free } = await branchNames(this.#repository, `kept-${head.slice(0, 16)}`);
    // A branch of this name has this commit: the name contains its id.
    if (existing.length === 0) await git(path, ['branch', '--no-track', free[0] as string, 'HEAD']);
  }

  async #tipOf(branch: string): Promise<string | undefined> {
    const { code, stdout } = await tryGit(this.#repository, [
      'rev-parse',
      '--verify',
      '--quiet',
      `refs/heads/${branch}`,
    ]);
    return code === 0 ? stdout.trim() : undefined;
  }

  /** Commits that nothing but this worktree and its branch, which is at `tip`, has. */
  async #ownCommits(path: string, branch: string, tip: string | undefined): Promise<number> {
    const here = (await git(this.#repository, ['rev-parse', 'HEAD'])).trim();
    const elsewhere = [here, `--exclude=${branch}`, '--branches', '--remotes'];
    const own = tip === undefined ? ['HEAD'] : ['HEAD', tip];
    return Number(await git(path, ['rev-list', '--count', ...own, '--not', ...elsewhere]));
  }

  /**
   * Removes a folder whose content was checked. Renames it first: an interruption leaves no half of a worktree in its place.
   */
  async #remove(path: string): Promise<void> {
    const aside = `${path}${REMOVING}`;
    await rm(aside, { recursive: true, force: true });
    await rename(path, aside);
    await forget(this.#repository, path);
    await rm(aside, { recursive: true, force: true });
  }

  /** Removes a branch that this software made, if it is still where it was looked at, and no worktree has it. */
  async #removeBranch(branch: string, tip: string | undefined): Promise<void> {
    if (tip === undefined || !/^handfast[/-]./.test(branch)) return;
    if ((await worktreesOf(this.#repository)).some((entry) => entry.branch === branch)) return;
    await git(this.#repository, ['update-ref', '-d', `refs/heads/${branch}`, tip]);
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#common === undefined) {
      const said = await git(this.#repository, ['rev-parse', '--git-common-dir']);
      this.#common = await realpath(resolve(this.#repository, said.replace(/\n$/, '')));
    }
    const common = this.#common;
    const turn = turns.get(common) ?? new SerialWork();
    turns.set(common, turn);
    return turn.run(async () => {
      const unlock = await locked(join(common, LOCK_FILE));
      try {
        return await work();
      } finally {
        unlock();
      }
    });
  }
}

/** True for the name of a conversation, also with a number behind it. */
const isOf = (name: string, found: string): boolean =>
  found === name || (found.startsWith(`${name}-`) && /^\d{1,2}$/.test(found.slice(name.length + 1)));

/** True for the folder of a conversation below the home of a worker. */
const isFolderOf = (name: string, path: string): boolean =>
  basename(dirname(path)) === 'worktrees' && isOf(name, basename(path));

const someOf = (names: readonly string[]): readonly string[] => names.slice(0, MAX_NAMED).map(readableName);

/** Returns the folder that was worked in last. */
async function newest(paths: readonly string[]): Promise<string | undefined> {
  const dated = await Promise.all(paths.map(async (path) => ({ path, at: (await stat(path)).mtimeMs })));
  return dated.sort((one, other) => other.at - one.at)[0]?.path;
}

/**
 * Waits until no other process changes worktrees of a repository. Gives the function that releases the lock. Fails with
 * `runtime_error` after ten minutes.
 */
async function locked(file: string): Promise<() => void> {
  // A lock of another user, perhaps. Two workers that meet then fail with the reason of git.
  const unlock = await waitForFileLock(file, { ms: LOCK_MS, pollMs: LOCK_POLL_MS }).catch(() => () => {});
  if (unlock !== undefined) return unlock;
  throw fail('runtime_error', `another process has held ${file} for ${LOCK_MS / 60_000} minutes`);
}

/** Removes a folder that an interrupted start left empty. */
const isRemoved = (path: string): Promise<boolean> =>
  rmdir(path).then(
    () => true,
    () => false,
  );

/** True for a folder that this user can work in. */
async function isWritable(path: string): Promise<boolean> {
  try {
    await access(path, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Returns a name that is safe as a folder and as a branch, readable, and different for different contexts. */
function nameOf(contextId: string): string {
  const readable = contextId
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  const unique = createHash('sha256').update(contextId).digest('hex').slice(0, 10);
  return readable === '' ? unique : `${readable}-${unique}`;
}
