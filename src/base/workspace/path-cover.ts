/**
 * Covers protected paths for a program that a restricted principal runs: bubblewrap gives it a view of the same files
 * in which unreadable paths are empty, unchangeable paths are read-only, and no folder above either can be renamed.
 *
 * If bubblewrap is missing or not permitted, the program runs without it: it was granted, and `handfast config check`
 * warns. This is no sandbox; SECURITY.md describes its limits.
 */
import { readdirSync, readlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fail } from '../../wire/errors.ts';
import { isShortage } from '../not-started.ts';
import { onceSucceeded } from '../once-succeeded.ts';
import { type ProgramOptions, type RunningProgram, runProgram, startProgram } from '../program.ts';
import { programInPath } from '../program-file.ts';
import { type Watch, watchCovers, watchView } from './cover-watch.ts';
import { isHidden, type PathGuard, type PresentPath } from './protected-paths.ts';
import { secretPlaces } from './secret-places.ts';

type Words = readonly [string, ...string[]];

/** Every file of the system at its path; a separate view of processes, since the host's processes lead to its files. */
const VIEW = ['--dev-bind', '/', '/', '--unshare-pid', '--proc', '/proc', '--die-with-parent'];
/** Capabilities with which root could look behind the covers. */
const DROPPED = ['SYS_ADMIN', 'SYS_PTRACE', 'SYS_RAWIO', 'DAC_READ_SEARCH', 'MKNOD'];
const PROBE_MS = 5_000;

const FLAGS = [...VIEW, ...DROPPED.flatMap((name) => ['--cap-drop', `CAP_${name}`])];

/**
 * Signals that end a program unless it handles them. Bubblewrap is in the group that receives a signal or a key of a
 * terminal, and would end, together with the program that handles it. It needs SIGCHLD.
 */
const PASSED = 'HUP,INT,QUIT,TERM,ABRT,USR1,USR2,ALRM,VTALRM,PROF,IO,XCPU,PIPE,TSTP,TTIN,TTOU';
/**
 * Blocked, not ignored: a signal that arrives before the program runs then waits for it. Only the `env` of GNU can
 * block signals; with another one they end the program in the cover.
 */
const BLOCKING = ['env', `--block-signal=${PASSED}`];
const HEEDING = ['env', `--default-signal=${PASSED}`];

/**
 * The cover for a guard's programs; undefined: no cover works. By guard, so that the probe runs once in the life of a
 * server.
 */
const probes = new WeakMap<PathGuard, () => Promise<Cover | undefined>>();

/** Words before bubblewrap, and before the program in it. */
interface Cover {
  readonly before: readonly string[];
  readonly within: readonly string[];
}

/** Resolves with true when bubblewrap is installed and may make this view here. */
export async function canCover(env: Readonly<Record<string, string | undefined>> = process.env): Promise<boolean> {
  return (await findCover(env)) !== undefined;
}

async function findCover(env: Readonly<Record<string, string | undefined>>): Promise<Cover | undefined> {
  if (process.platform !== 'linux') return undefined;
  for (const cover of [
    { before: BLOCKING, within: HEEDING },
    { before: [], within: [] },
  ]) {
    const argv = [...cover.before, 'bwrap', ...FLAGS, '--', ...cover.within, 'true'] as unknown as Words;
    const isWorking = await runProgram({ argv, env, timeoutMs: PROBE_MS }).then(
      ({ code }) => code === 0,
      (thrown: unknown) => {
        // A shortage proves nothing about bubblewrap; a program must not run uncovered because of it.
        if (isShortage(thrown)) throw thrown;
        return false;
      },
    );
    if (isWorking) return cover;
  }
  return undefined;
}

/** Returns true when bubblewrap is installed. It is not run, so it may still fail here. */
export const isCoverInstalled = (env: Readonly<Record<string, string | undefined>> = process.env): boolean =>
  programInPath('bwrap', env.PATH ?? '') !== undefined;

export interface Covered {
  /** The command line that runs the program with the protected paths covered; its own where that is not possible. */
  readonly words: Words;
  /** To be called once the program has started: it must end when the cover is lost. */
  readonly watch: Watch;
  /** Ends the watch. To be called where the program was not started. */
  readonly end: () => void;
}

