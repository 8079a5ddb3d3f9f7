/**
 * Limits a process together with all it starts, by control groups of Linux, version 1 or 2: memory and the number of processes.
 * Each process gets separate groups below that of the host. The settable limits are tried once, never assumed.
 *
 * A process in a group could leave it, if the host's user may write there: this stops accidents, not attackers.
 */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { leadsOut } from '../../base/is-inside.ts';
import { isShortage } from '../../base/not-started.ts';
import { runProgram } from '../../base/program.ts';
import { sleep } from '../../base/sleep.ts';

/** Limits by their names on the wire; undefined: none. */
export interface TreeLimits {
  /** Maximum memory of the process and all it starts. */
  readonly tree_memory_bytes?: number | undefined;
  /** Maximum number of processes and threads in it. */
  readonly tree_processes?: number | undefined;
}

/** A folder in which groups are made, and the files that are written in each. */
interface Place {
  readonly folder: string;
  readonly files: readonly (readonly [name: string, value: string, isNeeded: boolean])[];
}

/** A hierarchy of groups as this process sees it. */
interface Hierarchy {
  /** Empty: version 2. */
  readonly controllers: readonly string[];
  /** The folder of the host's group, then those above it. */
  readonly folders: readonly string[];
}

/** Enters the named groups, then becomes the program. */
const ENTER = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@"';
const PREFIX = 'handfast';
const PROBE_MS = 5_000;
/** Maximum time for killed processes to disappear. */
const KILL_WAIT_MS = 2_000;
const KILL_PAUSE_MS = 10;

/** The files of a limit, in version 1 and 2. Swap, where it exists, would be a way around the first one. */
const FILES = {
  tree_memory_bytes: {
    controller: 'memory',
    v1: (value: string): Place['files'] => [
      ['memory.limit_in_bytes', value, true],
      ['memory.memsw.limit_in_bytes', value, false],
    ],
    v2: (value: string): Place['files'] => [
      ['memory.max', value, true],
      ['memory.swap.max', '0', false],
    ],
  },
  tree_processes: {
    controller: 'pids',
    v1: (value: string): Place['files'] => [['pids.max', value, true]],
    v2: (value: string): Place['files'] => [['pids.max', value, true]],
  },
};

let count = 0;

/** The groups of one process. */
export class Cgroup {
  readonly #folders: string[] = [];

  /** Makes the groups. Throws the error of the system. */
  constructor(places: readonly Place[]) {
    const name = `${PREFIX}-${process.pid}-${count++}`;
    try {
      for (const { folder, files } of places) {
        const own = join(folder, name);
        mkdirSync(own);
        this.#folders.push(own);
        for (const [file, value, isNeeded] of files) {
          try {
            writeFileSync(join(own, file), value);
          } catch (error) {
            if (isNeeded) throw error;
          }
        }
      }
    } catch (error) {
      this.#remove();
      throw error;
    }
  }

