/**
 * Limits on a process together with all it starts, by control groups of Linux, version 1 or 2: memory and the number of processes.
 * Each process gets groups of its own below that of the host. Which of the limits can be set here is tried once, never assumed.
 *
 * Asked by `processes.ts` for each spawn. What runs in a group could leave it, if the host's user may write there: this holds
 * accidents, no attackers.
 */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { leadsOut } from '../../base/is-inside.ts';
import { isShortage } from '../../base/not-started.ts';
import { runProgram } from '../../base/program.ts';
import { sleep } from '../../base/sleep.ts';

/** Limits by their names on the wire; undefined: none. */
export interface TreeLimits {
  /** Memory of the process and all it starts. */
  readonly tree_memory_bytes?: number | undefined;
  /** Processes and threads in it. */
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
  /** That of the host, then those above it. */
  readonly folders: readonly string[];
}

/** Enters the groups that are named, then becomes the program. */
const ENTER = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@"';
const PREFIX = 'handfast';
const PROBE_MS = 5_000;
/** How long killed processes may take to disappear. */
const KILL_WAIT_MS = 2_000;
const KILL_PAUSE_MS = 10;

/** What is written for a limit, in version 1 and 2. Swap would be a way around the first one, where there is swap. */
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

  /** Makes them. Throws what the system refuses. */
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

  /** What comes before a program and its arguments. */
  get prefix(): string[] {
    return ['/bin/sh', '-c', ENTER, 'sh', ...this.#folders, '--'];
  }

  /** SIGKILL to all that is left in them, and removes them. Bounded, never rejects. */
  async end(): Promise<void> {
    for (let waited = 0; !this.#remove() && waited < KILL_WAIT_MS; waited += KILL_PAUSE_MS) {
      for (const folder of this.#folders) kill(folder);
      await sleep(KILL_PAUSE_MS);
    }
  }

  /** False while a process is in one. */
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

/** All at once where the system can (`cgroup.kill`), else each that it names. */
function kill(folder: string): void {
  try {
    if (existsSync(join(folder, 'cgroup.kill'))) return writeFileSync(join(folder, 'cgroup.kill'), '1');
    for (const pid of readFileSync(join(folder, 'cgroup.procs'), 'latin1').split('\n').map(Number)) {
      if (pid > 1) process.kill(pid, 'SIGKILL');
    }
  } catch {
    // One has ended meanwhile, or is not ours to end.
  }
}

export interface Cgroups {
  /** Those in force. */
  readonly limits: Readonly<Record<string, number>>;
  /** Makes the groups of one process; undefined: no limit is in force. */
  readonly make: () => Cgroup | undefined;
}

/** The limits that can be set here; tries each with a program. Never rejects. */
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
  // Version 2 ends all of a group at once, also where it has none of the limits.
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

/** One group for several limits of one folder. */
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

/** True when the groups below a folder can have a limit of this kind. A folder with processes of its own cannot give it to them. */
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
        // It has processes, or is that of another user.
      }
    }
  } catch {
    // Not to be read.
  }
}

/** The hierarchies that are mounted, with the group of this process in each and the one above it. */
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

/** `36 35 98:0 /root /mount options - type source super-options`; a name with a space in it is not looked for. */
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
