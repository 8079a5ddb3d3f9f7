/**
 * `npm run pack-test`: checks the package that would be published. Builds, packs, installs the package into an empty
 * folder as a stranger would, and uses it there: every subpath, the types, the command.
 *
 * Needs the network (or npm's cache) for the run-time dependencies. For `.ci/run` and before a release.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { rolldown } from 'rolldown';

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly exports: Readonly<
    Record<
      string,
      {
        readonly 'handfast-source': string;
        readonly types: string;
        readonly browser?: string;
        readonly default: string;
      }
    >
  >;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly scripts?: Readonly<Record<string, string>>;
}

const root = dirname(import.meta.dirname);
const manifestOf = (folder: string) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
const manifest = manifestOf(root);
const subpaths = Object.keys(manifest.exports).map((subpath) => manifest.name + subpath.slice(1));

/**
 * Subpaths whose types are also those of optional packages, and the scope of these. Their code is loaded at its first
 * use.
 */
const optional: Readonly<Record<string, string>> = { 'handfast/fleet-nats': '@nats-io/' };

/** Examples that need more than Handfast alone, and the packages they need. */
const needs: Readonly<Record<string, readonly string[]>> = {
  'mcp.ts': ['@modelcontextprotocol/client', '@modelcontextprotocol/server-everything'],
  'mcp-server.ts': ['@modelcontextprotocol/client'],
  'skill.ts': ['quickjs-emscripten'],
  'terminal.ts': ['@lydell/node-pty'],
  'tour.ts': ['quickjs-emscripten', '@modelcontextprotocol/client', '@modelcontextprotocol/server-everything'],
};
const exampleVariables = (): Record<string, string> => ({
  HANDFAST_HOME: join(folder, 'examples-home'),
  HANDFAST_KEYRING: 'off',
});

const folder = mkdtempSync(join(tmpdir(), 'handfast-pack-'));
const consumer = join(folder, 'consumer');
const installed = join(consumer, 'node_modules', manifest.name);

/** Longest any one program may run: an install over a slow network takes most of it. */
const programTimeoutMs = 240_000;

/**
 * The environment of a stranger: the same Node first in the path, and nothing of the npm that may be running this
 * script, because a nested npm would take this repository for its own project.
 */
const environment: NodeJS.ProcessEnv = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^npm_(?!config_(?:registry|cache|userconfig|globalconfig|cafile)$)/.test(name),
    ),
  ),
  PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
};

/** Runs a program to its end and returns its output; fails with that text when the exit code is another. */
function run(
  command: string,
  args: readonly string[],
  cwd: string,
  expectedExit = 0,
  variables: Readonly<Record<string, string>> = {},
) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    env: { ...environment, ...variables },
    encoding: 'utf8',
    timeout: programTimeoutMs,
    maxBuffer: 64 * 1024 * 1024,
  });
  assert.equal(error, undefined);
  assert.equal(status, expectedExit, `${command} ${args.join(' ')} exited with ${status}:\n${stdout}${stderr}`);
  return { stdout, stderr };
}

interface Packed {
  readonly filename: string;
  readonly integrity: string;
  readonly files: readonly { readonly path: string }[];
}

function buildAndPack(): Packed {
  run(process.execPath, [join(root, 'scripts', 'build.ts')], root);
  const { stdout } = run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], root);
  const output: unknown = JSON.parse(stdout);
  // npm printed a list up to version 11, and an object keyed by package name after it.
  return (Array.isArray(output) ? output[0] : Object.values(output as object)[0]) as Packed;
}

/**
 * Installs packages. Those from which the repository itself was installed are in npm's cache; a registry that hangs
 * must not hang this.
 */
function install(...packages: readonly string[]): void {
  const npm = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline', '--fetch-timeout=60000'];
  run('npm', [...npm, ...packages], consumer);
}

/** The strictest that a user may ask for; not all packages of others compile with them. */
const STRICTEST = ['--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--verbatimModuleSyntax'];

/** Compiles a program that uses the types of these subpaths, and those of everything they bring. */
function checkTypes(paths: readonly string[], options: readonly string[] = []): void {
  const lines = paths.map((path, index) => `export type Subpath${index} = keyof typeof import('${path}');`);
  const uses = paths.map(
    (_, index) => `export const name${index}: Subpath${index} extends never ? never : string = 'x';`,
  );
  writeFileSync(join(consumer, 'consumer.ts'), [...lines, ...uses, ''].join('\n'));
  const flags = ['--noEmit', '--strict', '--target', 'es2024', '--module', 'nodenext', '--skipLibCheck', 'false'];
  const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules', '@types')];
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  run(process.execPath, [compiler, ...flags, ...options, ...types, 'consumer.ts'], consumer);
}

