/**
 * What git reports about the folder a worker works in: branch, commit, what is not committed, and what a task changed.
 *
 * Called by `facts.ts`, `task-run.ts`, `worktrees.ts` and `recovery.ts`. Only asks, takes no locks an agent's own git
 * would meet, and runs no hook or monitor of the repository.
 */
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { type ProgramEnd, programEnvironment, runProgram } from '../../../base/program.ts';
import { fail } from '../../../wire/errors.ts';

/** How long one question may take. */
const GIT_MS = 10_000;
/** Paths that are compared, or reported, for one task. */
const MAX_PATHS = 5000;
/** The tree without a file: what the first commit differs from. */
const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';

/** A working tree as it is. */
export interface TreeState {
  /** null: no branch, a commit is checked out. */
  readonly branch: string | null;
  /** null: there is no commit yet. */
  readonly head: string | null;
  readonly clean: boolean;
  /** Paths from the top of the repository that differ from the commit, untracked files included. */
  readonly dirty: readonly string[];
}

/** The same, with what shows later which of these paths were changed again. */
export interface TreeMark extends TreeState {
  /** Top of the working tree, absolute. */
  readonly top: string;
  readonly stamps: ReadonlyMap<string, string>;
}

/** What became of a tree since it was marked. */
export interface TreeChanges {
  readonly branch: string | null;
  readonly base_commit: string | null;
  readonly head_commit: string | null;
  readonly clean: boolean;
  /** From the top of the repository, in order. */
  readonly files_changed: readonly string[];
  /** True when there were more. */
  readonly truncated: boolean;
}

/** What a worker asks about the folder it works in. Each method is the function of that name in this file. */
export interface RepositoryReader {
  treeState(cwd: string): Promise<TreeState | null>;
  markTree(cwd: string, known?: TreeState): Promise<TreeMark | null>;
  changesSince(mark: TreeMark): Promise<TreeChanges>;
}

/** Runs git in `cwd`. Rejects with `unreachable` when there is no git, `runtime_error` when it fails. */
export async function git(cwd: string, args: readonly string[], timeoutMs = GIT_MS): Promise<string> {
  const { code, stdout, stderr, timedOut } = await tryGit(cwd, args, timeoutMs);
  if (code === 0) return stdout;
  const said = timedOut ? `no answer within ${timeoutMs} ms` : (stderr.trim().split('\n').at(-1) ?? '');
  throw fail('runtime_error', `git ${args[0]} failed: ${said.slice(0, 280)}`, { exit_code: code });
}

function tryGit(cwd: string, args: readonly string[], timeoutMs = GIT_MS): Promise<ProgramEnd> {
  return runProgram({
    argv: [
      'git',
      '-c',
      'core.fsmonitor=false',
      '-c',
      'core.hooksPath=/dev/null',
      '-c',
      'core.quotePath=false',
      ...args,
    ],
    cwd,
    // A worker may be started from within a hook or a rebase: that repository is not meant.
    env: programEnvironment({
      LC_ALL: 'C',
      GIT_OPTIONAL_LOCKS: '0',
      GIT_TERMINAL_PROMPT: '0',
      GIT_DIR: undefined,
      GIT_WORK_TREE: undefined,
      GIT_INDEX_FILE: undefined,
      GIT_PREFIX: undefined,
    }),
    timeoutMs,
    terminateMs: 1000,
  });
}

/** The tree `cwd` is in; null when it is in none, or there is no git. Rejects when git cannot tell. */
export async function treeState(cwd: string): Promise<TreeState | null> {
  let end: ProgramEnd;
  try {
    end = await tryGit(cwd, ['status', '--porcelain=v2', '--branch', '-z', '--untracked-files=all', '--no-renames']);
  } catch (thrown) {
    if ((thrown as { detail?: { reason?: unknown } }).detail?.reason === 'ENOENT') return null;
    throw thrown;
  }
  if (end.code === 0) return parseStatus(end.stdout);
  if (/not a git repository|must be run in a work tree/.test(end.stderr)) return null;
  throw fail('runtime_error', `git status failed: ${end.stderr.trim().slice(0, 280)}`, { exit_code: end.code });
}

function parseStatus(text: string): TreeState {
  let branch: string | null = null;
  let head: string | null = null;
  const dirty: string[] = [];
  for (const entry of text.split('\0')) {
    if (entry.startsWith('# branch.oid ')) head = entry.slice(13) === '(initial)' ? null : entry.slice(13);
    else if (entry.startsWith('# branch.head ')) branch = entry.slice(14) === '(detached)' ? null : entry.slice(14);
    else if (entry.startsWith('? ')) dirty.push(entry.slice(2));
    // `1 XY sub mH mI mW hH hI path` and `u XY sub m1 m2 m3 mW h1 h2 h3 path`
    else if (entry.startsWith('1 ')) dirty.push(afterFields(entry, 8));
    else if (entry.startsWith('u ')) dirty.push(afterFields(entry, 10));
  }
  return { branch, head, clean: dirty.length === 0, dirty };
}

function afterFields(entry: string, count: number): string {
  let at = -1;
  for (let field = 0; field < count; field += 1) at = entry.indexOf(' ', at + 1);
  return entry.slice(at + 1);
}

/** Marks the tree before a task; null where there is none. `known` saves asking again. */
export async function markTree(cwd: string, known?: TreeState): Promise<TreeMark | null> {
  const state = known ?? (await treeState(cwd));
  if (state === null) return null;
  const top = (await git(cwd, ['rev-parse', '--show-toplevel'])).trimEnd();
  return { ...state, top, stamps: await stampsOf(top, state.dirty) };
}

/** What has changed since `mark`, whether committed or not. */
export async function changesSince(mark: TreeMark): Promise<TreeChanges> {
  const now = await treeState(mark.top);
  if (now === null) throw fail('runtime_error', 'the repository was removed');
  const changed = new Set<string>();
  if (now.head !== null && now.head !== mark.head) {
    const names = await git(mark.top, ['diff', '--name-only', '--no-renames', '-z', mark.head ?? EMPTY_TREE, now.head]);
    for (const path of names.split('\0')) if (path !== '') changed.add(path);
  }
  const stamps = await stampsOf(mark.top, now.dirty);
  for (const path of now.dirty) if (stamps.get(path) !== mark.stamps.get(path)) changed.add(path);
  // Dirty before and not any more: committed, or put back.
  const stillDirty = new Set(now.dirty);
  for (const path of mark.dirty) if (!stillDirty.has(path)) changed.add(path);
  const files = [...changed].sort();
  return {
    branch: now.branch,
    base_commit: mark.head,
    head_commit: now.head,
    clean: now.clean,
    files_changed: files.slice(0, MAX_PATHS),
    truncated: files.length > MAX_PATHS,
  };
}

/** Path → text that differs when the file was written since. */
async function stampsOf(top: string, paths: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const stamps = new Map<string, string>();
  for (let from = 0; from < Math.min(paths.length, MAX_PATHS); from += 64) {
    const some = paths.slice(from, from + 64);
    const found = await Promise.all(some.map((path) => stampOf(join(top, path))));
    for (const [index, path] of some.entries()) stamps.set(path, found[index] as string);
  }
  return stamps;
}

async function stampOf(file: string): Promise<string> {
  try {
    const { mtimeNs, ctimeNs, size, mode } = await lstat(file, { bigint: true });
    return `${mtimeNs} ${ctimeNs} ${size} ${mode}`;
  } catch {
    return 'gone';
  }
}

/** Asks the git of this machine. */
export const gitRepository: RepositoryReader = { treeState, markTree, changesSince };
