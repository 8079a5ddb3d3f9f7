/**
 * The folder where this process stores compiled code, as the environment of the threads and processes it starts: they
 * get no other variable of this process's environment, and without the folder each compiles its modules once more.
 */
// By its default: an older Node has not all names, and is to get the one line about its age.
import nodeModule from 'node:module';
import { dirname } from 'node:path';

/** Returns the variable; nothing if this process stores no compiled code. */
export function compiledCode(): { readonly NODE_COMPILE_CACHE?: string } {
  // A folder of the version of Node, which adds it itself.
  const folder = nodeModule.getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}
