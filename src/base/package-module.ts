/**
 * The module of a package, resolved from a folder without trusting that folder: Node reads a `package.json` without a
 * bound and waits for one that is a pipe.
 */
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** No `package.json` is longer. */
const MAX_BYTES = 1024 * 1024;

/**
 * Returns the file; undefined when the package is not installed there, or a `package.json` on the way is a pipe, a
 * device or too long.
 */
export function moduleOfPackage(folder: string, name: string): string | undefined {
  const require = createRequire(join(folder, 'handfast.yaml'));
  if (!manifestsOf(folder, name, require.resolve.paths(name) ?? []).every(isHarmless)) return undefined;
  try {
    return require.resolve(name);
  } catch {
    return undefined;
  }
}

/** Returns every `package.json` that Node may read: around the folder, and of each folder that the name may mean. */
function manifestsOf(folder: string, name: string, roots: readonly string[]): string[] {
  const around: string[] = [];
  for (let at = folder; ; at = dirname(at)) {
    around.push(at);
    if (dirname(at) === at) break;
  }
  const parts = name.split('/');
  const named = roots.flatMap((root) => parts.map((_, index) => join(root, ...parts.slice(0, index + 1))));
  return [...around, ...named].map((each) => join(each, 'package.json'));
}

function isHarmless(file: string): boolean {
  try {
    const found = statSync(file, { throwIfNoEntry: false });
    return found === undefined || (found.isFile() && found.size <= MAX_BYTES) || found.isDirectory();
  } catch {
    // Not there, as far as Node sees it.
    return true;
  }
}
