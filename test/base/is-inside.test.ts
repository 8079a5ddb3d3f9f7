/** Tells paths inside a folder from others. All code asks the one helper. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isInside, leadsOut } from '../../src/base/is-inside.ts';

test('a folder has itself and all below it, also names that begin with dots', () => {
  for (const path of ['/a/b', '/a/b/c', '/a/b/..c', '/a/b/..c/d', '/a/b/...', '/a/b/c/../d', '/a/b/.c']) {
    assert.ok(isInside('/a/b', path), path);
  }
  for (const path of ['/a', '/', '/a/bc', '/a/..b', '/a/b/..', '/a/b/../c', '/b'])
    assert.ok(!isInside('/a/b', path), path);
  for (const path of ['/', '/a', '/..a']) assert.ok(isInside('/', path), path);
});

test('a path leads out of its folder with two dots as a whole name, or from the root', () => {
  for (const path of ['..', '../a', '../..', '/a']) assert.ok(leadsOut(path), path);
  for (const path of ['', '.', '..a', '..a/b', '...', 'a']) assert.ok(!leadsOut(path), path);
});

test('no other file compares the start of a path with two dots', () => {
  const source = join(import.meta.dirname, '../../src');
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  const others = files.filter((file) => /startsWith\(['"`]\.\./.test(readFileSync(join(source, file), 'utf8')));
  // The second reads the names of modules, where `../` and `./` mean that a file is named.
  assert.deepEqual(others.sort(), ['base/is-inside.ts', 'capabilities/skill/sandbox/quickjs-thread.ts']);
});
