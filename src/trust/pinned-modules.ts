/**
 * Loads the modules of a trusted configuration from the bytes that were hashed, so that a file that is exchanged
 * between the check and its import is not run.
 *
 * It runs once per trusted configuration that names modules; the hooks stay until the process ends.
 */
import { registerHooks } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { fail, type HandfastError } from '../wire/errors.ts';
import { type CoveredFile, isOfRepository } from './covered-files.ts';
import { quoted } from './quoted.ts';
import type { Place } from './repository.ts';

/** Formats whose source Node accepts from a hook as bytes. */
const TEXT_FORMATS = new Set(['module', 'commonjs', 'json', 'module-typescript', 'commonjs-typescript']);

/** The sources of Handfast: their folder may be in the repository as well. */
const OWN = fileURLToPath(new URL('../', import.meta.url));

/**
 * Fails the load of a module of the repository that was not hashed: by an import that was written so that it is not found, or
 * computed.
 *
 * @param files by the absolute path they are named by.
 */
export function pinModules(files: ReadonlyMap<string, CoveredFile>, place: Pick<Place, 'top'>): void {
  const byReal = new Map([...files.values()].map((file) => [file.real, file.bytes]));
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const found = nextResolve(specifier, context);
      const named = pathNamed(specifier, context.parentURL);
      const expected = named === undefined ? undefined : files.get(named)?.real;
      if (expected !== undefined && pathOf(found.url) !== expected) {
        throw fail('untrusted_folder', `${named} was exchanged since it was trusted; run: handfast trust add`);
      }
      return found;
    },
    load(url, context, nextLoad) {
      const path = pathOf(url);
      const bytes = path === undefined ? undefined : byReal.get(path);
      if (bytes === undefined) {
        if (path !== undefined && !path.startsWith(OWN) && isOfRepository(place, path)) throw notCovered(path);
        return nextLoad(url, context);
      }
      const { format } = context;
      // Not read again: the file at the path may be another one now, or a pipe.
      if (format && TEXT_FORMATS.has(format)) return { format, source: bytes, shortCircuit: true };
      const loaded = nextLoad(url, context);
      return TEXT_FORMATS.has(loaded.format ?? '') ? { ...loaded, source: bytes } : loaded;
    },
  });
}

function notCovered(path: string): HandfastError {
  const why = 'is loaded by a name or path that was not found when its folder was trusted';
  return fail('untrusted_folder', `${quoted(path)} ${why}; write it as a plain import, or name the file with --config`);
}

/** Returns the file that a specifier names before links are resolved; undefined for packages and built-in modules. */
function pathNamed(specifier: string, parent: string | undefined): string | undefined {
  if (specifier.startsWith('file:')) return pathOf(specifier);
  if (specifier.startsWith('/')) return pathOf(pathToFileURL(specifier).href);
  if (!/^\.{1,2}\//.test(specifier) || !parent?.startsWith('file:')) return undefined;
  return pathOf(new URL(specifier, parent).href);
}

function pathOf(url: string): string | undefined {
  try {
    return url.startsWith('file:') ? fileURLToPath(url) : undefined;
  } catch {
    return undefined;
  }
}
