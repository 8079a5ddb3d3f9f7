/**
 * `npm run generate` writes every generated file; with `--check` it writes nothing and fails when one is stale.
 *
 * Contributors run it after changing a source of generated text; `npm test` runs it with `--check`.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Generator, generators, root } from './generators.ts';

/** Returns the text on disk, or undefined when the file does not exist. */
function textOnDisk(path: string): string | undefined {
  try {
    return readFileSync(join(root, path), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Writes, or only names, the files of one generator that differ from those on disk. Returns their paths. */
async function refresh(generator: Generator, write: boolean): Promise<string[]> {
  const stale: string[] = [];
  for (const [path, text] of await generator.generate()) {
    if (textOnDisk(path) === text) continue;
    stale.push(path);
    if (!write) continue;
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return stale;
}

const check = process.argv.includes('--check');
let stale = 0;
for (const generator of generators) {
  for (const path of await refresh(generator, !check)) {
    stale += 1;
    console.log(`${check ? 'stale' : 'wrote'} ${path} (${generator.name})`);
  }
}
if (check && stale > 0) {
  console.error('Generated files are not fresh: run "npm run generate" and commit what it writes.');
  process.exitCode = 1;
}
