/**
 * Keeps what Node makes of the sources: most of a short test's time would go into reading the same TypeScript once more.
 * Loaded by the scripts that run tests, before anything else; what tests start keeps to it too.
 */
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../node_modules/.cache/compiled', import.meta.url));
enableCompileCache(folder);
process.env.NODE_COMPILE_CACHE = folder;
