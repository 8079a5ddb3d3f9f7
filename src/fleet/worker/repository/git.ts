/**
 * Git's report about the folder a worker works in: branch, commit, uncommitted files, and the changes of a task.
 *
 * Only asks, takes no locks an agent's own git would meet, and runs no hook or monitor of the repository.
 */
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  decodeNames,
  fileNamed,
  isLockHeld,
  readableName,
  readNames,
  readStatus,
  reasonOf,
} from '../../../base/git-output.ts';
import { type ProgramEnd, programEnvironment, runProgram } from '../../../base/program.ts';
import { sleep } from '../../../base/sleep.ts';
import { fail } from '../../../wire/errors.ts';

/** Longest time that one question may take, milliseconds. */
const GIT_MS = 10_000;
/** Paths that are compared, or reported, for one task. */
const MAX_PATHS = 5000;
/** Bytes of an answer; the rest is dropped. */
const MAX_OUTPUT = 8 * 1024 * 1024;
/** Delays before git is run again that met the lock of another git. */
const LOCK_MS = [50, 100, 200, 400, 800, 1600];

/** Reason why git cannot read a repository. */
export interface Unreadable {
  readonly reason: string;
  /** Git took too long: the next attempt may succeed. For all else a person is needed. */
  readonly timedOut: boolean;
}

/** A working tree as it is. */
export interface TreeState {
  /** null: no branch, a commit is checked out. */
  readonly branch: string | null;
  /** null: the repository has no commit yet. */
  readonly head: string | null;
  readonly clean: boolean;
  /** Paths from the top of the repository that differ from the commit, untracked files included, as `decodeNames` has them. */
  readonly dirty: readonly string[];
  /** A bare repository: it has no working tree, but git can make worktrees. */
  readonly bare?: true;
  /** Set: the rest of the state is unknown. */
  readonly unreadable?: Unreadable;
}

/** The state of a tree, with stamps that show later which of these paths were changed again. */
export interface TreeMark extends TreeState {
  /** Top of the working tree, absolute. */
  readonly top: string;
  /** Path from the top to the folder that was marked: empty, or a path that ends with `/`. */
  readonly prefix: string;
  readonly stamps: ReadonlyMap<string, string>;
}

/** Changes of a tree since it was marked. */
export interface TreeChanges {
  readonly branch: string | null;
  readonly base_commit: string | null;
  readonly head_commit: string | null;
  readonly clean: boolean;
  /** Paths from the folder that was marked, in order. */
  readonly files_changed: readonly string[];
  /** Changed elsewhere in the repository, from its top. */
  readonly files_outside?: readonly string[];
  /** True when more exist. */
  readonly truncated: boolean;
}

/** Questions of a worker about the folder it works in. Each method is the function of that name in this file. */
export interface RepositoryReader {
  treeState(cwd: string): Promise<TreeState | null>;
  markTree(cwd: string, known?: TreeState): Promise<TreeMark | null>;
  placeIn(cwd: string): Promise<Pick<TreeMark, 'top' | 'prefix'>>;
  changesSince(mark: TreeMark): Promise<TreeChanges>;
}

/**
 * Runs git in `cwd`. Rejects with `unreachable` when git is missing, `runtime_error` with git's reason when it fails (with
 * `detail.timed_out` where it took too long), or when it prints more than `wholeBytes`, where these are given: half of a list
 * would look like the whole.
 */
export async function git(
  cwd: string,
  args: readonly string[],
  timeoutMs = GIT_MS,
  wholeBytes?: number,
): Promise<string> {
  for (let tries = 0; ; tries += 1) {
    const end = await tryGit(cwd, args, timeoutMs, wholeBytes);
    if (end.truncated && wholeBytes !== undefined) {
      throw fail('runtime_error', `git ${args[0]} printed more than ${wholeBytes} bytes`);
    }
    if (end.code === 0) return end.stdout;
    const delay = isLockHeld(end.stderr) ? LOCK_MS[tries] : undefined;
    if (delay === undefined) throw gitFailure(args[0] as string, end, timeoutMs);
    await sleep(delay);
  }
}

function gitFailure(command: string, { code, stderr, timedOut }: ProgramEnd, timeoutMs: number) {
  const reason = timedOut ? `no answer within ${timeoutMs} ms` : reasonOf(stderr) || `exit code ${code}`;
  return fail('runtime_error', `git ${command} failed: ${reason}`, {
    exit_code: code,
    ...(timedOut && { timed_out: true }),
  });
}

/** Runs git in `cwd` to its end, also a failure. Rejects with `unreachable` when git is missing. */
export function tryGit(
  cwd: string,
  args: readonly string[],
  timeoutMs = GIT_MS,
  maxStdoutBytes = MAX_OUTPUT,
): Promise<ProgramEnd> {
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
    env: programEnvironment({
      LC_ALL: 'C',
      GIT_OPTIONAL_LOCKS: '0',
      GIT_TERMINAL_PROMPT: '0',
      // Names of files are names, also those with `*` or a `:` at their start.
      GIT_LITERAL_PATHSPECS: undefined,
      GIT_GLOB_PATHSPECS: undefined,
      GIT_NOGLOB_PATHSPECS: undefined,
      GIT_ICASE_PATHSPECS: undefined,
    }),
    timeoutMs,
    terminateMs: 1000,
    maxStdoutBytes,
    decode: decodeNames,
  });
}

