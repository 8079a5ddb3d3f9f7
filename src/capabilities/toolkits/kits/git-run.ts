/**
 * The work of the git tools: one git process for each call, in a folder of the workspace. Loaded on the first call.
 *
 * Code of a repository must not run: hooks, `core.fsmonitor`, external and textconv drivers, filters, signing, editors, pagers,
 * credential helpers, aliases and submodules are switched off, the configuration of the user and of the system is not read, and
 * values of a caller are never options. Repositories whose metadata is outside the workspace are refused.
 */
import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, normalize, relative } from 'node:path';
import { childEnvironment } from '../../../base/child-environment.ts';
import {
  decodeNames,
  fileNamed,
  LIST_IGNORED,
  LIST_WORKTREES,
  nameInLine,
  readableName,
  readNames,
  readStatus,
  readWorktrees,
  statusLines,
} from '../../../base/git-output.ts';
import { isInside, leadsOut } from '../../../base/is-inside.ts';
import { nextTurn } from '../../../base/next-turn.ts';
import { type ProgramEnd, runProgram } from '../../../base/program.ts';
import { fileFailure, outsideWorkspace, shown } from '../../../base/workspace/file-error.ts';
import type { PathGuard } from '../../../base/workspace/protected-paths.ts';
import { holdDirectory, locate } from '../../../base/workspace/workspace-path.ts';
import type { CallContext } from '../../../host/context.ts';
import { fail } from '../../../wire/errors.ts';
import { result, type ShapedResult } from '../../tools/tool.ts';

export type GitCommand = keyof typeof commands;

export interface GitOutput {
  readonly output: string;
  readonly truncated: boolean;
  readonly exit_code: number;
  /** Of `status`: the changed files, each with the path by which the other commands know it. */
  readonly files?: readonly ChangedFile[];
  readonly files_truncated?: boolean;
}

export interface ChangedFile {
  readonly path: string;
  readonly state: string;
  readonly from?: string;
}

type Args = Readonly<Record<string, unknown>>;

const MAX_OUTPUT = 256 * 1024;
/** Maximum bytes of the paths of a repository whose files are checked, and files checked in one turn of the event loop. */
const MAX_LISTED = 16 * 1024 * 1024;
const FILES_PER_TURN = 500;
/** Maximum number of files that a result lists beside the output of git, and of ignored ones that it names. */
const MAX_FILES = 1_000;
const MAX_NAMED = 50;
/** Maximum number of allowed folders of other users. */
const MAX_ALLOWED = 1_000;
const TIMEOUT_MS = 60_000;
const TERMINATE_MS = 1_000;

/** Configuration that takes precedence over that of the repository. */
const SAFE: Readonly<Record<string, string>> = {
  'safe.bareRepository': 'explicit',
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  // Unquoted names: a quoted one fits no file.
  'core.quotePath': 'false',
  'core.pager': 'cat',
  'core.editor': 'false',
  'core.sshCommand': 'ssh -o BatchMode=yes',
  'credential.helper': '',
  'commit.gpgSign': 'false',
  'tag.gpgSign': 'false',
  'log.showSignature': 'false',
  'gpg.program': 'false',
  'gpg.ssh.program': 'false',
  'diff.ignoreSubmodules': 'all',
  'submodule.recurse': 'false',
  'status.submoduleSummary': 'false',
  'push.recurseSubmodules': 'no',
  'push.gpgSign': 'false',
  'push.followTags': 'false',
  'push.pushOption': '',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  'blame.ignoreRevsFile': '',
  'interactive.diffFilter': '',
  'sequence.editor': 'false',
};

/** Keys of a repository's configuration that run programs and cannot be overridden by name: the repository chooses it. */
const RUNS = String.raw`^(filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv)|merge\..*\.driver|includeif\..*|include\.path|trailer\..*\.(command|cmd)|remote\..*\.(uploadpack|receivepack|vcs)|url\..*|credential\..*\.helper|core\.worktree|extensions\.worktreeconfig|gpg\..*\.program)$`;

/** Keys by which a push reads or writes host files or passes tickets on; also below an address, which beats a default. */
const USES_FILES = String.raw`^http\.(.*\.)?(cookiefile|savecookies|sslkey|sslcert|proxysslkey|proxysslcert|delegation)$`;

/** Drivers that attributes of files name. */
const NO_DRIVERS = ['--no-ext-diff', '--no-textconv', '--no-color'] as const;

