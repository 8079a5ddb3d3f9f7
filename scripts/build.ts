/**
 * `npm run build`: an empty `dist/`, then the JavaScript and declarations of `src/`, file for file; and the default
 * paths of `handfast stdio` and `handfast rpc` a second time in few files, in `dist/cli/stdio/bundled/`.
 *
 * Packing and the benchmark need it; everything else runs the sources. The compiler stays a separate process so that
 * its exit code alone decides.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { rolldown } from 'rolldown';
import { builtinCapabilities } from '../src/capabilities/index.ts';

const root = dirname(import.meta.dirname);

/** The form in which a kind of file names the files that it imports. */
interface Imports {
  readonly pattern: RegExp;
  readonly extension: string;
}

const MODULES: Imports = {
  pattern: /^(?:import|export)[^'"]*?from\s*['"](\.[^'"]+)\.js['"]/gm,
  extension: '.js',
};
const TYPES: Imports = { pattern: /(?:from |import\(|import )'(\.[^']+)\.[jt]s'/g, extension: '.d.ts' };

// Output of a renamed or deleted source must not reach the package.
rmSync(join(root, 'dist'), { recursive: true, force: true });

const status = compiled('--emitDeclarationOnly') || compiled('--declaration', 'false', '--noCheck', '--removeComments');

if (status === 0) {
  removeUnusedTypes(join(root, 'dist'));
  await bundle(join(root, 'dist'), ['stdio', 'rpc']);
}

// npm sets the mode of `bin` files when it installs; a checkout run as dist/cli/main.js needs it too.
if (status === 0) chmodSync(join(root, 'dist', 'cli', 'main.js'), 0o755);
process.exitCode = status;

/** Runs the compiler; returns its exit code. Comments are for the declarations, which editors show. */
function compiled(...options: readonly string[]): number {
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const words = [compiler, '-p', 'tsconfig.build.json', ...options];
  return spawnSync(process.execPath, words, { cwd: root, stdio: 'inherit' }).status ?? 1;
}

/** Removes the declarations that no entry point of the package leads to. */
function removeUnusedTypes(dist: string): void {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    readonly exports: Readonly<Record<string, { readonly types: string }>>;
  };
  const used = new Set<string>();
  for (const { types } of Object.values(exports)) follow(join(root, types), used, TYPES);
  for (const path of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    if (path.endsWith('.d.ts') && !used.has(join(dist, path))) rmSync(join(dist, path));
  }
}

/**
 * Bundles the modules that a command loads at once. The program that starts `handfast stdio` or `handfast rpc` waits
 * for its handshake, and loading hundreds of small modules takes more than half of that time. The default path of each
 * command loads at once one separate file and one that both share; the rest stays apart. No plugin of a user is ever
 * loaded on this path, so no module exists twice in one process. See docs/decisions/0009-stdio-in-one-file.md.
 */
async function bundle(dist: string, commands: readonly string[]): Promise<void> {
  const folder = join(dist, 'cli', 'stdio');
  const entryOf = (command: string): string => join(folder, `${command}-default.js`);
  const atOnce = new Map(commands.map((command) => [command, loadedAtOnce(dist, entryOf(command))]));
  const bundled = await rolldown({
    input: {
      ...Object.fromEntries(commands.map((command) => [`${command}-default`, entryOf(command)])),
      ...besides(dist),
    },
    platform: 'node',
    external: (id) => !id.startsWith('.') && !id.startsWith('/'),
    // `groups` below decides which modules are loaded at once: an import of the rest need not be the only one of its
    // module.
    checks: { ineffectiveDynamicImport: false },
  });
  const isOf = (id: string, command: string): boolean => atOnce.get(command)?.has(id) === true;
  await bundled.write({
    dir: join(folder, 'bundled'),
    format: 'esm',
    minify: true,
    chunkFileNames: '[name]-[hash].js',
    codeSplitting: {
      groups: [
        { name: 'core', test: (id) => commands.every((command) => isOf(id, command)), priority: 1 },
        ...commands.map((command) => ({ name: `${command}-core`, test: (id: string) => isOf(id, command) })),
      ],
    },
  });
  for (const command of commands) {
    const caller = join(folder, `${command}.js`);
    const text = readFileSync(caller, 'utf8');
    const direct = `import('./${command}-default.js')`;
    if (!text.includes(direct))
      throw new Error(`${command}.js does not load ./${command}-default.js any more: follow it here`);
    writeFileSync(caller, text.replace(direct, `import('./bundled/${command}-default.js')`));
  }
}

/** Returns the modules that the default path of a command loads at once, including plugins that are not offered before. */
function loadedAtOnce(dist: string, entry: string): ReadonlySet<string> {
  const seen = new Set<string>();
  follow(entry, seen);
  for (const { name, byDefault, offer } of builtinCapabilities) {
    if (offer !== undefined) continue;
    const file = join(dist, 'capabilities', name, 'capability.js');
    for (const [, path] of readFileSync(file, 'utf8').matchAll(/import\('(\.[^']+)'\)/g)) {
      if (byDefault && /\/(?:plugin|builtin\/index)\.js$/.test(path as string))
        follow(resolve(dirname(file), path as string), seen);
    }
  }
  return seen;
}

/**
 * Returns the modules with which separate threads and processes start: each is found by its path next to the file that
 * starts it.
 */
function besides(dist: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const folder of ['base', 'capabilities']) {
    for (const path of readdirSync(join(dist, folder), { recursive: true, encoding: 'utf8' })) {
      if (!path.endsWith('.js')) continue;
      const file = join(dist, folder, path);
      for (const [, name] of readFileSync(file, 'utf8').matchAll(/new URL\(`\.\/([\w-]+)\$\{extension\}`/g)) {
        if (found[name as string] !== undefined) throw new Error(`two files start ${name}.js: rename one`);
        found[name as string] = join(dirname(file), `${name}.js`);
      }
    }
  }
  return found;
}

/** Adds a file and all that it imports: of modules, statically. */
function follow(file: string, seen: Set<string>, imports = MODULES): void {
  // Examples in comments of declarations name files that do not exist.
  if (seen.has(file) || (imports === TYPES && !existsSync(file))) return;
  seen.add(file);
  for (const [, path] of readFileSync(file, 'utf8').matchAll(imports.pattern))
    follow(resolve(dirname(file), `${path}${imports.extension}`), seen, imports);
}
