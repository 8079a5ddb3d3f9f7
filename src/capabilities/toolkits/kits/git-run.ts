/**
 * The work of the git tools: one git process for each call, in a folder of the workspace. Loaded on the first call by `git.ts`.
 *
 * What is in a repository must not run: hooks, `core.fsmonitor`, external and textconv drivers, filters, signing, editors, pagers,
 * credential helpers, aliases and submodules are switched off, the configuration of the user and of the system is not read, and
 * values of a caller are never options. Repositories whose metadata is outside the workspace are refused.
 */
import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, normalize, relative, sep } from 'node:path';
import { childEnvironment } from '../../../base/child-environment.ts';
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
}

type Args = Readonly<Record<string, unknown>>;

const MAX_OUTPUT = 256 * 1024;
/** Bytes of the paths of a repository whose files are checked, and how many are checked in one turn of the event loop. */
const MAX_LISTED = 16 * 1024 * 1024;
const FILES_PER_TURN = 500;
const TIMEOUT_MS = 60_000;
const TERMINATE_MS = 1_000;

/** Configuration that takes precedence over that of the repository. */
const SAFE: Readonly<Record<string, string>> = {
  'safe.bareRepository': 'explicit',
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
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

/** Keys of a repository's configuration that run programs and cannot be overridden by name, because the name is the repository's. */
const RUNS = String.raw`^(filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv)|merge\..*\.driver|includeif\..*|include\.path|trailer\..*\.(command|cmd)|remote\..*\.(uploadpack|receivepack|vcs)|url\..*|credential\..*\.helper|core\.worktree|extensions\.worktreeconfig|gpg\..*\.program)$`;

/** Keys by which a push reads or writes files of the host, or hands its tickets on; also below an address, which is more than a default. */
const USES_FILES = String.raw`^http\.(.*\.)?(cookiefile|savecookies|sslkey|sslcert|proxysslkey|proxysslcert|delegation)$`;

/** Drivers that attributes of files name. */
const NO_DRIVERS = ['--no-ext-diff', '--no-textconv', '--no-color'] as const;

interface Call {
  readonly words: readonly string[];
}

const optional = (value: unknown): string[] => (value === undefined ? [] : [revisionOf(value)]);
const behind = (paths: unknown): string[] => ['--', ...((paths as string[] | undefined) ?? []).map(pathOf)];

/** The words of each command. Paths follow `--`; revisions follow `--end-of-options`. */
const commands = {
  status: () => ({ words: ['status', '--porcelain=v2', '--branch', '--ignore-submodules=all', '--no-renames'] }),
  diff: ({ staged, from, to, paths, stat }: Args) => ({
    words: [
      'diff',
      ...NO_DRIVERS,
      '--ignore-submodules=all',
      ...(staged === true ? ['--cached'] : []),
      ...(stat === true ? ['--stat'] : []),
      '--end-of-options',
      ...optional(from),
      ...optional(to),
      ...behind(paths),
    ],
  }),
  log: ({ revision, limit, paths }: Args) => ({
    words: [
      'log',
      ...NO_DRIVERS,
      `--max-count=${Number(limit)}`,
      '--date=iso-strict',
      '--format=%H%x09%an%x09%ad%x09%s',
      '--end-of-options',
      ...optional(revision),
      ...behind(paths),
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
  blame: ({ path, revision, from_line, to_line }: Args) => ({
    words: [
      'blame',
      '--no-textconv',
      '--date=iso-strict',
      ...(from_line === undefined && to_line === undefined ? [] : ['-L', `${from_line ?? 1},${to_line ?? ''}`]),
      ...optional(revision),
      '--',
      pathOf(path),
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
  commit: ({ message, paths }: Args) => ({
    words: [
      'commit',
      '--no-verify',
      '--no-gpg-sign',
      '--no-edit',
      '--cleanup=whitespace',
      ...((paths as string[]).length === 0 ? ['--all'] : []),
      `--message=${String(message)}`,
      ...behind(paths),
    ],
  }),
  worktree_add: ({ branch, from }: Args, { target }: { readonly target?: string }) => ({
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
  worktree_list: () => ({ words: ['worktree', 'list', '--porcelain'] }),
  worktree_remove: (_: Args, { target }: { readonly target?: string }) => ({
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
} satisfies Record<string, (args: Args, places: { readonly target?: string }) => Call>;

/**
 * Runs one command. Fails with `tool_denied` (`outside_workspace`, `option`, `repository_runs_code`, …), with `tool_error`
 * (`not_a_repository`, `git_failed` with the words of git), or `timeout`.
 */
export async function runGit(command: GitCommand, given: Args, context: CallContext): Promise<ShapedResult<GitOutput>> {
  const { directory, path: folder } = await holdDirectory(context.workspace, String(given.repository ?? '.'), {
    guard: context.pathGuard,
  });
  const release = await context.acquireProcess(context.signal);
  try {
    const cwd = directory.realPath;
    const args = await withPaths(command, given, { cwd, folder }, context);
    const run: Run = (words, options = {}) => start(words, cwd, context, options);
    await mustBeWithin(run, context);
    await mustNotRunCode(run);
    const target =
      typeof args.path === 'string' && command.startsWith('worktree') ? await placeOf(args.path, context) : undefined;
    if (command === 'commit' && (args.paths as string[]).length > 0) {
      const added = await run(['add', '--intent-to-add', ...behind(args.paths)]);
      if (added.code !== 0) throw gitFailed(added, context);
    }
    const make = commands[command] as (args: Args, places: { readonly target?: string }) => Call;
    const { words } = make(args, { ...(target !== undefined && { target }) });
    if (command === 'push') await mustNotHave(run, USES_FILES, 'uses files of the host', 'repository_uses_files');
    const protocol = command === 'push' ? await protocolOf(run, args) : '';
    const end = await run(words, { protocol });
    context.signal.throwIfAborted();
    if (end.timedOut) throw fail('timeout', `git did not end within ${TIMEOUT_MS / 1000} s`, { reason: 'time_limit' });
    if (end.code !== 0) throw gitFailed(end, context);
    const printed = { output: end.stdout || end.stderr, truncated: end.truncated, exit_code: 0 };
    return result(printed, { summary: summaryOf(command, end), truncated: end.truncated });
  } finally {
    release();
    await directory.close();
  }
}

interface RunOptions {
  /** Without one it reaches no other machine. */
  readonly protocol?: string;
  /** Bytes of output. Default 256 KiB. */
  readonly maxOutput?: number;
}

/** Runs git. */
type Run = (words: readonly string[], options?: RunOptions) => Promise<ProgramEnd>;

function start(
  words: readonly string[],
  cwd: string,
  context: CallContext,
  { protocol = '', maxOutput = MAX_OUTPUT }: RunOptions,
): Promise<ProgramEnd> {
  const settings = Object.entries(SAFE);
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
  });
}

/** The working tree and the metadata of the repository are in the workspace, and no protected path is in it. */
async function mustBeWithin(run: Run, { workspace, pathGuard }: CallContext): Promise<void> {
  const found = await run([
    'rev-parse',
    '--path-format=absolute',
    '--show-toplevel',
    '--absolute-git-dir',
    '--git-common-dir',
  ]);
  if (found.code !== 0) {
    throw fail('tool_error', 'there is no git repository here', {
      reason: /dubious ownership/.test(found.stderr) ? 'other_owner' : 'not_a_repository',
    });
  }
  const [tree = '', own = '', common = ''] = found.stdout.trim().split('\n');
  const root = realpathSync(workspace);
  for (const place of [tree, own, common, join(common, 'objects')]) {
    const from = relative(root, realpathSync(place));
    if (from.startsWith('..') || isAbsolute(from)) throw outsideWorkspace('.git');
  }
  // Objects of another repository, wherever that is.
  if (existsSync(join(common, 'objects', 'info', 'alternates'))) throw outsideWorkspace('.git/objects/info/alternates');
  pathGuard?.refresh();
  const top = realpathSync(tree);
  if (pathGuard?.present().some(({ path }) => path.startsWith(`${top}/`))) {
    throw holdsProtected();
  }
  if (pathGuard !== undefined) await mustHoldNoOtherName(run, top, pathGuard);
}

const holdsProtected = () =>
  fail('tool_denied', 'this repository has protected paths in it', { reason: 'protected_path' });

/** No file that git would read is a protected one under another name: a hard link, which no path tells. */
async function mustHoldNoOtherName(run: Run, top: string, guard: PathGuard): Promise<void> {
  const words = ['-C', top, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const { stdout, truncated } = await run(words, { maxOutput: MAX_LISTED });
  if (truncated) throw fail('tool_denied', 'this repository has too many files to be checked', { reason: 'too_large' });
  for (const [at, name] of stdout.split('\0').entries()) {
    if (at % FILES_PER_TURN === FILES_PER_TURN - 1) await new Promise<void>(nextTurn);
    const stats = lstatSync(join(top, name), { throwIfNoEntry: false });
    if (stats?.isFile() && stats.nlink > 1 && guard.opened(stats) === 'all') throw holdsProtected();
  }
}

/** A repository whose configuration runs programs under names of its own is refused: no list of overrides covers it. */
const mustNotRunCode = (run: Run): Promise<void> => mustNotHave(run, RUNS, 'runs programs', 'repository_runs_code');

async function mustNotHave(run: Run, keys: string, does: string, reason: string): Promise<void> {
  const { stdout } = await run(['config', '--local', '--name-only', '--get-regexp', keys]);
  const [key] = stdout.trim().split('\n');
  if (!key) return;
  throw fail('tool_denied', `the configuration of this repository ${does}: ${shown(key)}`, { reason, key: shown(key) });
}

/** The new folder of a worktree, or that of one to remove, as an absolute path in the workspace. */
async function placeOf(path: string, { workspace, pathGuard: guard }: CallContext): Promise<string> {
  await using place = await locate(workspace, path, { guard, access: 'change' });
  if (place.name === '.') throw fileFailure('is_the_directory', path, 'must be named by its own name');
  return join(place.parent.realPath, place.name);
}

/** The protocol of a remote. Others than https, http and ssh are refused: they run programs, or write into folders. */
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
  // Paths of the host are not for callers.
  const text = (stderr || stdout).trim().replaceAll(`${workspace}/`, '').replaceAll(workspace, '.');
  return fail('tool_error', `git failed: ${text.slice(0, 1_000) || `exit code ${code}`}`, {
    reason: 'git_failed',
    exit_code: code,
  });
}

function summaryOf(command: string, { stdout }: ProgramEnd): string {
  const lines = stdout === '' ? 0 : stdout.trimEnd().split('\n').length;
  return `git ${command.replace('_', ' ')}: ${lines} lines`;
}

function plain(value: unknown, what: string): string {
  const word = String(value);
  if (!word.startsWith('-') && !/[\0\n]/.test(word)) return word;
  throw fail('tool_denied', `${what} must not begin with "-"`, { reason: 'option' });
}

const revisionOf = (value: unknown): string => plain(value, 'a revision');

/** The paths of a call as git knows files: below its folder, without links on the way. The last name may be a link, which git tracks. */
async function withPaths(
  command: GitCommand,
  args: Args,
  { cwd, folder }: { readonly cwd: string; readonly folder: string },
  { workspace, pathGuard: guard }: CallContext,
): Promise<Args> {
  const asGitKnows = async (value: unknown): Promise<unknown> => {
    const path = plain(value, 'a path');
    if (path === '' || path === '.') return path;
    const place = isAbsolute(path) ? path : join(folder, pathOf(path));
    try {
      const { directory } = await holdDirectory(workspace, dirname(place), { guard });
      await directory.close();
      return relative(cwd, join(directory.realPath, basename(place))) || '.';
    } catch (error) {
      // Git may know a folder that is no longer there.
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

/** A path below the folder of the call: of two others `git diff` would compare the files of the host. */
function pathOf(value: unknown): string {
  const path = plain(value, 'a path');
  const place = normalize(path);
  if (isAbsolute(place) || place === '..' || place.startsWith(`..${sep}`)) throw outsideWorkspace(path);
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
