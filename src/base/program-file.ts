/**
 * The file that the name of a program means. Used where a program is compared, looked for or started by its file. Pure but for
 * looking at files.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';

/** No system has a longer path. */
const MAX_PATH_CHARS = 65_536;

/** The executable file of a name in the absolute folders of `path`, a list as in PATH. Undefined: there is none. */
export const programInPath = (name: string, path: string): string | undefined =>
  name.length > MAX_PATH_CHARS
    ? undefined
    : path
        .split(delimiter)
        .flatMap((folder) => (isAbsolute(folder) ? [join(folder, name)] : []))
        .find(isExecutable);

/** True for a file that this user may run. */
export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
