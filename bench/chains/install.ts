/**
 * Installs the contenders of `bench:chains` into a cache below `node_modules`, where neither the package nor the
 * linters see them. Needs the network once, npm, and a `python3` with `venv`.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const NPM = ['@restatedev/restate-server@1.7.12', '@restatedev/restate-sdk@1.17.2', 'p-graph@2.0.0'];
const PYPI = ['dbos==3.4.0', 'langgraph==1.2.22', 'langgraph-checkpoint-sqlite==3.1.2'];
const INSTALL_MS = 300_000;

const cache = join(import.meta.dirname, '..', '..', 'node_modules', '.cache', 'bench-chains');

/** Paths of the packages. */
export interface Installed {
  /** A folder with `node_modules`. */
  readonly npm: string;
  /** A Python that has the packages. */
  readonly python: string;
}

/** Installs once; a later call finds these versions there. Throws when a package cannot be had. */
export function installContenders(): Installed {
  const run = (program: string, args: readonly string[], cwd = cache): void => {
    execFileSync(program, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'], timeout: INSTALL_MS });
  };
  const [npm, venv] = [join(cache, 'npm'), join(cache, 'python')];
  const python = join(venv, 'bin', 'python');
  const done = join(cache, `${[...NPM, ...PYPI].join(' ').replace(/\W+/g, '-')}.done`);
  if (existsSync(done)) return { npm, python };
  mkdirSync(npm, { recursive: true });
  // A separate package: npm would otherwise install into the project around it.
  writeFileSync(join(npm, 'package.json'), '{"private":true}\n');
  run('npm', ['install', '--no-audit', '--no-fund', '--no-package-lock', '--ignore-scripts', ...NPM], npm);
  run('python3', ['-m', 'venv', venv]);
  run(python, ['-m', 'pip', 'install', '--quiet', ...PYPI]);
  writeFileSync(done, '');
  return { npm, python };
}
