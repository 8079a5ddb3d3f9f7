/**
 * Where this process stores compiled code, as the environment of its own threads and processes: they get nothing else of this
 * process's environment, and without the folder each compiles its modules once more. Used by all that start one.
 */
// By its default: an older Node has not all names, and is to get the one line about its age.
import nodeModule from 'node:module';
import { dirname } from 'node:path';

/** Nothing when this process stores none. */
export function compiledCode(): { readonly NODE_COMPILE_CACHE?: string } {
  // A folder of the version of Node, which adds it itself.
  const folder = nodeModule.getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}
