/**
 * Covers protected paths for a program that a restricted principal runs: bubblewrap puts it into a view of the same files in
 * which what may not be read is empty, what may not be changed is read-only, and no folder above either can be renamed.
 *
 * Called by the tool `shell` and the capability `proc`. Where bubblewrap is missing or may not work, the program runs without it: it was granted, and
 * `handfast config check` warns. This is no sandbox; SECURITY.md says what it leaves open.
 */
import { accessSync, constants } from 'node:fs';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { runProgram } from '../program.ts';
import type { PathGuard } from './protected-paths.ts';

type Words = readonly [string, ...string[]];

/** Every file of the system where it is; a view of processes of its own, since those of the host lead to its files. */
const VIEW = ['--dev-bind', '/', '/', '--unshare-pid', '--proc', '/proc', '--die-with-parent'];
/** What root could look behind the covers with. */
const DROPPED = ['SYS_ADMIN', 'SYS_PTRACE', 'SYS_RAWIO', 'DAC_READ_SEARCH', 'MKNOD'];
const PROBE_MS = 5_000;

const FLAGS = [...VIEW, ...DROPPED.flatMap((name) => ['--cap-drop', `CAP_${name}`])];

/** By guard, so that the probe runs once in the life of a server. */
const probes = new WeakMap<PathGuard, Promise<boolean>>();

/** True when bubblewrap is installed and may make such a view here. */
export async function canCover(env: Readonly<Record<string, string | undefined>> = process.env): Promise<boolean> {
  if (process.platform !== 'linux') return false;
  try {
    const { code } = await runProgram({ argv: ['bwrap', ...FLAGS, '--', 'true'], env, timeoutMs: PROBE_MS });
    return code === 0;
  } catch {
    return false;
  }
}

/** True when bubblewrap is installed; it is not run, so that whether it works here is not known. */
export function isCoverInstalled(env: Readonly<Record<string, string | undefined>> = process.env): boolean {
  return (env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, 'bwrap'), constants.X_OK);
      return isAbsolute(folder);
    } catch {
      return false;
    }
  });
}

/** The command line that runs `words` with the protected paths covered; `words` themselves where that is not possible. */
export async function covered(words: Words, guard: PathGuard | undefined): Promise<Words> {
  if (guard === undefined) return words;
  let probe = probes.get(guard);
  if (probe === undefined) {
    probe = canCover();
    probes.set(guard, probe);
  }
  return (await probe) ? ['bwrap', ...FLAGS, ...covers(guard), '--', ...words] : words;
}

/** Folders first, from the top, or they would uncover what was covered below them. */
function covers(guard: PathGuard): string[] {
  const present = guard.present();
  const above = new Set(present.flatMap(({ path }) => foldersAbove(path)));
  // A folder that something is mounted on cannot be renamed.
  const held = [...above].sort((one, other) => one.length - other.length).flatMap((path) => ['--bind', path, path]);
  const hidden = present.toSorted((one, other) => one.path.length - other.path.length);
  const covering = hidden.flatMap(({ path, isFolder, deny }) => {
    if (hidden.some((other) => other.deny === 'all' && path.startsWith(`${other.path}/`))) return [];
    if (deny === 'changes') return ['--ro-bind', path, path];
    return isFolder ? ['--tmpfs', path] : ['--ro-bind', '/dev/null', path];
  });
  return [...held, ...covering];
}

function foldersAbove(path: string): string[] {
  const above = dirname(path);
  return above === '/' || above === path ? [] : [...foldersAbove(above), above];
}