interface Call {
  readonly words: readonly string[];
}

/** Paths that a command needs beside its arguments. */
interface Places {
  /** The path from the top of the working tree to the folder of the call: empty, or a path that ends with `/`. */
  readonly prefix: string;
  /** The folder of a worktree, absolute. */
  readonly target?: string;
}

const optional = (value: unknown): string[] => (value === undefined ? [] : [revisionOf(value)]);
const behind = (paths: unknown, { prefix }: Places): string[] => [
  '--',
  ...((paths as string[] | undefined) ?? []).map((path) => pathOf(path, prefix)),
];
/** Wide enough for every name: git shortens names that do not fit. */
const STAT = ['--stat=9000', '--stat-graph-width=40', '--no-renames'];

/** Builds the words of each command. Paths follow `--`; revisions follow `--end-of-options`. */
const commands = {
  status: () => ({
    words: [
      'status',
      '--porcelain=v2',
      '--branch',
      '-z',
      '--ignore-submodules=all',
      '--untracked-files=normal',
      '--find-renames',
    ],
  }),
  diff: ({ staged, from, to, paths, stat }: Args, places: Places) => ({
    words: [
      'diff',
      ...NO_DRIVERS,
      '--ignore-submodules=all',
      ...(staged === true ? ['--cached'] : []),
      ...(stat === true ? STAT : []),
      '--end-of-options',
      ...optional(from),
      ...optional(to),
      ...behind(paths, places),
    ],
  }),
  log: ({ revision, limit, paths }: Args, places: Places) => ({
    words: [
      'log',
      ...NO_DRIVERS,
      `--max-count=${Number(limit)}`,
      '--date=iso-strict',
      '--format=%H%x09%an%x09%ad%x09%s',
      '--end-of-options',
      ...optional(revision),
      ...behind(paths, places),
    ],
  }),
  show: ({ revision }: Args) => ({
    words: [
      'show',
      ...NO_DRIVERS,
      '--no-show-signature',
      '--date=iso-strict',
      '--end-of-options',
      revisionOf(revision),
      '--',
    ],
  }),
  blame: ({ path, revision, from_line, to_line }: Args, { prefix }: Places) => ({
    words: [
      'blame',
      '--no-textconv',
      '--date=iso-strict',
      ...(from_line === undefined && to_line === undefined ? [] : ['-L', `${from_line ?? 1},${to_line ?? ''}`]),
      ...optional(revision),
      '--',
      pathOf(path, prefix),
    ],
  }),
  branches: () => ({
    words: ['for-each-ref', '--format=%(HEAD)%09%(refname:short)%09%(objectname:short)%09%(subject)', 'refs/heads'],
  }),
  branch: ({ name, from, checkout }: Args) => ({
    words:
      checkout === false
        ? ['branch', '--no-track', '--end-of-options', branchOf(name), ...optional(from)]
        : ['switch', '--no-track', '--no-recurse-submodules', '--create', branchOf(name), ...optional(from)],
  }),
  commit: ({ message, paths }: Args, places: Places) => ({
    words: [
      'commit',
      '--no-verify',
      '--no-gpg-sign',
      '--no-edit',
      '--cleanup=whitespace',
      ...((paths as string[]).length === 0 ? ['--all'] : []),
      `--message=${String(message)}`,
      ...behind(paths, places),
    ],
  }),
  worktree_add: ({ branch, from }: Args, { target }: Places) => ({
    words: [
      'worktree',
      'add',
      '--no-track',
      '-b',
      branchOf(branch),
      '--end-of-options',
      String(target),
      ...optional(from),
    ],
  }),
  worktree_list: () => ({ words: LIST_WORKTREES }),
  worktree_remove: (_: Args, { target }: Places) => ({
    words: ['worktree', 'remove', '--end-of-options', String(target)],
  }),
  push: ({ remote, branch }: Args) => ({
    words: [
      'push',
      '--porcelain',
      '--no-verify',
      '--no-signed',
      '--recurse-submodules=no',
      '--end-of-options',
      remoteOf(remote),
      `refs/heads/${branchOf(branch)}:refs/heads/${branchOf(branch)}`,
    ],
  }),
} satisfies Record<string, (args: Args, places: Places) => Call>;

/**
 * Runs one command. Fails with `tool_denied` (`outside_workspace`, `option`, `repository_runs_code`, …), with `tool_error`
 * (`not_a_repository`, `git_failed` with the output of git), or `timeout`.
 */
