/**
 * Verifies results that a worker reports as done: files it names exist and have changed since the attempt started, the commit
 * it names exists. Only where the repository is on this machine; the findings do not change the status. Paths start at the
 * folder that the worker was given, in the repository or in the task's own worktree.
 * @see docs/fleet.md#verification
 */

import { lstat, realpath } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { readableName, readNames } from '../../base/git-output.ts';
import { isPresent } from '../../base/is-present.ts';
import { nextTurn } from '../../base/next-turn.ts';
import type { TaskResult } from '../../protocol/fleet.ts';
import { asError } from '../../wire/errors.ts';
import { git, placeUnlessBare, tryGit } from '../worker/repository/git.ts';
import { worktreesOf } from '../worker/repository/worktree-list.ts';

/** Changed paths that are looked at in one turn of the event loop. */
const PATHS_PER_TURN = 5_000;
/** Files checked for one result. */
const MAX_FILES = 500;

export interface Verification {
  readonly verified: 'yes' | 'no' | 'not_checked';
  /** Plain sentences, the evidence against the result first. */
  readonly reasons: readonly string[];
}

/** A result as far as it claims something. */
type Claiming = Pick<TaskResult, 'artifacts'>;

/** Claims of a result that can be checked. */
interface Claims {
  /** Paths from the folder that the worker works in. */
  readonly files: readonly string[];
  /** Measured elsewhere in the repository, from its top. */
  readonly outside: readonly string[];
  readonly pr: string | null;
  readonly base: string | null;
  readonly head: string | null;
  readonly worktree: string | null;
  /** True when it had a worktree, which was removed because nothing was in it. */
  readonly removed: boolean;
}

/** Returns the commit a repository is at; null without a commit, or without a repository. Never rejects. */
export async function headOf(repository: string): Promise<string | null> {
  try {
    return (await git(repository, ['rev-parse', '--verify', '--quiet', 'HEAD'])).trim();
  } catch {
    return null;
  }
}

/** Returns the reason why a result cannot be verified; undefined: it can. */
export function whyNotChecked(result: Claiming, repository: string | undefined): string | undefined {
  const { files, outside, pr, head } = claimsOf(result);
  if (files.length + outside.length === 0 && pr === null && head === null)
    return 'the result names nothing that could be checked';
  return repository === undefined ? 'the orchestrator does not know the folder of this worker' : undefined;
}

/** Checks a result against the repository its worker works in. `base`: its commit when the attempt was sent. Never rejects. */
export async function verify(result: Claiming, repository: string, base: string | null): Promise<Verification> {
  const claims = claimsOf(result);
  try {
    return await inspect(claims, repository, claims.base ?? base);
  } catch (thrown) {
    return notChecked(`the repository could not be read: ${asError(thrown).message}`);
  }
}

function notChecked(reason: string): Verification {
  return { verified: 'not_checked', reasons: [reason] };
}

async function inspect(claims: Claims, repository: string, base: string | null): Promise<Verification> {
  const against: string[] = [];
  const open: string[] = [];
  let found = 0;
  if (claims.head !== null) {
    if (await hasCommit(repository, claims.head)) found += claims.head === base ? 0 : 1;
    else against.push(`there is no commit ${claims.head}`);
  }
  if (claims.worktree !== null && !(await isPresent(claims.worktree))) {
    open.push(`its worktree ${claims.worktree.slice(0, 300)} does not exist any more`);
  } else if (claims.files.length + claims.outside.length > 0) {
    const tree = await treeOf(repository, claims);
    if (tree.top === null && !claims.removed) return notChecked('the repository is bare: it has no files');
    const known = base !== null && (await hasCommit(repository, base));
    if (!known) open.push('the commit the work started from is unknown');
    const named = [
      ...claims.files.map((file) => ({ file, path: tree.prefix + file })),
      ...claims.outside.map((file) => ({ file, path: file })),
    ];
    const states = await statesOf(tree, known ? base : null, [...new Set(named.map(({ path }) => path))]);
    for (const { file, path } of named) {
      const state = states.get(path);
      if (state === 'changed') found += 1;
      else if (state === 'missing') against.push(`${file} does not exist`);
      else if (state === 'ignored') open.push(`${file} is ignored by git`);
      else if (known) against.push(`${file} has not changed since ${base.slice(0, 12)}`);
    }
    if (claims.removed && against.length > 0) open.push('nothing was left in its worktree, which was removed');
  }
  if (claims.pr !== null) open.push(`not asked: whether ${claims.pr} exists`);
  const reasons = [...against, ...open];
  if (against.length > 0) return { verified: 'no', reasons };
  if (found === 0) return { verified: 'not_checked', reasons: reasons.length > 0 ? reasons : ['it names no change'] };
  return { verified: 'yes', reasons: [`${found} of the named changes found`, ...reasons] };
}

