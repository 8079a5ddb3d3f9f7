/**
 * A Python with given packages: a virtual environment below `node_modules/.cache`, created once, from the package index
 * pip is configured for. For the tests that run programs on Python SDKs.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { acquireFileLock } from '../../src/base/file-lock.ts';

const CACHE = join(import.meta.dirname, '../../node_modules/.cache');
const INSTALL_MS = 240_000;

/**
 * Returns the interpreter. One process creates the environment elsewhere and moves it into place whole. Throws when
 * that is not possible.
 */
export function virtualPython(name: string, packages: readonly string[]): string {
  const folder = join(CACHE, name);
  const program = join(folder, 'bin', 'python');
  if (existsSync(program)) return program;
  mkdirSync(CACHE, { recursive: true });
  const release = acquired(`${folder}.lock`);
  const fresh = `${folder}-${process.pid}`;
  try {
    if (existsSync(program)) return program;
    const run = (command: string, args: string[]) =>
      execFileSync(command, args, { stdio: 'pipe', timeout: INSTALL_MS });
    run('python3', ['-m', 'venv', fresh]);
    run(join(fresh, 'bin', 'python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]);
    renameSync(fresh, folder);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    throw new Error(`no Python with ${packages.join(', ')}`, { cause: error });
  } finally {
    release();
  }
  return program;
}

/** Files of tests run at once: the others wait for the one that installs. */
function acquired(lock: string): () => void {
  const turn = new Int32Array(new SharedArrayBuffer(4));
  for (const until = performance.now() + 2 * INSTALL_MS; performance.now() < until; Atomics.wait(turn, 0, 0, 100)) {
    const release = acquireFileLock(lock);
    if (release !== undefined) return release;
  }
  throw new Error(`another process has ${lock}`);
}