export async function runGit(command: GitCommand, given: Args, context: CallContext): Promise<ShapedResult<GitOutput>> {
  const { directory, path: folder } = await holdDirectory(context.workspace, String(given.repository ?? '.'), {
    guard: context.pathGuard,
  });
  const release = await context.acquireProcess(context.signal);
  try {
    const cwd = directory.realPath;
    let allowed: readonly string[] = [];
    const run: Run = (words, options = {}) => start(words, cwd, context, { ...options, allowed });
    const prefix = await mustBeWithin(run, context, async () => {
      allowed = await allowedFolders();
    });
    const args = await withPaths(command, given, { cwd, folder, prefix }, context);
    await mustNotRunCode(run);
    for (const path of command === 'blame' ? [args.path] : ((args.paths as string[] | undefined) ?? []))
      mustBeNamed(path, cwd);
    const target =
      typeof args.path === 'string' && command.startsWith('worktree') ? await placeOf(args.path, context) : undefined;
    const places: Places = { prefix, ...(target !== undefined && { target }) };
    if (command === 'commit' && (args.paths as string[]).length > 0) {
      // Git knows a missing file already, or has nothing to commit of it.
      const present = (args.paths as string[]).filter((path) => isPresent(join(cwd, pathOf(path, prefix))));
      const added = await run(['add', '--intent-to-add', ...behind(present, places)]);
      if (added.code !== 0) throw gitFailed(added, context);
    }
    const make = commands[command] as (args: Args, places: Places) => Call;
    const { words } = make(args, places);
    if (command === 'push') await mustNotHave(run, USES_FILES, 'uses files of the host', 'repository_uses_files');
    const protocol = command === 'push' ? await protocolOf(run, args) : '';
    const ignored = command === 'worktree_remove' ? await ignoredIn(run, target as string) : [];
    let end = await run(words, { protocol });
    if (command === 'worktree_list' && end.code !== 0) end = await run(LIST_WORKTREES.slice(0, -1));
    context.signal.throwIfAborted();
    if (end.timedOut) throw fail('timeout', `git did not end within ${TIMEOUT_MS / 1000} s`, { reason: 'time_limit' });
    if (end.code !== 0) throw gitFailed(end, context);
    const printed = printedBy(command, end, prefix, context, ignored);
    return result(printed, { summary: summaryOf(command, printed), truncated: end.truncated });
  } finally {
    release();
    await directory.close();
  }
}

interface RunOptions {
  /** The allowed protocol; without it, git reaches no other machine. */
  readonly protocol?: string;
  /** Bytes of output. Default 256 KiB. */
  readonly maxOutput?: number;
  /** Folders of other users that may be read. */
  readonly allowed?: readonly string[];
}

/** Runs git. */
type Run = (words: readonly string[], options?: RunOptions) => Promise<ProgramEnd>;

function start(
  words: readonly string[],
  cwd: string,
  context: CallContext,
  { protocol = '', maxOutput = MAX_OUTPUT, allowed = [] }: RunOptions,
): Promise<ProgramEnd> {
  const settings = [...Object.entries(SAFE), ...allowed.map((folder) => ['safe.directory', folder] as const)];
  const author = context.session.agentId.replaceAll(/[^\w .@-]/g, '') || 'agent';
  const env: Record<string, string> = {
    ...childEnvironment({}, process.env),
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_SYSTEM: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: 'false',
    SSH_ASKPASS: 'false',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_NO_LAZY_FETCH: '1',
    GIT_ALLOW_PROTOCOL: protocol,
    GIT_PAGER: 'cat',
    GIT_EDITOR: 'false',
    GIT_CEILING_DIRECTORIES: join(context.workspace, '..'),
    GIT_AUTHOR_NAME: author,
    GIT_AUTHOR_EMAIL: 'agent@handfast.invalid',
    GIT_COMMITTER_NAME: author,
    GIT_COMMITTER_EMAIL: 'agent@handfast.invalid',
    LC_ALL: 'C.UTF-8',
    GIT_CONFIG_COUNT: String(settings.length),
  };
  for (const [at, [key, value]] of settings.entries()) {
    env[`GIT_CONFIG_KEY_${at}`] = key;
    env[`GIT_CONFIG_VALUE_${at}`] = value;
  }
  return runProgram({
    argv: ['git', '--no-pager', '--literal-pathspecs', ...words],
    cwd,
    env,
    signal: context.signal,
    timeoutMs: TIMEOUT_MS,
    terminateMs: TERMINATE_MS,
    maxStdoutBytes: maxOutput,
    decode: decodeNames,
  });
}