/** The place of the files of a result. */
interface Tree {
  /** The folder of the worker. */
  readonly repository: string;
  /** Top of the working tree, its real path; null: a worktree that was removed because nothing was in it. */
  readonly top: string | null;
  /** Path from the top to the folder that the worker works in: empty, or a path that ends with `/`. */
  readonly prefix: string;
}

/**
 * Returns the tree of a result. A worktree counts as one of this repository only when git lists it; its paths may lead through
 * links.
 */
async function treeOf(repository: string, { worktree, removed }: Claims): Promise<Tree> {
  const own = (await placeUnlessBare(repository)) ?? { top: null, prefix: '' };
  if (worktree === null) return { repository, ...own, ...(removed && { top: null }) };
  const real = await realpath(worktree).catch(() => worktree);
  const list = await worktreesOf(repository);
  return { repository, ...own, ...(list.some(({ path, bare }) => path === real && !bare) && { top: real }) };
}

async function hasCommit(repository: string, commit: string): Promise<boolean> {
  return (await tryGit(repository, ['cat-file', '-e', `${commit}^{commit}`])).code === 0;
}

type FileState = 'changed' | 'unchanged' | 'missing' | 'ignored';

/** Returns the state of each path since the commit `base`; null: that commit is unknown, and no path counts as changed. */
async function statesOf(
  { repository, top }: Tree,
  base: string | null,
  paths: readonly string[],
): Promise<ReadonlyMap<string, FileState>> {
  if (top === null) return statesInCommit(repository, base, paths);
  const changed = base === null ? new Set<string>() : await changedSince(top, base);
  const states = new Map<string, FileState>();
  for (const path of paths) {
    if (changed.has(path) || isBelowNew(path, changed)) states.set(path, 'changed');
    else if (!(await isPresent(join(top, path)))) states.set(path, 'missing');
    else states.set(path, (await changedInSubmodule(top, base, path, changed)) ? 'changed' : 'unchanged');
  }
  for (const path of await foldersWith(changed, top, states)) states.set(path, 'changed');
  const rest = paths.filter((path) => states.get(path) === 'unchanged');
  for (const path of base === null ? [] : await ignoredOf(top, rest)) states.set(path, 'ignored');
  return states;
}

/** Returns the states where a task left nothing: a path is as the commit has it, or missing. */
async function statesInCommit(
  repository: string,
  base: string | null,
  paths: readonly string[],
): Promise<ReadonlyMap<string, FileState>> {
  const states = new Map<string, FileState>();
  for (const path of paths) {
    const { code } = await tryGit(repository, ['cat-file', '-e', `${base ?? 'HEAD'}:${path}`]);
    states.set(path, code === 0 ? 'unchanged' : 'missing');
  }
  return states;
}

/** Returns the paths that differ from the commit, in the index, the files, or because git does not know them yet. */
async function changedSince(tree: string, base: string): Promise<ReadonlySet<string>> {
  const words = ['--name-only', '--no-renames', '--no-ext-diff', '--no-textconv', '--ignore-submodules=none', '-z'];
  const [tracked, untracked] = await Promise.all([
    git(tree, ['diff', ...words, base, '--']),
    git(tree, ['ls-files', '--others', '--exclude-standard', '-z', '--', ':/']),
  ]);
  // A result has this text for a name that is not UTF-8.
  return new Set([...readNames(tracked), ...readNames(untracked)].map(readableName));
}

