/**
 * Covers protected paths for a program that a restricted principal runs: bubblewrap puts it into a view of the same files in
 * which what may not be read is empty, what may not be changed is read-only, and no folder above either can be renamed.
 *
 * Called by the tool `shell` and the capability `proc`. Where bubblewrap is missing or may not work, the program runs without it: it was granted, and
 * `handfast config check` warns. This is no sandbox; SECURITY.md says what it leaves open.
 */

import { dirname } from 'node:path';
import { isShortage } from '../not-started.ts';
import { onceSucceeded } from '../once-succeeded.ts';
import { runProgram } from '../program.ts';
import { programInPath } from '../program-file.ts';
import type { PathGuard, PresentPath } from './protected-paths.ts';

type Words = readonly [string, ...string[]];

/** Every file of the system where it is; a view of processes of its own, since those of the host lead to its files. */
const VIEW = ['--dev-bind', '/', '/', '--unshare-pid', '--proc', '/proc', '--die-with-parent'];
/** What root could look behind the covers with. */
const DROPPED = ['SYS_ADMIN', 'SYS_PTRACE', 'SYS_RAWIO', 'DAC_READ_SEARCH', 'MKNOD'];
const PROBE_MS = 5_000;

const FLAGS = [...VIEW, ...DROPPED.flatMap((name) => ['--cap-drop', `CAP_${name}`])];

/**
 * Signals that end a program unless it handles them. Bubblewrap is in the group that a signal or a key of a terminal goes to, and would
 * end, with the program that handles it. SIGCHLD it needs.
 */
const PASSED = 'HUP,INT,QUIT,TERM,ABRT,USR1,USR2,ALRM,VTALRM,PROF,IO,XCPU,PIPE,TSTP,TTIN,TTOU';
/**
 * Blocked, not ignored: what comes before the program runs then waits for it. Only the `env` of GNU can do so; with another one signals
 * end the program in the cover.
 */
const BLOCKING = ['env', `--block-signal=${PASSED}`];
const HEEDING = ['env', `--default-signal=${PASSED}`];

/** What a guard's programs are run with; undefined: nothing covers them. By guard, so that the probe runs once in the life of a server. */
const probes = new WeakMap<PathGuard, () => Promise<Cover | undefined>>();

/** What comes before bubblewrap, and before the program in it. */
interface Cover {
  readonly before: readonly string[];
  readonly within: readonly string[];
}

/** True when bubblewrap is installed and may make such a view here. */
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
        // It says nothing about bubblewrap; a program must not run uncovered for it.
        if (isShortage(thrown)) throw thrown;
        return false;
      },
    );
    if (isWorking) return cover;
  }
  return undefined;
}

/** True when bubblewrap is installed; it is not run, so that whether it works here is not known. */
export const isCoverInstalled = (env: Readonly<Record<string, string | undefined>> = process.env): boolean =>
  programInPath('bwrap', env.PATH ?? '') !== undefined;

/** The command line that runs `words` with the protected paths covered; `words` themselves where that is not possible. */
export async function covered(words: Words, guard: PathGuard | undefined): Promise<Words> {
  if (guard === undefined) return words;
  let probe = probes.get(guard);
  if (probe === undefined) {
    probe = onceSucceeded(() => findCover(process.env));
    probes.set(guard, probe);
  }
  const cover = await probe();
  if (cover === undefined) return words;
  // `env` would take a program with such a name for a variable.
  const { before, within } = words[0].includes('=') ? { before: [], within: [] } : cover;
  return [...before, 'bwrap', ...FLAGS, ...covers(guard), '--', ...within, ...words] as unknown as Words;
}

/** Folders first, from the top, or they would uncover what was covered below them. */
function covers(guard: PathGuard): string[] {
  const present = guard.present();
  const above = new Set(present.flatMap(({ path }) => foldersAbove(path)));
  // A folder that something is mounted on cannot be renamed.
  const held = [...above].sort((one, other) => one.length - other.length).flatMap((path) => ['--bind', path, path]);
  return [...held, ...covering(present)];
}

/** What covers the protected paths in a view that has `folder`, read-only, and nothing around it. */
export const coversBelow = (guard: PathGuard, folder: string): string[] =>
  covering(guard.present().filter(({ path, deny }) => deny === 'all' && path.startsWith(`${folder}/`)));

function covering(present: readonly PresentPath[]): string[] {
  const hidden = present.toSorted((one, other) => one.path.length - other.path.length);
  return hidden.flatMap(({ path, isFolder, deny }) => {
    if (hidden.some((other) => other.deny === 'all' && path.startsWith(`${other.path}/`))) return [];
    if (deny === 'changes') return ['--ro-bind', path, path];
    return isFolder ? ['--tmpfs', path] : ['--ro-bind', '/dev/null', path];
  });
}

function foldersAbove(path: string): string[] {
  const above = dirname(path);
  return above === '/' || above === path ? [] : [...foldersAbove(above), above];
}
