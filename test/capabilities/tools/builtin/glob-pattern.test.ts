import assert from 'node:assert/strict';
import { test } from 'node:test';
import { globExpression, pathFilter } from '../../../../src/capabilities/tools/builtin/glob-pattern.ts';

/** pattern: [paths that match, paths that do not] */
const table: Record<string, [string[], string[]]> = {
  '*.ts': [
    ['a.ts', 'x/y/a.ts', '.ts'],
    ['a.tsx', 'a.ts/b'],
  ],
  './*.ts': [['a.ts'], ['x/a.ts']],
  '/*.ts': [['a.ts'], ['x/a.ts']],
  'src/*.ts': [['src/a.ts'], ['src/x/a.ts', 'lib/src/a.ts']],
  'src/**': [
    ['src/a', 'src/x/y/z'],
    ['src', 'srcs/a'],
  ],
  'src/': [['src/a', 'src/x/y'], ['src']],
  'src/**/a.ts': [
    ['src/a.ts', 'src/x/a.ts', 'src/x/y/a.ts'],
    ['src/xa.ts', 'a.ts'],
  ],
  '**/test/**': [
    ['test/a', 'x/test/y/a'],
    ['test', 'tests/a'],
  ],
  '**': [['a', 'a/b/c', '.x'], []],
  'a?c': [
    ['abc', 'x/a€c', 'a😀c'],
    ['ac', 'abbc'],
  ],
  'x/a?c': [['x/abc'], ['x/a/c']],
  '[a-c]1': [
    ['a1', 'c1'],
    ['d1', '[a-c]1'],
  ],
  '[!a-c]1': [['d1'], ['a1']],
  '[^a-c]1': [['d1'], ['b1']],
  'x/[!a]b': [['x/cb'], ['x//b', 'x/ab']],
  '[]]x': [[']x'], ['x']],
  '[z-a]': [[], ['z', 'a', '[z-a]']],
  '[a': [['[a'], ['a']],
  '*.{ts,tsx}': [
    ['a.ts', 'a.tsx'],
    ['a.js', 'a.{ts,tsx}'],
  ],
  '{src,test/unit}/*.ts': [['src/a.ts', 'test/unit/a.ts'], ['unit/a.ts']],
  'a{b,c{d,e}}f': [['abf', 'acdf', 'acef'], ['acf']],
  '{a}': [['{a}'], ['a']],
  '{a,b': [['{a,b'], ['a']],
  'a}': [['a}'], ['a']],
  '{[}],x}': [['}', 'x'], ['[}]']],
  '\\*': [['*'], ['a']],
  '\\{a,b}': [['{a,b}'], ['a']],
  'a+(b).c': [['a+(b).c'], ['aab.c']],
  'a\\': [['a\\'], ['a']],
};

for (const [pattern, [matching, others]] of Object.entries(table)) {
  test(`the pattern ${pattern} matches what it should and nothing else`, () => {
    const expression = globExpression(pattern);
    for (const path of matching) assert.match(path, expression);
    for (const path of others) assert.doesNotMatch(path, expression);
  });
}

test('unfinished braces take no longer than finished ones', () => {
  const before = process.threadCpuUsage();
  for (const pattern of ['{'.repeat(500), '{[}]'.repeat(200), '{a,'.repeat(300)]) globExpression(pattern);
  assert.ok(process.threadCpuUsage(before).user < 2_000_000);
});

test('directories that cannot hold a match are not entered', () => {
  const filter = pathFilter(['src/app/**/*.ts', 'docs/*.md']);
  for (const directory of ['src', 'src/app', 'src/app/deep', 'docs']) assert.ok(filter.mayHold(directory), directory);
  for (const directory of ['lib', 'src/other', 'test/src']) assert.ok(!filter.mayHold(directory), directory);
  assert.ok(pathFilter(['*.ts']).mayHold('anything/at/all'));
  assert.ok(pathFilter(['{src,lib}/x/*']).mayHold('lib'));
  assert.ok(pathFilter(['!x']).mayHold('lib'));
});