/** Returns the tree `cwd` is in; null when it is in none, or the machine has no git. Rejects when git cannot tell. */
export async function treeState(cwd: string): Promise<TreeState | null> {
  let end: ProgramEnd;
  try {
    end = await tryGit(cwd, ['status', '--porcelain=v2', '--branch', '-z', '--untracked-files=all', '--no-renames']);
  } catch (thrown) {
    if ((thrown as { detail?: { reason?: unknown } }).detail?.reason === 'ENOENT') return null;
    throw thrown;
  }
  if (end.code === 0) {
    const { branch, head, entries } = readStatus(end.stdout);
    return {
      branch: branch && readableName(branch),
      head,
      clean: entries.length === 0,
      dirty: entries.map(({ path }) => path),
    };
  }
  if (/must be run in a work tree/.test(end.stderr)) return bareState(cwd);
  // About a `.git` file that leads nowhere, git names the folder that is not one: that is damage, and no folder without a
  // repository.
  if (/not a git repository \(or any/.test(end.stderr)) return null;
  throw gitFailure('status', end, GIT_MS);
}

/** Returns the state of a bare repository; null for the inside of another one. */
async function bareState(cwd: string): Promise<TreeState | null> {
  if ((await git(cwd, ['rev-parse', '--is-bare-repository'])).trim() !== 'true') return null;
  const [head, branch] = await Promise.all([
    tryGit(cwd, ['rev-parse', '--verify', '--quiet', 'HEAD^{commit}']),
    tryGit(cwd, ['symbolic-ref', '--quiet', '--short', 'HEAD']),
  ]);
  const said = ({ code, stdout }: ProgramEnd): string | null => (code === 0 ? readableName(stdout.trim()) : null);
  return { branch: said(branch), head: said(head), clean: true, dirty: [], bare: true };
}

/** Marks the tree before a task; null without a tree. `known` saves asking again. */
export async function markTree(cwd: string, known?: TreeState): Promise<TreeMark | null> {
  const state = known ?? (await treeState(cwd));
  if (state === null || state.bare) return null;
  const { top, prefix } = await placeIn(cwd);
  return { ...state, top, prefix, stamps: await stampsOf(top, state.dirty) };
}

/** Returns {@link placeIn}, or null in a bare repository. */
export async function placeUnlessBare(cwd: string): Promise<Awaited<ReturnType<typeof placeIn>> | null> {
  const inside = await git(cwd, ['rev-parse', '--is-inside-work-tree']);
  return inside.trim() === 'true' ? placeIn(cwd) : null;
}

/**
 * Returns the top of the working tree that `cwd` is in, its real path, and the way from there: empty, or a path that ends with
 * `/`.
 */
export async function placeIn(cwd: string): Promise<Pick<TreeMark, 'top' | 'prefix'>> {
  const lines = (await git(cwd, ['rev-parse', '--show-toplevel', '--show-prefix'])).split('\n');
  // The last is empty; a folder of the way up may have a line break in its name.
  const prefix = lines.at(-2) ?? '';
  return { top: lines.slice(0, -2).join('\n'), prefix };
}

/** Returns the changes since `mark`, committed or not. */
export async function changesSince(mark: TreeMark): Promise<TreeChanges> {
  const now = await treeState(mark.top);
  if (now === null) throw fail('runtime_error', 'the repository was removed');
  const changed = new Set<string>();
  if (now.head !== null && now.head !== mark.head) {
    const base = mark.head ?? (await emptyTree(mark.top));
    const names = await git(mark.top, ['diff', '--name-only', '--no-renames', '-z', base, now.head]);
    for (const path of readNames(names)) changed.add(path);
  }
  const stamps = await stampsOf(mark.top, now.dirty);
  for (const path of now.dirty) if (stamps.get(path) !== mark.stamps.get(path)) changed.add(path);
  // Dirty before and not any more: committed, or put back.
  const stillDirty = new Set(now.dirty);
  for (const path of mark.dirty) if (!stillDirty.has(path)) changed.add(path);
  const { prefix } = mark;
  const all = [...changed].sort().map(readableName);
  const files = all.filter((path) => path.startsWith(prefix)).map((path) => path.slice(prefix.length));
  const outside = all.filter((path) => !path.startsWith(prefix));
  return {
    branch: now.branch,
    base_commit: mark.head,
    head_commit: now.head,
    clean: now.clean,
    files_changed: files.slice(0, MAX_PATHS),
    ...(outside.length > 0 && { files_outside: outside.slice(0, MAX_PATHS) }),
    truncated: Math.max(files.length, outside.length) > MAX_PATHS,
  };
}

/** Returns the tree without a file, in the object format of the repository: the first commit is compared with it. */
async function emptyTree(cwd: string): Promise<string> {
  return (await git(cwd, ['hash-object', '-t', 'tree', '--stdin'])).trim();
}

/** Returns, for each path, a text that differs when the file was written since. */
export async function stampsOf(top: string, paths: readonly string[]): Promise<ReadonlyMap<string, string>> {
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
    const { mtimeNs, ctimeNs, size, mode } = await lstat(fileNamed(file), { bigint: true });
    return `${mtimeNs} ${ctimeNs} ${size} ${mode}`;
  } catch {
    return 'gone';
  }
}

/** Asks the git of this machine. */
export const gitRepository: RepositoryReader = { treeState, markTree, placeIn, changesSince };
