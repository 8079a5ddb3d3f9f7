/**
 * Loaded by the scripts that run tests, before anything else.
 *
 * - Caches the code that Node compiles from the sources: most of a short test's time would go into compiling the same
 *   TypeScript again. Programs that tests start use the cache too.
 * - Bounds a file of tests: the runner waits for one without end (its `--test-timeout` is for tests, not for files), so
 *   a connection that is left open would stop the whole run without a name.
 */
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../node_modules/.cache/compiled', import.meta.url));
enableCompileCache(folder);
process.env.NODE_COMPILE_CACHE = folder;

/** Several times the duration of the longest file on a slow machine. */
const FILE_MINUTES = 10;

let timer: NodeJS.Timeout | undefined;

/** Ends the process when the named file has not ended after a time; replaces the bound of the file before. */
export function bound(name: string, minutes = FILE_MINUTES): void {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const open = [...new Set(process.getActiveResourcesInfo())].join(', ');
    process.stderr.write(`${name} has not ended after ${minutes} minutes; what keeps it: ${open}\n`);
    process.exit(1);
  }, minutes * 60_000).unref();
}

// The runner itself has no such variable; programs that tests start do not load this file.
if (process.env.NODE_TEST_CONTEXT !== undefined) bound(process.argv[1] ?? '');
