/**
 * Verifies what a worker reports as done: files it names exist and have changed since the attempt started, the
 * commit it names is there. Only where the repository is on this machine; the status is not touched by what is found.
 * @see docs/fleet.md#verification
 */
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { TaskResult } from '../../protocol/fleet.ts';
import { asError } from '../../wire/errors.ts';
import { git } from '../worker/repository/git.ts';

/** Files checked for one result. */
const MAX_FILES = 500;

export interface Verification {
  readonly verified: 'yes' | 'no' | 'not_checked';
  /** Plain sentences, what speaks against it first. */
  readonly reasons: readonly string[];
}

/** A result as far as it claims something. */
type Claiming = Pick<TaskResult, 'artifacts'>;

/** What a result claims that can be checked. */
interface Claims {
  readonly files: readonly string[];
  readonly pr: string | null;
  readonly base: string | null;
  readonly head: string | null;
  readonly worktree: string | null;
}

/** The commit a repository is at; null where there is none, or no repository. Never rejects. */
export async function headOf(repository: string): Promise<string | null> {
  try {
    return (await git(repository, ['rev-parse', '--verify', '--quiet', 'HEAD'])).trim();
  } catch {
    return null;
  }
}

/** Why a result cannot be verified; undefined: it can. */
export function whyNotChecked(result: Claiming, repository: string | undefined): string | undefined {
  const { files, pr, head } = claimsOf(result);
  if (files.length === 0 && pr === null && head === null) return 'the result names nothing that could be checked';
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
  const top = (await git(repository, ['rev-parse', '--show-toplevel'])).trimEnd();
  const tree = await treeOf(top, claims.worktree);
  if (claims.head !== null) {
    if (await hasCommit(top, claims.head)) found += claims.head === base ? 0 : 1;
    else against.push(`there is no commit ${claims.head}`);
  }
  if (claims.files.length > 0) {
    if (base === null || !(await hasCommit(top, base))) {
      open.push('the commit the work started from is unknown');
      for (const file of claims.files) if (!(await exists(join(tree, file)))) against.push(`${file} does not exist`);
    } else {
      const changed = await changedSince(tree, base);
      const ignored = await ignoredOf(
        tree,
        claims.files.filter((file) => !changed.has(file)),
      );
      for (const file of claims.files) {
        if (changed.has(file)) found += 1;
        else if (!(await exists(join(tree, file)))) against.push(`${file} does not exist`);
        else if (ignored.has(file)) open.push(`${file} is ignored by git`);
        else against.push(`${file} has not changed since ${base.slice(0, 12)}`);
      }
    }
  }
  if (claims.pr !== null) open.push(`not asked: whether ${claims.pr} exists`);
  const reasons = [...against, ...open];
  if (against.length > 0) return { verified: 'no', reasons };
  if (found === 0) return { verified: 'not_checked', reasons: reasons.length > 0 ? reasons : ['it names no change'] };
  return { verified: 'yes', reasons: [`${found} of the named changes found`, ...reasons] };
}

/** A worktree is believed to be one of this repository only when git says so. */
async function treeOf(top: string, claimed: string | null): Promise<string> {
  if (claimed === null || claimed === top) return top;
  const list = await git(top, ['worktree', 'list', '--porcelain', '-z']);
  return list.split('\0').includes(`worktree ${claimed}`) ? claimed : top;
}

async function hasCommit(top: string, commit: string): Promise<boolean> {
  try {
    await git(top, ['cat-file', '-e', `${commit}^{commit}`]);
    return true;
  } catch {
    return false;
  }
}

/** Paths that differ from the commit, in the index, the files, or because git does not know them yet. */
async function changedSince(tree: string, base: string): Promise<ReadonlySet<string>> {
  const [tracked, untracked] = await Promise.all([
    git(tree, ['diff', '--name-only', '--no-renames', '--no-ext-diff', '--no-textconv', '-z', base, '--']),
    git(tree, ['ls-files', '--others', '--exclude-standard', '-z', '--', ':/']),
  ]);
  return new Set([...tracked.split('\0'), ...untracked.split('\0')]);
}

async function ignoredOf(tree: string, files: readonly string[]): Promise<ReadonlySet<string>> {
  if (files.length === 0) return new Set();
  try {
    return new Set((await git(tree, ['check-ignore', '--', ...files])).split('\n'));
  } catch {
    // Exit code 1: none of them is.
    return new Set();
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}

/** Only what is safe to hand to git: relative paths that stay inside, commit ids. */
function claimsOf({ artifacts }: Claiming): Claims {
  const { files_changed, pr, base_commit, head_commit, worktree } = artifacts ?? {};
  const files = Array.isArray(files_changed) ? files_changed : [];
  return {
    files: files.filter(isInside).slice(0, MAX_FILES),
    pr: typeof pr === 'string' && /^https?:\/\//.test(pr) ? pr.slice(0, 300) : null,
    base: commitOf(base_commit),
    head: commitOf(head_commit),
    worktree: typeof worktree === 'string' ? worktree : null,
  };
}

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
