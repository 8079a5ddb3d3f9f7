/**
 * The file that the name of a program means, for comparing, finding or starting the program. Pure except for looking at
 * files.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';

/** No system has a longer path. */
const MAX_PATH_CHARS = 65_536;

/** Returns the executable file of a name in the absolute folders of `path`, a list as in PATH; undefined if none has it. */
export const programInPath = (name: string, path: string): string | undefined =>
  name.length > MAX_PATH_CHARS
    ? undefined
    : path
        .split(delimiter)
        .flatMap((folder) => (isAbsolute(folder) ? [join(folder, name)] : []))
        .find(isExecutable);

/** Returns true for a file that this user may run. */
export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
