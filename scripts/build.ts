/**
 * `npm run build`: an empty `dist/`, then the JavaScript and declarations of `src/`, file for file; and the way of
 * `handfast stdio` once more as one file, in `dist/cli/stdio/bundled/`.
 *
 * Needed before packing and by the benchmark; everything else runs the sources. The compiler stays a separate process so
 * that its exit code is the only thing that decides.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { rolldown } from 'rolldown';

const root = dirname(import.meta.dirname);

// What a renamed or deleted source left behind must not reach the package.
rmSync(join(root, 'dist'), { recursive: true, force: true });

const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
});

if (status === 0) await bundleStdio(join(root, 'dist'));

// npm sets the mode of `bin` files when it installs; a checkout run as dist/cli/main.js needs it too.
if (status === 0) chmodSync(join(root, 'dist', 'cli', 'main.js'), 0o755);
process.exitCode = status ?? 1;

/**
 * Whoever starts `handfast stdio` waits for its handshake, and loading sixty small modules takes half of that time. What
 * its default way loads at once becomes one file, what it loads later stays apart. No plugin of a user is ever loaded on
 * this way, so no module is there twice in one process. See docs/decisions/0009-stdio-in-one-file.md.
 */
async function bundleStdio(dist: string): Promise<void> {
  const folder = join(dist, 'cli', 'stdio');
  const entry = join(folder, 'stdio-default.js');
  const atOnce = new Set<string>();
  follow(entry, atOnce);
  const bundle = await rolldown({
    input: {
      'stdio-default': entry,
      // A thread of its own, found by its place next to whoever starts it.
      'search-worker': join(dist, 'capabilities', 'tools', 'builtin', 'search-worker.js'),
    },
    platform: 'node',
    external: (id) => !id.startsWith('.') && !id.startsWith('/'),
  });
  await bundle.write({
    dir: join(folder, 'bundled'),
    format: 'esm',
    minify: true,
    chunkFileNames: '[name]-[hash].js',
    codeSplitting: { groups: [{ name: 'core', test: (id) => atOnce.has(id) }] },
  });
  const stdio = join(folder, 'stdio.js');
  const text = readFileSync(stdio, 'utf8');
  const direct = "import('./stdio-default.js')";
  if (!text.includes(direct)) throw new Error('stdio.js does not load ./stdio-default.js any more: follow it here');
  writeFileSync(stdio, text.replace(direct, "import('./bundled/stdio-default.js')"));
}

/** Adds a compiled module and all it imports statically. */
function follow(file: string, seen: Set<string>): void {
  if (seen.has(file)) return;
  seen.add(file);
  for (const [, path] of readFileSync(file, 'utf8').matchAll(/^(?:import|export)[^'"]*?from\s*['"](\.[^'"]+)['"]/gm)) {
    follow(resolve(dirname(file), path as string), seen);
  }
}
