/**
 * `npm run build`: an empty `dist/`, then the JavaScript and declarations of `src/`, file for file.
 *
 * Needed only before packing; everything else runs the sources. The compiler stays a separate process so that its
 * exit code is the only thing that decides.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = dirname(import.meta.dirname);

// What a renamed or deleted source left behind must not reach the package.
rmSync(join(root, 'dist'), { recursive: true, force: true });

const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
});

// npm sets the mode of `bin` files when it installs; a checkout run as dist/cli/main.js needs it too.
if (status === 0) chmodSync(join(root, 'dist', 'cli', 'main.js'), 0o755);
process.exitCode = status ?? 1;