export interface CoverOptions {
  /** Undefined: nothing is covered. */
  readonly guard: PathGuard | undefined;
  /** Absolute real path. */
  readonly workspace: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Covers protected paths for a program. To be called right before it starts. Fails with `tool_denied`, reason `protected_path`, where
 * a protected file would stay readable.
 */
export async function covered(words: Words, { guard, workspace, signal }: CoverOptions): Promise<Covered> {
  const bare = { words, watch: () => () => {}, end: () => {} };
  if (guard === undefined) return bare;
  let probe = probes.get(guard);
  if (probe === undefined) {
    probe = onceSucceeded(() => findCover(process.env));
    probes.set(guard, probe);
  }
  const cover = await probe();
  if (cover === undefined) return bare;
  // `env` would treat a program with such a name as a variable.
  const { before, within } = words[0].includes('=') ? { before: [], within: [] } : cover;
  const places = await secretPlaces(guard, workspace, { isWhole: true, signal });
  // Behind everything that takes time.
  const present = guard.present();
  const hiding = covers([...present, ...places]);
  return {
    words: [...before, 'bwrap', ...FLAGS, ...hiding, '--', ...within, ...words] as unknown as Words,
    ...watchCovers({ guard, workspace, present, places }),
  };
}

/** Starts a program with protected paths covered. Calls `onLost` once, when the program must end; fails as {@link covered} does. */
export async function startCovered(
  options: ProgramOptions,
  { guard, workspace = '/', signal }: Partial<CoverOptions>,
  onLost: () => void,
): Promise<RunningProgram> {
  const { argv, env } = options;
  // Bubblewrap would start, and hide that the program is missing.
  const isThere = argv[0].includes('/') || programInPath(argv[0], env?.PATH ?? '') !== undefined;
  const { words, watch, end } = await covered(argv, { guard: isThere ? guard : undefined, workspace, signal });
  const program = await startProgram({ ...options, argv: words }).catch((thrown: unknown) => {
    end();
    throw thrown;
  });
  void program.ended.then(watch(onLost));
  return program;
}

/**
 * Returns the options for the covers: folders first, from the top, or they would uncover paths that were covered below
 * them.
 */
function covers(present: readonly PresentPath[]): string[] {
  const around = new Map(
    present.flatMap(({ path, except }) => (except === undefined ? [] : [[path, except] as const])),
  );
  const above = new Set([...present.flatMap(({ path }) => foldersAbove(path)), ...around.keys(), ...around.values()]);
  // A folder that something is mounted on cannot be renamed. The workspace in a hidden folder is put back into it.
  const held = [...above]
    .filter((path) => !isHidden(path, present))
    .sort((one, other) => one.length - other.length)
    .flatMap((path) => (around.has(path) ? ['--tmpfs', path] : ['--bind', path, path]));
  return [...held, ...covering(present)];
}

/** Entries of folders with protected paths that one view may have. */
const MAX_VIEW_ENTRIES = 4_000;

/**
 * Returns the options of bubblewrap for a view of a folder, for a program that reads it and nothing around it. A folder
 * that contains protected paths is shown as its current entries without those, so that names created later are not
 * visible. Fails as {@link covered} does.
 */
export async function viewOf(
  folder: string,
  guard: PathGuard | undefined,
  signal?: AbortSignal,
): Promise<{ readonly words: string[]; readonly watch: Watch }> {
  const whole = ['--ro-bind', folder, folder];
  if (guard === undefined) return { words: whole, watch: () => () => {} };
  const places = await secretPlaces(guard, folder, { isWhole: false, signal });
  const present = [...guard.present(), ...places];
  const hidden = present
    .filter(({ path, deny }) => deny === 'all' && path.startsWith(`${folder}/`))
    .map(({ path }) => path);
  // Names that do not exist yet are protected in these folders.
  const named = [...guard.folders()].filter((path) => path === folder || path.startsWith(`${folder}/`));
  const opened = new Set([...hidden.flatMap(foldersAbove), ...named, ...named.flatMap(foldersAbove)]);
  const words: string[] = [];
  const readOnly: string[] = [];
  let left = MAX_VIEW_ENTRIES;
  const show = (path: string): void => {
    words.push('--tmpfs', path);
    readOnly.push('--remount-ro', path);
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      const below = join(path, entry.name);
      if (hidden.includes(below) || guard.protects(path, entry.name)) continue;
      left -= 1;
      if (left < 0) {
        throw fail(
          'tool_denied',
          `the folder ${path} has too many entries beside a protected path to show it without that`,
          {
            reason: 'protected_path',
          },
        );
      }
      if (entry.isDirectory() && opened.has(below)) show(below);
      else if (entry.isSymbolicLink()) words.push('--symlink', readlinkSync(below), below);
      else words.push('--ro-bind-try', below, below);
    }
  };
  const watch = watchView(guard, folder, places, (path) => !opened.has(dirname(path)) && !isHidden(path, present));
  if (!opened.has(folder)) return { words: whole, watch };
  show(folder);
  return { words: [...words, ...readOnly], watch };
}

function covering(present: readonly PresentPath[]): string[] {
  const hidden = present.toSorted((one, other) => one.path.length - other.path.length);
  return hidden.flatMap(({ path, isFolder, deny, except }) => {
    if (except !== undefined || isHidden(path, hidden)) return [];
    if (deny === 'changes') return ['--ro-bind', path, path];
    return isFolder ? ['--tmpfs', path] : ['--ro-bind', '/dev/null', path];
  });
}

function foldersAbove(path: string): string[] {
  const above = dirname(path);
  return above === '/' || above === path ? [] : [...foldersAbove(above), above];
}