/** Returns the result of a command: the output of git, with unquoted names. */
function printedBy(
  command: GitCommand,
  { stdout: printed, stderr, truncated }: ProgramEnd,
  prefix: string,
  { workspace }: CallContext,
  ignored: readonly string[],
): GitOutput {
  const stdout = readableName(printed);
  const rest = { truncated, exit_code: 0 };
  if (command === 'status') {
    const read = readStatus(stdout);
    const fromHere = (path: string): string => (prefix === '' ? path : fromFolder(prefix, path));
    const entries = read.entries.map((entry) => ({
      ...entry,
      path: fromHere(entry.path),
      ...(entry.from !== undefined && { from: fromHere(entry.from) }),
    }));
    const files = entries
      .slice(0, MAX_FILES)
      .map(({ path, state, from }): ChangedFile => ({ path, state, ...(from !== undefined && { from }) }));
    return { output: statusLines({ ...read, entries }), ...rest, files, files_truncated: entries.length > MAX_FILES };
  }
  if (command === 'worktree_list') return { output: worktreeLines(stdout, realpathSync(workspace)), ...rest };
  if (ignored.length > 0) {
    const names = ignored.slice(0, MAX_NAMED).map(nameInLine).join('\n');
    const more = ignored.length > MAX_NAMED ? `\nand ${ignored.length - MAX_NAMED} more` : '';
    return { output: `Removed with it, because git ignores them:\n${names}${more}\n`, ...rest };
  }
  return { output: stdout || stderr, ...rest };
}

/** Converts a path from the top of the repository to one from the folder `prefix` in it. A folder retains its `/`. */
const fromFolder = (prefix: string, path: string): string =>
  path.startsWith(prefix)
    ? path.slice(prefix.length) || './'
    : relative(prefix, path) + (path.endsWith('/') ? '/' : '');

/** Returns the list of worktrees, with their folders as the other tools name them: relative to the workspace. */
function worktreeLines(output: string, root: string): string {
  const named = ({ path }: { readonly path: string }): string => {
    return isInside(root, path) ? nameInLine(relative(root, path) || '.') : '(outside the workspace)';
  };
  return readWorktrees(output)
    .map((entry) => {
      const { head, branch, bare, locked } = entry;
      const at = bare ? 'bare' : branch === null ? 'detached' : `branch refs/heads/${branch}`;
      return [
        `worktree ${named(entry)}`,
        ...(head === null ? [] : [`HEAD ${head}`]),
        at,
        ...(locked === undefined ? [] : [`locked ${nameInLine(locked)}`.trimEnd()]),
        '',
      ].join('\n');
    })
    .join('\n');
}

/** Returns the ignored files in a worktree, which would be deleted with it. */
async function ignoredIn(run: Run, target: string): Promise<readonly string[]> {
  const { code, stdout } = await run(['-C', target, ...LIST_IGNORED]);
  return code === 0 ? readNames(readableName(stdout)) : [];
}

const isPresent = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

/**
 * Checks that the working tree and the metadata of the repository are in the workspace, and that no protected path is in it.
 * Returns the path from the top of the working tree to the folder of the call.
 */
async function mustBeWithin(run: Run, context: CallContext, allowOthers: () => Promise<void>): Promise<string> {
  const { workspace, pathGuard } = context;
  const words = ['--show-toplevel', '--absolute-git-dir', '--git-common-dir', '--show-prefix'];
  const ask = (): Promise<ProgramEnd> => run(['rev-parse', '--path-format=absolute', ...words]);
  let found = await ask();
  if (OTHER_OWNER.test(found.stderr)) {
    await allowOthers();
    found = await ask();
  }
  if (found.code !== 0) throw noRepository(found, context);
  const [tree = '', own = '', common = '', prefix = ''] = found.stdout.split('\n');
  const root = realpathSync(workspace);
  for (const place of [tree, own, common, join(common, 'objects')]) {
    if (!isInside(root, realpathSync(place))) throw outsideWorkspace('.git');
  }
  // Objects of another repository, at any place.
  if (existsSync(join(common, 'objects', 'info', 'alternates'))) throw outsideWorkspace('.git/objects/info/alternates');
  pathGuard?.refresh();
  const top = realpathSync(tree);
  if (pathGuard?.present().some(({ path }) => path.startsWith(`${top}/`))) {
    throw holdsProtected();
  }
  if (pathGuard !== undefined) await mustHoldNoOtherName(run, top, pathGuard);
  return prefix;
}