  /** The words before a program and its arguments. */
  get prefix(): string[] {
    return ['/bin/sh', '-c', ENTER, 'sh', ...this.#folders, '--'];
  }

  /** Sends SIGKILL to all processes left in the groups, and removes these. Bounded, never rejects. */
  async end(): Promise<void> {
    for (let waited = 0; !this.#remove() && waited < KILL_WAIT_MS; waited += KILL_PAUSE_MS) {
      for (const folder of this.#folders) kill(folder);
      await sleep(KILL_PAUSE_MS);
    }
  }

  /** Removes the groups; returns false while a process is in one. */
  #remove(): boolean {
    for (const folder of [...this.#folders]) {
      try {
        rmdirSync(folder);
      } catch {
        if (existsSync(folder)) continue;
      }
      this.#folders.splice(this.#folders.indexOf(folder), 1);
    }
    return this.#folders.length === 0;
  }
}

/** Kills all processes together if the system can (`cgroup.kill`), else each that the group lists. */
function kill(folder: string): void {
  try {
    if (existsSync(join(folder, 'cgroup.kill'))) return writeFileSync(join(folder, 'cgroup.kill'), '1');
    for (const pid of readFileSync(join(folder, 'cgroup.procs'), 'latin1').split('\n').map(Number)) {
      if (pid > 1) process.kill(pid, 'SIGKILL');
    }
  } catch {
    // A process has ended meanwhile, or the host may not end it.
  }
}

export interface Cgroups {
  /** The limits in force. */
  readonly limits: Readonly<Record<string, number>>;
  /** Makes the groups of one process; undefined: no limit is in force. */
  readonly make: () => Cgroup | undefined;
}

/** Returns the limits that can be set here; tries each with a program. Never rejects. */
export async function cgroupsFor(wanted: TreeLimits, path: string): Promise<Cgroups> {
  const limits: Record<string, number> = {};
  const places: Place[] = [];
  const names = (Object.keys(FILES) as (keyof TreeLimits)[]).filter((name) => wanted[name] !== undefined);
  if (process.platform !== 'linux' || names.length === 0) return { limits, make: () => undefined };
  const hierarchies = readHierarchies();
  for (const { folders } of hierarchies) folders.forEach(sweep);
  for (const name of names) {
    const value = wanted[name] as number;
    for (const candidate of candidatesOf(name, String(value), hierarchies)) {
      if (!(await works(candidate, path))) continue;
      places.push(candidate);
      limits[name] = value;
      break;
    }
  }
  if (places.length === 0) return { limits, make: () => undefined };
  const all = merged(places);
  // Version 2 ends a whole group in one step, even if the group has none of the limits.
  const ending = hierarchies.find(({ controllers }) => controllers.length === 0)?.folders ?? [];
  if (!all.some(({ folder }) => ending.includes(folder))) {
    for (const folder of ending) {
      if (!(await works({ folder, files: [] }, path))) continue;
      all.push({ folder, files: [] });
      break;
    }
  }
  return { limits, make: () => new Cgroup(all) };
}

/** Merges places of one folder: one group for several limits. */
function merged(places: readonly Place[]): Place[] {
  const files = new Map<string, Place['files'][number][]>();
  for (const place of places) files.set(place.folder, [...(files.get(place.folder) ?? []), ...place.files]);
  return [...files].map(([folder, each]) => ({ folder, files: each }));
}

function candidatesOf(name: keyof TreeLimits, value: string, hierarchies: readonly Hierarchy[]): Place[] {
  const { controller, v1, v2 } = FILES[name];
  return hierarchies.flatMap(({ controllers, folders }) => {
    if (controllers.includes(controller)) return folders.map((folder) => ({ folder, files: v1(value) }));
    if (controllers.length > 0) return [];
    return folders.filter((folder) => enable(folder, controller)).map((folder) => ({ folder, files: v2(value) }));
  });
}

/**
 * Returns true when the groups below a folder can have a limit of this kind. A folder that contains processes cannot give it to
 * them.
 */
function enable(folder: string, controller: string): boolean {
  try {
    const has = (file: string) => readFileSync(join(folder, file), 'latin1').split(/\s+/).includes(controller);
    if (!has('cgroup.controllers')) return false;
    if (!has('cgroup.subtree_control')) writeFileSync(join(folder, 'cgroup.subtree_control'), `+${controller}`);
    return true;
  } catch {
    return false;
  }
}

async function works(place: Place, path: string): Promise<boolean> {
  let group: Cgroup | undefined;
  try {
    group = new Cgroup([place]);
    const [program = '', ...args] = group.prefix;
    const argv = [program, ...args, 'true'] as const;
    return (await runProgram({ argv, env: { PATH: path }, timeoutMs: PROBE_MS })).code === 0;
  } catch (thrown) {
    if (isShortage(thrown)) throw thrown;
    return false;
  } finally {
    await group?.end();
  }
}

/** Removes the empty groups of hosts that were killed. */
function sweep(folder: string): void {
  try {
    for (const name of readdirSync(folder)) {
      const [prefix, pid] = name.split('-');
      if (prefix !== PREFIX || existsSync(`/proc/${pid}`)) continue;
      try {
        rmdirSync(join(folder, name));
      } catch {
        // The group has processes, or belongs to another user.
      }
    }
  } catch {
    // The folder cannot be read.
  }
}

/** Returns the mounted hierarchies, with the group of this process in each and the one above it. */
function readHierarchies(): Hierarchy[] {
  try {
    const mounts = readFileSync('/proc/self/mountinfo', 'latin1').split('\n');
    const own = readFileSync('/proc/self/cgroup', 'latin1').trim().split('\n');
    return own.flatMap((line) => {
      const [, names = '', ...rest] = line.split(':');
      const controllers = names === '' ? [] : names.split(',');
      const folders = mounts.flatMap((mount) => foldersOf(mount, controllers, rest.join(':')));
      return folders.length === 0 ? [] : [{ controllers, folders }];
    });
  } catch {
    return [];
  }
}

/**
 * Returns the folders of a mount line, `36 35 98:0 /root /mount options - type source super-options`; names with a space are
 * not supported.
 */
function foldersOf(mount: string, controllers: readonly string[], path: string): string[] {
  const [before = '', after = ''] = mount.split(' - ');
  const [, , , root = '/', at = ''] = before.split(' ');
  const [type, , options = ''] = after.split(' ');
  const isIt =
    controllers.length === 0
      ? type === 'cgroup2'
      : type === 'cgroup' && controllers.every((name) => options.split(',').includes(name));
  if (!isIt) return [];
  const below = relative(root, path);
  const own = leadsOut(below) ? at : join(at, below);
  return [...new Set([own, own === at ? at : dirname(own)])].filter((folder) => existsSync(folder));
}
