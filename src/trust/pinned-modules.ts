/**
 * Loads the modules of a trusted configuration from the bytes that were hashed, so that a file that is exchanged between
 * the check and its import is not run.
 *
 * Called by `cli/trust/trusted-source.ts` once per trusted configuration that names modules; the hooks stay until the process ends.
 */
import { registerHooks } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { fail } from '../wire/errors.ts';
import type { CoveredFile } from './covered-files.ts';

/** Formats whose source Node accepts from a hook as bytes. */
const TEXT_FORMATS = new Set(['module', 'commonjs', 'json', 'module-typescript', 'commonjs-typescript']);

/** @param files by the absolute path they are named by. */
export function pinModules(files: ReadonlyMap<string, CoveredFile>): void {
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
      if (bytes === undefined) return nextLoad(url, context);
      const { format } = context;
      // Not read again: what lies there now may be something else, or a pipe.
      if (format && TEXT_FORMATS.has(format)) return { format, source: bytes, shortCircuit: true };
      const loaded = nextLoad(url, context);
      return TEXT_FORMATS.has(loaded.format ?? '') ? { ...loaded, source: bytes } : loaded;
    },
  });
}

/** The file a specifier names before links are resolved; undefined for packages and built-in modules. */
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