/** True for a file in a repository that is new in this one: git names only its folder. */
const isBelowNew = (path: string, changed: ReadonlySet<string>): boolean =>
  foldersOf(path).some((folder) => changed.has(`${folder}/`));

/** Returns the unchanged paths that are folders with a change in them. */
async function foldersWith(
  changed: ReadonlySet<string>,
  top: string,
  states: ReadonlyMap<string, FileState>,
): Promise<readonly string[]> {
  const folders = new Set<string>();
  for (const [path, state] of states) {
    if (state === 'unchanged' && (await lstat(join(top, path)).catch(() => undefined))?.isDirectory())
      folders.add(path);
  }
  const found = new Set<string>();
  let count = 0;
  for (const path of folders.size === 0 ? [] : changed) {
    if (++count % PATHS_PER_TURN === 0) await new Promise<void>(nextTurn);
    for (const folder of foldersOf(path)) if (folders.has(folder)) found.add(folder);
  }
  return [...found];
}

/** True for a file that has changed in a submodule: git names only the submodule. */
async function changedInSubmodule(
  top: string,
  base: string | null,
  path: string,
  changed: ReadonlySet<string>,
): Promise<boolean> {
  const folder = foldersOf(path).find((one) => changed.has(one));
  if (folder === undefined || base === null) return false;
  const { code, stdout } = await tryGit(top, ['rev-parse', '--verify', '--quiet', `${base}:${folder}`]);
  const inside = join(top, folder);
  // A submodule that is new has no commit to compare with: all of it is.
  if (code !== 0) return true;
  if (!(await isPresent(join(inside, '.git')))) return false;
  const within = path.slice(folder.length + 1);
  const there = await changedSince(inside, stdout.trim());
  return there.has(within) || isBelowNew(within, there) || changedInSubmodule(inside, stdout.trim(), within, there);
}

/** Returns the folders on the way to a path, the top one first. */
function foldersOf(path: string): readonly string[] {
  const names = path.split('/');
  return names.slice(1).map((_, index) => names.slice(0, index + 1).join('/'));
}

/** Files whose names one call of git takes. */
const NAMES_AT_ONCE = 100;

async function ignoredOf(tree: string, files: readonly string[]): Promise<readonly string[]> {
  const found: string[] = [];
  for (let from = 0; from < files.length; from += NAMES_AT_ONCE) {
    const some = files.slice(from, from + NAMES_AT_ONCE);
    const words = ['ls-files', '--others', '--ignored', '--exclude-standard', '-z', '--', ...some];
    const { code, stdout } = await tryGit(tree, ['--literal-pathspecs', ...words]);
    if (code === 0) found.push(...readNames(stdout));
  }
  const ignored = new Set(found);
  // For a folder, git names the files.
  return files.filter((file) => ignored.has(file) || found.some((one) => one.startsWith(`${file}/`)));
}

/** Returns the claims that are safe to pass to git: relative paths that stay inside, commit ids. */
function claimsOf({ artifacts }: Claiming): Claims {
  const { files_changed, files_outside, pr, base_commit, head_commit, worktree, worktree_removed } = artifacts ?? {};
  return {
    files: pathsIn(files_changed),
    outside: pathsIn(files_outside),
    pr: typeof pr === 'string' && /^https?:\/\//.test(pr) ? pr.slice(0, 300) : null,
    base: commitOf(base_commit),
    head: commitOf(head_commit),
    worktree: typeof worktree === 'string' ? worktree : null,
    removed: worktree_removed === true,
  };
}

/** Returns paths as git names them, without `./`. */
const pathsIn = (list: unknown): readonly string[] =>
  (Array.isArray(list) ? list : [])
    .filter(isInside)
    .slice(0, MAX_FILES)
    .map((path) => posix.normalize(path).replace(/(?<=.)\/$/, ''));

function isInside(path: unknown): path is string {
  return (
    typeof path === 'string' &&
    path !== '' &&
    !/^[/\\~:-]|^[A-Za-z]:|\0/.test(path) &&
    !path.split(/[/\\]/).includes('..')
  );
}

function commitOf(value: unknown): string | null {
  return typeof value === 'string' && /^[0-9a-f]{7,64}$/.test(value) ? value : null;
}
