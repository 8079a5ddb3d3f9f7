/**
 * A Python with given packages: a virtual environment below `node_modules/.cache`, made once, from the package index pip is
 * configured for. Used by the tests that run programs on Python SDKs.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const CACHE = join(import.meta.dirname, '../../node_modules/.cache');
const INSTALL_MS = 240_000;

/** The interpreter. The environment is made elsewhere and put in place whole. Throws when that is not possible. */
export function virtualPython(name: string, packages: readonly string[]): string {
  const folder = join(CACHE, name);
  const program = join(folder, 'bin', 'python');
  if (existsSync(program)) return program;
  const fresh = `${folder}-${process.pid}`;
  mkdirSync(CACHE, { recursive: true });
  try {
    const run = (command: string, args: string[]) =>
      execFileSync(command, args, { stdio: 'pipe', timeout: INSTALL_MS });
    run('python3', ['-m', 'venv', fresh]);
    run(join(fresh, 'bin', 'python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]);
    renameSync(fresh, folder);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    // Another process may have put its own in place meanwhile.
    if (!existsSync(program)) throw new Error(`no Python with ${packages.join(', ')}`, { cause: error });
  }
  return program;
}
