/**
 * The command lines of the process sandboxes: Node under its permission model, and bubblewrap around it. Pure, except that it
 * looks for programs.
 */
import { lstatSync, readlinkSync } from 'node:fs';
import { NO_DEBUGGER } from '../../../base/node-program.ts';
import { programInPath } from '../../../base/program-file.ts';
import { inside } from './inside.ts';
import { processInside, READY } from './process-inside.ts';
import { withhold } from './process-withheld.ts';
import type { View } from './sandbox.ts';

const MIB = 1024 * 1024;

/**
 * Modules that the permission model does not confine, or not fully: databases open any file, and native calls write any memory.
 */
const LEFT_OUT = ['sqlite', 'ffi'].flatMap((name) =>
  process.allowedNodeEnvironmentFlags.has(`--experimental-${name}`) ? [`--no-experimental-${name}`] : [],
);

export type Words = readonly [string, ...string[]];

export interface NodeOptions {
  readonly memoryBytes: number;
  readonly maxMessageChars: number;
  /** True: under the permission model, which grants nothing; without it, the layer around Node can be tried. */
  readonly isRestricted: boolean;
  /** True: Node has no view of the system around it. */
  readonly isAlone: boolean;
  readonly view?: View | undefined;
}

/** Returns the command line of Node, ready for a job. It reads no file of the host: its code is part of the command line. */
export function nodeWords(
  program: string,
  { memoryBytes, maxMessageChars, isRestricted, isAlone, view }: NodeOptions,
): Words {
  const given = [
    inside.toString(),
    maxMessageChars,
    JSON.stringify(READY),
    isAlone ? withhold.toString() : 'undefined',
    '(url) => import(url)',
  ];
  const code = `'use strict';(${processInside.toString()})(${given.join(', ')})`;
  return [
    program,
    NO_DEBUGGER,
    ...(isRestricted
      ? ['--permission', ...LEFT_OUT, ...(view === undefined ? [] : [`--allow-fs-read=${view.folder}`])]
      : []),
    `--max-old-space-size=${Math.ceil(memoryBytes / MIB)}`,
    // A separate seed for the tables in V8's snapshot takes a fifth of the start, and one run needs none.
    '--no-rehash-snapshot',
    '--input-type=commonjs',
    '-e',
    code,
  ];
}

/** The path of Node inside. */
const NODE = '/node';
/** Folders of the system that programs need; at the top they are often links into `/usr`. */
const SYSTEM = ['/lib', '/lib32', '/lib64', '/libx32'];

/**
 * Returns the command line of bubblewrap around Node: no network, a separate process namespace, an empty environment, and no
 * files of the host except the programs and libraries of the system, read-only. It ends with its parent.
 */
export function bubblewrapWords(bwrap: string, node: NodeOptions): Words {
  const { view } = node;
  return [
    bwrap,
    '--unshare-all',
    '--die-with-parent',
    '--clearenv',
    ...['--hostname', 'skill'],
    ...['--cap-drop', 'ALL'],
    ...['--ro-bind', '/usr', '/usr'],
    ...SYSTEM.flatMap(systemFolder),
    // The library folder on systems that have libraries elsewhere.
    ...['--ro-bind-try', '/nix/store', '/nix/store'],
    ...['--ro-bind', process.execPath, NODE],
    ...['--dev-bind', '/dev/null', '/dev/null'],
    ...(view?.words ?? []),
    ...['--remount-ro', '/'],
    ...['--chdir', view?.folder ?? '/'],
    '--',
    ...nodeWords(NODE, node),
  ];
}

function systemFolder(path: string): string[] {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return [];
  return stats.isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path];
}

/** Returns the file of bubblewrap. Throws an error that names the package to install. */
export function findBubblewrap(path: string): string {
  const found = process.platform === 'linux' ? programInPath('bwrap', path) : undefined;
  if (found !== undefined) return found;
  throw new Error(
    process.platform === 'linux'
      ? 'bubblewrap is not installed; install the package "bubblewrap" of the system, for example apt-get install bubblewrap'
      : `bubblewrap needs Linux, this is ${process.platform}; use the tier quickjs or process`,
  );
}