let packed: Packed;

before(() => {
  packed = buildAndPack();
  mkdirSync(consumer);
  writeFileSync(join(consumer, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type: 'module' }));
  install(join(folder, packed.filename));
});

after(() => rmSync(folder, { recursive: true, force: true }));

test('the package holds what users need and nothing else', () => {
  const allowed =
    /^(?:dist\/.+\.(?:js|d\.ts)|schema\/[\w-]+\.json|docs\/(?!simulation).+\.md|docs\/images\/[\w-]+\.svg|examples\/.+\.(?:ts|json|md)|python\/\w+\.py|test\/vectors\/(?:fleet|session-rpc)\/[\w.-]+\.(?:nd)?json|package\.json|LICENSE|(?:README|CHANGELOG|SECURITY|CONTRIBUTING)\.md)$/;
  const paths = packed.files.map(({ path }) => path);
  assert.deepEqual(
    paths.filter((path) => !allowed.test(path)),
    [],
  );
  for (const path of ['LICENSE', 'README.md', 'CHANGELOG.md', 'SECURITY.md', 'docs/errors.md', 'dist/cli/main.js']) {
    assert.ok(paths.includes(path), `${path} is missing`);
  }
});

test('every link of the README and of the pages leads to a file of the package', () => {
  const paths = new Set(packed.files.map(({ path }) => path));
  const broken = [...paths]
    // Only the sources have the other pages that the pages for contributors and the decisions link to.
    .filter(
      (path) =>
        path.endsWith('.md') && !/^(?:CONTRIBUTING|CHANGELOG|docs\/(?:decisions|walkthroughs|performance))/.test(path),
    )
    .flatMap((path) => {
      const prose = readFileSync(join(installed, path), 'utf8').replace(/^```.*?^```$/gms, '');
      return [...prose.matchAll(/\]\((?!\w+:)([^)\s#]+)/g)]
        .map(([, target = '']) => join(dirname(path), target))
        .filter((target) => !paths.has(target))
        .map((target) => `${path}: ${target}`);
    });
  assert.deepEqual(broken, []);
});

test('the addresses in package.json are absent, because there is none that is true', () => {
  for (const member of ['repository', 'homepage', 'bugs', 'funding'])
    assert.ok(!(member in manifestOf(installed)), `${member}: check that it leads somewhere, then remove this line`);
});

test('the sessions of the README and every program of examples/, its blocks among them, run in the installed package', () => {
  for (const name of ['LICENSE', 'README.md', 'docs'])
    cpSync(join(installed, name), join(consumer, name), { recursive: true });
  // The agents of two examples read sources, and others start the command where a clone has it: here it is the installed one.
  cpSync(join(root, 'src', 'connection'), join(consumer, 'src', 'connection'), { recursive: true });
  mkdirSync(join(consumer, 'src', 'cli'));
  writeFileSync(join(consumer, 'src', 'cli', 'main.ts'), "import '../../node_modules/handfast/dist/cli/main.js';\n");
  const examples = join(consumer, 'examples');
  cpSync(join(installed, 'examples'), examples, { recursive: true });
  const programs = readdirSync(examples).filter((name) => name.endsWith('.ts'));
  // An example asserts its claims itself: a false one ends with an error.
  for (const name of programs.filter((each) => needs[each] === undefined)) {
    assert.notEqual(run(process.execPath, [join(examples, name)], consumer, 0, exampleVariables()).stdout, '', name);
  }
  for (const block of ['first-plugin.ts', 'sessions.ts', 'tour.ts']) assert.ok(programs.includes(block), block);
  const readme = readFileSync(join(installed, 'README.md'), 'utf8');
  const shown = [...readme.matchAll(/^\$ handfast ((?:session|tools) .+)\n((?:(?!\$ |```).+\n)+)/gm)];
  assert.ok(shown.length >= 2);
  const home = { HANDFAST_HOME: join(folder, 'readme-home'), HANDFAST_KEYRING: 'off' };
  const bin = join(consumer, 'node_modules', '.bin', 'handfast');
  const server = spawn(bin, ['up', '--port', '0', '--json'], {
    cwd: consumer,
    env: { ...environment, ...home },
    stdio: 'ignore',
  });
  try {
    // Its address is found as a reader finds it: by the running host of this user.
    const ping = () => spawnSync(bin, ['ping'], { env: { ...environment, ...home } }).status;
    for (let left = 100; ping() !== 0 && left > 0; left -= 1);
    for (const [, words = '', output = ''] of shown) {
      const { stdout } = run(bin, words.split(' '), consumer, 0, home);
      assert.equal(stdout.trimEnd(), output.trimEnd(), words);
    }
  } finally {
    server.kill('SIGINT');
  }
});

test('nothing in the package looks like a secret or names a path of the machine it was packed on', () => {
  const secret =
    /-----BEGIN [A-Z ]*PRIVATE KEY|\b(?:npm|ghp|gho|github_pat)_\w{20,}|\bAKIA[0-9A-Z]{16}\b|\b(?:sk-|hf_)[\w-]{20,}/;
  for (const { path } of packed.files) {
    const text = readFileSync(join(installed, path), 'utf8');
    assert.doesNotMatch(text, secret, path);
    assert.ok(!text.includes(root), `${path} names ${root}`);
  }
});

test('packing the same sources twice gives the same package', () => {
  assert.equal(buildAndPack().integrity, packed.integrity);
});

test('no package of the default install runs a script when it is installed', () => {
  const modules = join(consumer, 'node_modules');
  const folders = readdirSync(modules)
    .filter((name) => !name.startsWith('.'))
    .flatMap((name) =>
      name.startsWith('@') ? readdirSync(join(modules, name)).map((part) => join(name, part)) : [name],
    );
  assert.ok(folders.includes(manifest.name));
  const scripted = folders.filter((name) =>
    ['preinstall', 'install', 'postinstall'].some(
      (script) => script in (manifestOf(join(modules, name)).scripts ?? {}),
    ),
  );
  assert.deepEqual(scripted, []);
});

test('every subpath of exports can be imported and exports something', () => {
  const program = `
    for (const subpath of ${JSON.stringify(subpaths)}) {
      const names = Object.keys(await import(subpath));
      if (names.length === 0) throw new Error(subpath + ' exports nothing');
      console.log(subpath, names.length);
    }`;
  const { stdout, stderr } = run(process.execPath, ['--input-type=module', '--eval', program], consumer);
  assert.equal(stdout.trim().split('\n').length, subpaths.length);
  assert.equal(stderr, '', 'importing the package prints nothing');
});

test('every subpath has types that resolve and check, those of its dependencies included', () => {
  checkTypes(
    subpaths.filter((subpath) => optional[subpath] === undefined),
    STRICTEST,
  );
});

test('the types of a subpath for optional packages check where these are installed', () => {
  for (const [subpath, scope] of Object.entries(optional)) {
    const packages = Object.entries(manifest.peerDependencies).filter(([name]) => name.startsWith(scope));
    install(...packages.map(([name, range]) => `${name}@${range}`));
    checkTypes([subpath]);
  }
});

test('examples that need further packages run where these are installed', () => {
  for (const [name, packages] of Object.entries(needs)) {
    install(...packages.map((each) => `${each}@${manifest.devDependencies[each]}`));
    const { stdout } = run(process.execPath, [join(consumer, 'examples', name)], consumer, 0, exampleVariables());
    assert.notEqual(stdout, '', name);
  }
});

test('a bundler for pages finds the entry points of browsers, and reaches nothing of Node', async () => {
  const pages = Object.entries(manifest.exports).flatMap(([subpath, { browser }]) =>
    browser === undefined
      ? []
      : [`export * as page${subpath.replace(/\W/g, '')} from '${manifest.name}${subpath.slice(1)}';`],
  );
  assert.equal(pages.length, 3);
  writeFileSync(join(consumer, 'page.js'), pages.join('\n'));
  const bundle = await rolldown({ input: join(consumer, 'page.js'), platform: 'browser', logLevel: 'silent' });
  const { output } = await bundle.generate({ format: 'esm' });
  await bundle.close();
  // The clients of capabilities are separate files; every import leads to one of the bundle.
  const chunks = output.filter((each) => each.type === 'chunk');
  const made = chunks.map(({ fileName }) => fileName);
  const imported = chunks.flatMap(({ imports, dynamicImports }) => [...imports, ...dynamicImports]);
  assert.deepEqual(
    imported.filter((name) => !made.includes(name)),
    [],
  );
  assert.ok(output[0].dynamicImports.length > 0);
});

test('the installed command runs and tells its version', () => {
  const { stdout } = run(join(consumer, 'node_modules', '.bin', 'handfast'), ['--version'], consumer);
  assert.equal(stdout.trim(), manifest.version);
});

test('an older Node gets one clear line: exit code 2 of the command, an error without a stack of every subpath', (context) => {
  const oldest = Number(/\d+/.exec(manifest.engines.node)![0]);
  const candidates = ['/usr/bin/node', '/usr/local/bin/node'].filter((path) => existsSync(path));
  const old = candidates.find(
    (path) => Number.parseInt(run(path, ['-p', 'process.versions.node'], consumer).stdout, 10) < oldest,
  );
  if (old === undefined) return context.skip('this machine has no Node that is too old');
  const { stdout, stderr } = run(old, [join(installed, 'dist', 'cli', 'main.js'), '--version'], consumer, 2);
  assert.equal(stdout, '');
  const line = new RegExp(`^handfast needs Node ${oldest} or newer; this is v.*nodejs\\.org.*$`);
  assert.match(stderr.trimEnd(), line);
  for (const subpath of subpaths.filter((path) => path !== 'handfast/errors')) {
    const program = `import('${subpath}').then(() => console.log('loaded'), ({ message, stack }) => console.log(message + (stack.includes('\\n') ? stack : '')))`;
    assert.match(run(old, ['--eval', program], consumer).stdout.trimEnd(), line, subpath);
  }
});

test('a capability package that was built and installed beside it serves, calls and has commands', () => {
  const notes = join(consumer, 'notes-source');
  cpSync(join(root, 'examples', 'capability-package'), notes, { recursive: true });
  // Its sources see the installed package alone: its types and its code come from there.
  const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules', '@types')];
  run(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', '.', ...types], notes);
  run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], notes);
  install(join(folder, packed.filename), join(folder, 'handfast-notes-1.0.0.tgz'));
  rmSync(notes, { recursive: true });
  writeFileSync(join(consumer, 'todo.txt'), 'from a file\n');
  writeFileSync(
    join(consumer, 'handfast.yaml'),
    'listen: tcp://127.0.0.1:0\naudit: { enabled: false }\nplugins: [tools, { use: handfast-notes, options: { max_notes: 9 } }]\n',
  );
  const program = `
    import assert from 'node:assert/strict';
    import { execFile } from 'node:child_process';
    import { readFileSync } from 'node:fs';
    import { promisify } from 'node:util';
    import { connect, serve } from 'handfast';
    import { capability } from 'handfast-notes';

    const server = await serve('handfast.yaml', { announce: false });
    const token = readFileSync(server.tokenFile, 'utf8').trim();
    const agent = await connect(server.url, { capabilities: [capability, 'tools'], token });
    const changed = new Promise((resolve) => agent.notes.onChange(resolve));
    const watched = Array.fromAsync(agent.notes.watch('', 2));
    await agent.ping();
    await agent.notes.set('a', 'first');
    assert.equal((await changed).key, 'a');
    assert.match((await agent.notes.import('b', 'todo.txt')).text, /from a file/);
    assert.deepEqual((await watched).map(({ key }) => key), ['a', 'b']);
    await agent.notes.delete('b', () => true);
    await assert.rejects(agent.notes.delete('b', () => true), { code: 'notes.missing' });
    assert.equal((await agent.notes.export()).count, 1);
    const handfast = (...words) =>
      promisify(execFile)(process.execPath, ['node_modules/handfast/dist/cli/main.js', ...words]);
    // The command comes from a package that the file of this folder names.
    await handfast('trust', 'add', '--yes', '.');
    const { stdout } = await handfast('notes', 'ls', '--connect', server.url);
    assert.equal(stdout, 'a: first\\n');
    await agent.close();
    await server.close();
    console.log('done');`;
  const home = { HANDFAST_HOME: join(folder, 'home') };
  const { stdout } = run(process.execPath, ['--input-type=module', '--eval', program], consumer, 0, home);
  assert.equal(stdout.trim(), 'done');
});