const OTHER_OWNER = /dubious ownership/;

/** Returns the folders of other users that this user or the system allows git to read: `safe.directory`, and no other key. */
async function allowedFolders(): Promise<readonly string[]> {
  const { GIT_CONFIG_GLOBAL, GIT_CONFIG_SYSTEM } = process.env;
  const own = { ...(GIT_CONFIG_GLOBAL && { GIT_CONFIG_GLOBAL }), ...(GIT_CONFIG_SYSTEM && { GIT_CONFIG_SYSTEM }) };
  const env = { ...childEnvironment({}, process.env), ...own };
  const folders: string[] = [];
  for (const scope of ['--system', '--global']) {
    const { code, stdout } = await runProgram({
      argv: ['git', 'config', scope, '--null', '--type=path', '--get-all', 'safe.directory'],
      env,
      timeoutMs: TIMEOUT_MS,
      terminateMs: TERMINATE_MS,
    });
    if (code === 0) folders.push(...stdout.split('\0').slice(0, -1));
  }
  return folders.slice(0, MAX_ALLOWED);
}

/** Returns the reason why git found no repository to work in. */
function noRepository(found: ProgramEnd, context: CallContext) {
  const { stderr } = found;
  if (/not a git repository \(or any/.test(stderr)) {
    return fail('tool_error', 'there is no git repository here', { reason: 'not_a_repository' });
  }
  if (OTHER_OWNER.test(stderr)) {
    const remedy = 'the user of the host can allow it, in its folder: git config --global --add safe.directory "$PWD"';
    return fail('tool_error', `this repository belongs to another user; ${remedy}`, { reason: 'other_owner' });
  }
  if (/must be run in a work tree|cannot use bare repository/.test(stderr)) {
    return fail('tool_error', 'this is a bare repository: it has no files to work on', { reason: 'bare_repository' });
  }
  return gitFailed(found, context);
}

const holdsProtected = () =>
  fail('tool_denied', 'this repository has protected paths in it', { reason: 'protected_path' });

/** Checks that no file that git would read is a protected one under another name: a hard link, which a path does not show. */
async function mustHoldNoOtherName(run: Run, top: string, guard: PathGuard): Promise<void> {
  const words = ['-C', top, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const { stdout, truncated } = await run(words, { maxOutput: MAX_LISTED });
  if (truncated) throw fail('tool_denied', 'this repository has too many files to be checked', { reason: 'too_large' });
  for (const [at, name] of stdout.split('\0').entries()) {
    if (at % FILES_PER_TURN === FILES_PER_TURN - 1) await new Promise<void>(nextTurn);
    const stats = lstatSync(fileNamed(join(top, name)), { throwIfNoEntry: false });
    if (stats?.isFile() && stats.nlink > 1 && guard.opened(stats) === 'all') throw holdsProtected();
  }
}

/** Refuses a repository whose configuration runs programs under names that it chooses: no list of overrides covers them. */
const mustNotRunCode = (run: Run): Promise<void> => mustNotHave(run, RUNS, 'runs programs', 'repository_runs_code');

async function mustNotHave(run: Run, keys: string, does: string, reason: string): Promise<void> {
  const { stdout } = await run(['config', '--local', '--name-only', '--get-regexp', keys]);
  const [key] = stdout.trim().split('\n');
  if (!key) return;
  throw fail('tool_denied', `the configuration of this repository ${does}: ${shown(key)}`, { reason, key: shown(key) });
}

/** Returns the new folder of a worktree, or that of one to remove, as an absolute path in the workspace. */
async function placeOf(path: string, { workspace, pathGuard: guard }: CallContext): Promise<string> {
  await using place = await locate(workspace, path, { guard, access: 'change' });
  if (place.name === '.') throw fileFailure('is_the_directory', path, 'must be named by its own name');
  return join(place.parent.realPath, place.name);
}

/** Returns the protocol of a remote. Refuses all except https, http and ssh: the others run programs, or write into folders. */
async function protocolOf(run: Run, { remote }: Args): Promise<string> {
  const { stdout, code } = await run(['remote', 'get-url', '--push', remoteOf(remote)]);
  const address = stdout.trim();
  if (code !== 0 || address === '')
    throw fail('tool_error', 'the repository has no such remote', { reason: 'no_remote' });
  if (/^[\w.-]+@[\w.-]+:/.test(address)) return 'ssh';
  const [, protocol] = /^(https?|ssh):\/\//.exec(address) ?? [];
  if (protocol !== undefined) return protocol;
  throw fail('tool_denied', 'only https and ssh remotes are pushed to', { reason: 'scheme' });
}

function gitFailed({ code, stderr, stdout }: ProgramEnd, { workspace }: CallContext) {
  // Callers must not see paths of the host.
  const text = (stderr || readableName(stdout)).trim().replaceAll(`${workspace}/`, '').replaceAll(workspace, '.');
  return fail('tool_error', `git failed: ${text.slice(0, 1_000) || `exit code ${code}`}`, {
    reason: 'git_failed',
    exit_code: code,
  });
}

function summaryOf(command: string, { output }: GitOutput): string {
  const lines = output === '' ? 0 : output.trimEnd().split('\n').length;
  return `git ${command.replace('_', ' ')}: ${lines === 1 ? '1 line' : `${lines} lines`}`;
}

function plain(value: unknown, what: string, remedy = ''): string {
  const word = String(value);
  if (/[\0\n]/.test(word)) throw fail('tool_denied', `${what} must not have a line break`, { reason: 'line_break' });
  if (!word.startsWith('-')) return word;
  throw fail('tool_denied', `${what} must not begin with "-"${remedy}`, { reason: 'option' });
}

/** Refuses a name that is not UTF-8 and is shown with `\xe9` for a byte. Git would find no file for that text. */
function mustBeNamed(path: unknown, cwd: string): void {
  const name = String(path);
  if (!/\uFFFD|\\x[89a-f][\da-f]/.test(name) || isPresent(join(cwd, name))) return;
  throw fileFailure('not_utf8', name, 'has a name that is no UTF-8 text: rename it, or leave paths out');
}

const revisionOf = (value: unknown): string => plain(value, 'a revision');

const NAMED_BEHIND = '; put "./" before the name of a file that does';

/** Returns the paths of a call as git has them: from its folder, without links, except the last name, which git tracks. */
async function withPaths(
  command: GitCommand,
  args: Args,
  { cwd, folder, prefix }: { readonly cwd: string; readonly folder: string; readonly prefix: string },
  { workspace, pathGuard: guard }: CallContext,
): Promise<Args> {
  const asGitKnows = async (value: unknown): Promise<unknown> => {
    const path = plain(value, 'a path', NAMED_BEHIND);
    if (path === '' || path === '.') return path;
    const place = isAbsolute(path) ? path : join(folder, pathOf(path, prefix));
    try {
      const { directory } = await holdDirectory(workspace, dirname(place), { guard });
      await directory.close();
      const known = relative(cwd, join(directory.realPath, basename(place))) || '.';
      return known.startsWith('-') ? `./${known}` : known;
    } catch (error) {
      // Git may know a folder that was removed.
      if (isAbsolute(path)) throw error;
      return path;
    }
  };
  const { path, paths } = args;
  return {
    ...args,
    ...(command === 'blame' && { path: await asGitKnows(path) }),
    ...(Array.isArray(paths) && { paths: await Promise.all(paths.map(asGitKnows)) }),
  };
}

/**
 * Returns a path from the folder of the call, in the repository: of two others, `git diff` would compare the files of the host.
 * `prefix` leads from the top to that folder.
 */
function pathOf(value: unknown, prefix: string): string {
  const path = plain(value, 'a path', NAMED_BEHIND);
  const place = normalize(join(prefix, path));
  if (isAbsolute(path) || leadsOut(place)) throw outsideWorkspace(path);
  return path === '' ? '.' : path;
}

function branchOf(value: unknown): string {
  const name = plain(value, 'a branch');
  if (/^[\w][\w./+@-]*$/.test(name) && !/\.\.|@\{|\/\/|\.lock$|\/$/.test(name)) return name;
  throw fail('tool_denied', 'a branch has letters, digits, "_", "-", ".", "/", "+" and "@"', { reason: 'bad_name' });
}

function remoteOf(value: unknown): string {
  const name = plain(value, 'a remote');
  if (/^[\w][\w.-]*$/.test(name)) return name;
  throw fail('tool_denied', 'a remote is the name of one that the repository has, never an address', {
    reason: 'bad_name',
  });
}
