/**
 * The promises of `package.json`, checked on the sources: quick, so that a subpath without a file is noticed long
 * before `npm run pack-test` builds and installs the package.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { builtinCapabilities } from '../src/capabilities/index.ts';
import { importsOf, root } from './rules/scan.ts';

interface Manifest {
  readonly bin: Readonly<Record<string, string>>;
  readonly scripts: Readonly<Record<string, string>>;
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
}

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest;

test('every subpath of the package is a source file, and its built files mirror it', () => {
  for (const [subpath, { 'handfast-source': source, types, default: built }] of Object.entries(manifest.exports)) {
    assert.ok(existsSync(join(root, source)), `${subpath}: ${source} does not exist`);
    const name = source.replace(/^\.\/src\//, '').replace(/\.ts$/, '');
    assert.deepEqual([types, built], [`./dist/${name}.d.ts`, `./dist/${name}.js`]);
  }
});

test('every subpath can be imported by the name of the package and exports something', async () => {
  for (const subpath of Object.keys(manifest.exports)) {
    const module = (await import(`handfast${subpath.slice(1)}`)) as object;
    assert.ok(Object.keys(module).length > 0, `${subpath} exports nothing`);
  }
});

test('conditions are tried in the order handfast-source, types, browser, default', () => {
  // Type checkers, bundlers and Node take the first that fits, so a `default` before the others would hide them.
  for (const { browser, ...conditions } of Object.values(manifest.exports)) {
    assert.deepEqual(Object.keys(conditions), ['handfast-source', 'types', 'default']);
  }
  for (const conditions of Object.values(manifest.exports)) {
    if (conditions.browser !== undefined) assert.equal(Object.keys(conditions).indexOf('browser'), 2);
  }
});

test('what a page loads reaches no module of Node and no package', () => {
  const entries = Object.values(manifest.exports).flatMap(({ browser }) => browser ?? []);
  assert.deepEqual([...new Set(entries)].length, 2, entries.join());
  const seen = new Set<string>();
  const found: string[] = [];
  const follow = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const { specifier, typeOnly, lazy } of importsOf(readFileSync(join(root, file), 'utf8'))) {
      if (typeOnly) continue;
      if (specifier.startsWith('.')) follow(join(dirname(file), specifier));
      // Bundlers leave out modules that only checks of tools reach; test/browser inspects the bundles.
      else if (!(lazy && file === 'src/base/json-schema.ts')) found.push(`${file}: ${specifier}`);
    }
  };
  for (const entry of entries) follow(entry.replace(/^\.\/dist\/(.*)\.js$/, 'src/$1.ts'));
  assert.deepEqual(found, []);
  assert.ok(seen.size > 30, `${seen.size} files`);
});

test('a page has the client of every capability that comes with Handfast', async () => {
  const names = builtinCapabilities.filter(({ client }) => client !== undefined).map(({ name }) => name);
  const text = readFileSync(join(root, 'src/connect.browser.ts'), 'utf8');
  for (const name of names) assert.match(text, new RegExp(`^  ${name}: \\{\\s+name: '${name}',\\s+client: `, 'm'));
});

test('the command checks the Node version the package asks for before it loads anything', () => {
  const entry = manifest.bin.handfast!.replace(/^dist\/(.*)\.js$/, 'src/$1.ts');
  const text = readFileSync(join(root, entry), 'utf8');
  assert.match(text, /^#!\/usr\/bin\/env node\n/);
  const oldest = /^>=(\d+)$/.exec(manifest.engines.node)![1]!;
  assert.match(text, new RegExp(`\\b${oldest}\\b`));
  const atOnce = importsOf(text).filter(({ lazy, typeOnly }) => !lazy && !typeOnly);
  assert.deepEqual(atOnce, [], 'a static import is loaded, and fails on an older Node, before the check runs');
});

test('every entry point checks the Node version first', () => {
  const oldest = /^>=(\d+)$/.exec(manifest.engines.node)![1]!;
  const check = readFileSync(join(root, 'src/base/node-version.ts'), 'utf8');
  assert.match(check, new RegExp(`OLDEST_NODE = ${oldest};`));
  assert.deepEqual(importsOf(check), []);
  for (const [subpath, { 'handfast-source': source }] of Object.entries(manifest.exports)) {
    // Code that needs nothing of Node runs on any version.
    if (subpath === './errors') continue;
    const text = readFileSync(join(root, source), 'utf8');
    assert.match(text, /^\/\*\*.*?\*\/\n\nimport '\.\/base\/node-version\.ts';\n/s, subpath);
  }
});

test('every file that an npm script runs exists', () => {
  for (const [name, command] of Object.entries(manifest.scripts)) {
    const files = [...command.matchAll(/[\w./-]+\/[\w-]+\.ts\b/g)].map(([file]) => file);
    for (const file of files) assert.ok(existsSync(join(root, file)), `"${name}" runs ${file}`);
  }
});
