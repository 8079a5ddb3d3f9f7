/**
 * The program behind a path in a command line: a link in the folder starts its target, and a copy of a program is that
 * program. Looks at files, of a bounded size, and only at those that a command names by a path.
 */
import { readFileSync, realpathSync, type Stats, statSync } from 'node:fs';
import { programInPath } from '../../../base/program-file.ts';

/** Larger programs are compared by their place on the disk alone. */
const MAX_COMPARED_BYTES = 4 * 1024 * 1024;

/**
 * Returns the path by which the program is known; undefined where the path names no file, and where the program is known by the
 * path itself.
 * @param names the programs that rules are about
 */
export function realPath(path: string, names: ReadonlySet<string>): string | undefined {
  try {
    const real = realpathSync.native(path);
    const found = statSync(real);
    if (!found.isFile()) return undefined;
    for (const name of names) {
      const program = programInPath(name, process.env.PATH ?? '');
      if (program !== undefined && isSame(real, found, program)) return program;
    }
    return real === path ? undefined : real;
  } catch {
    return undefined;
  }
}

function isSame(file: string, { dev, ino, size }: Stats, program: string): boolean {
  const other = statSync(program);
  if (other.dev === dev && other.ino === ino) return true;
  return (
    size > 0 && size === other.size && size <= MAX_COMPARED_BYTES && readFileSync(file).equals(readFileSync(program))
  );
}
