/** The file behind a path in a command line: a link in the folder starts the program that it leads to. Used by `control-server.ts`. */
import { realpathSync } from 'node:fs';

/** The real path; undefined where there is no such file, and where it is the path itself. */
export function realPath(path: string): string | undefined {
  try {
    const real = realpathSync.native(path);
    return real === path ? undefined : real;
  } catch {
    return undefined;
  }
}
