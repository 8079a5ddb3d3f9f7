import assert from 'node:assert/strict';
import { closeSync } from 'node:fs';
import { mkdir, symlink, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bestAddressing } from '../../../../src/base/workspace/held-directory.ts';
import { glob, grep } from '../../../../src/capabilities/tools/builtin/index.ts';
import { walkTree } from '../../../../src/capabilities/tools/builtin/tree-walk.ts';
import { openTree } from '../../../../src/capabilities/tools/builtin/workspace-tree.ts';
import { call, callShaped, failsWith, makeWorkspace, put, testCall } from './support.ts';

test('glob finds names at any depth, sorted by path', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'b.ts': '', 'a/x.ts': '', 'a-b/y.ts': '', 'a/x.js': '', 'a.ts': '' });
  const found = await callShaped(glob, { patterns: ['*.ts'] }, testCall(workspace));
  assert.deepEqual(found.data, { paths: ['a-b/y.ts', 'a.ts', 'a/x.ts', 'b.ts'], truncated: false, skipped: 0 });
  const started = await call(glob, { patterns: ['x.*', '!*.js'], path: 'a' }, testCall(workspace));
  assert.deepEqual(started.paths, ['a/x.ts']);
  const some = await callShaped(glob, { patterns: ['*.ts'], limit: 2 }, testCall(workspace));
  assert.deepEqual([some.data.paths, some.truncated], [['a-b/y.ts', 'a.ts'], true]);
  const exact = await call(glob, { patterns: ['*.ts'], limit: 4 }, testCall(workspace));
  assert.deepEqual([exact.paths.length, exact.truncated], [4, false]);
});

test('glob obeys nested .gitignore files as git does', async (t) => {
  const { workspace } = await makeWorkspace(t, {
    '.gitignore': '*.log\n/dist/\nbuild\n# comment\n!keep.log\ntemp\\#1\n',
    'a.log': '',
    'keep.log': '',
    'dist/x': '',
    'temp#1': '',
    'src/dist/x': '',
    'src/build/x': '',
    'src/.gitignore': '!special.log\n/only-here\n*.tmp\r\n',
    'src/special.log': '',
    'src/other.log': '',
    'src/only-here': '',
    'src/deep/only-here': '',
    'src/deep/a.tmp': '',
    'a.tmp': '',
    '[odd] dir/.gitignore': 'secret*\n!secret-not\n',
    '[odd] dir/secret': '',
    '[odd] dir/secret-not': '',
    'o dir/secret': '',
    'over/.gitignore': '!build\n',
    'over/build/y': '',
    '.git/config': '',
    'sub/.git/config': '',
  });
  const all = await call(glob, { patterns: ['**', '!.gitignore'] }, testCall(workspace));
  assert.deepEqual(all.paths, [
    '[odd] dir/secret-not',
    'a.tmp',
    'keep.log',
    'o dir/secret',
    'over/build/y',
    'src/deep/only-here',
    'src/dist/x',
    'src/special.log',
  ]);
  const from = await call(glob, { patterns: ['**', '!.gitignore'], path: 'src/deep' }, testCall(workspace));
  assert.deepEqual(from.paths, ['src/deep/only-here'], 'the rules above the start hold');
  const ignored = await call(glob, { patterns: ['**'], path: 'dist' }, testCall(workspace));
  assert.deepEqual(ignored.paths, ['dist/x'], 'an ignored directory that is named is searched');
  const without = await call(glob, { patterns: ['*.log', 'config'], gitignore: false }, testCall(workspace));
  assert.deepEqual(without.paths, ['a.log', 'keep.log', 'src/other.log', 'src/special.log'], '.git is never entered');
});

test('glob lists links and never walks through them', async (t) => {
  const { workspace, outside } = await makeWorkspace(t, { 'a/f.txt': '' });
  await put(outside, { 'secret/f.txt': 'secret' });
  await symlink('../secret', join(workspace, 'out'));
  await symlink('..', join(workspace, 'a/loop'));
  const found = await call(glob, { patterns: ['**'] }, testCall(workspace));
  assert.deepEqual(found.paths, ['a/f.txt', 'a/loop', 'out']);
});

test('where entries are addressed by path, the walk is the same', async (t) => {
  const { workspace, outside } = await makeWorkspace(t, {
    '.gitignore': 'skip\n',
    'a/x': 'in a',
    'a/skip': '',
    'b/.gitignore': 'y*\n',
    'b/y1': '',
    'b/z': '',
  });
  await put(outside, { 'secret/f': '' });
  await symlink('../secret', join(workspace, 'out'));
  for (const addressing of [bestAddressing, 'path'] as const) {
    await using tree = await openTree(workspace, '.', { addressing });
    const options = { gitignore: true, hidden: false, mayHold: () => true };
    const seen: string[] = [];
    for (const file of walkTree(tree.root, tree.start, tree.path, options, { unreadable: 0, tooDeep: 0 })) {
      seen.push(file.link ? `${file.path} -> ` : file.path);
      const fd = file.open();
      assert.equal(fd === undefined, file.link, file.path);
      if (fd !== undefined) closeSync(fd);
    }
    assert.deepEqual(seen, ['a/x', 'b/z', 'out -> '], addressing);
  }
});

test('names that begin with a dot can be left out of a search', async (t) => {
  const { workspace } = await makeWorkspace(t, { '.env': 'key', '.ci/run.yml': 'key', 'a.yml': 'key' });
  const found = await call(glob, { patterns: ['**'], hidden: false }, testCall(workspace));
  assert.deepEqual(found.paths, ['a.yml']);
  const lines = await call(grep, { pattern: 'key', output: 'files_with_matches' }, testCall(workspace));
  assert.deepEqual(lines.files, [{ path: '.ci/run.yml' }, { path: '.env' }, { path: 'a.yml' }]);
});

test('grep returns lines with their place, by file', async (t) => {
  const { workspace } = await makeWorkspace(t, {
    'a.txt': 'first\nsecond needle\nthird\r\nneedle at last',
    'b/c.txt': 'nothing\n',
    'b/d.txt': '  Needle\n',
  });
  const found = await callShaped(grep, { pattern: 'ne+dle' }, testCall(workspace));
  assert.deepEqual(found.data, {
    files: [
      {
        path: 'a.txt',
        matches: [
          { line: 2, column: 8, text: 'second needle' },
          { line: 4, column: 1, text: 'needle at last' },
        ],
      },
    ],
    files_searched: 3,
    truncated: false,
    skipped: { binary: 0, too_large: [], unreadable: 0 },
  });
  const both = await call(grep, { pattern: 'NEEDLE', ignore_case: true, output: 'count' }, testCall(workspace));
  assert.deepEqual(both.files, [
    { path: 'a.txt', count: 2 },
    { path: 'b/d.txt', count: 1 },
  ]);
  const ends = await call(grep, { pattern: 'third$', output: 'count' }, testCall(workspace));
  assert.deepEqual(ends.files, [{ path: 'a.txt', count: 1 }], 'a carriage return is no part of a line');
});

test('grep shows the lines around a match, none of them twice', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: '1\n2\nhit 3\n4\n5\n6\nhit 7\nhit 8\n9\n' });
  const found = await call(grep, { pattern: 'hit', before: 2, after: 2 }, testCall(workspace));
  assert.deepEqual(found.files[0].matches, [
    { line: 3, column: 1, text: 'hit 3', before: ['1', '2'], after: ['4', '5'] },
    { line: 7, column: 1, text: 'hit 7', before: ['6'] },
    { line: 8, column: 1, text: 'hit 8', after: ['9'] },
  ]);
});

test('grep takes plain text literally and filters by file name', async (t) => {
  const { workspace } = await makeWorkspace(t, {
    'a.ts': 'f(x) + [y]',
    'b.js': 'F(X) + [Y]',
    'src/c.ts': 'f(x) + [y]',
  });
  const find = async (args: Record<string, unknown>): Promise<string[]> => {
    const { files } = await call(grep, { output: 'files_with_matches', literal: true, ...args }, testCall(workspace));
    return files.map(({ path }: { path: string }) => path);
  };
  assert.deepEqual(await find({ pattern: '(x) + [' }), ['a.ts', 'src/c.ts']);
  assert.deepEqual(await find({ pattern: '(x) + [', ignore_case: true }), ['a.ts', 'b.js', 'src/c.ts']);
  assert.deepEqual(await find({ pattern: '(x)', globs: ['src/**'] }), ['src/c.ts']);
  assert.deepEqual(await find({ pattern: '(x)', globs: ['!src/'] }), ['a.ts']);
  assert.deepEqual(await find({ pattern: '(x)', path: 'src/c.ts' }), ['src/c.ts']);
});

test('grep stops at its limit and says so', async (t) => {
  const { workspace } = await makeWorkspace(t, { a: 'x\nx\nx\n', b: 'x\nx\n', c: 'x\n' });
  const search = (args: Record<string, unknown>) => callShaped(grep, { pattern: 'x', ...args }, testCall(workspace));
  const lines = await search({ limit: 4 });
  assert.equal(lines.truncated, true);
  assert.deepEqual(
    lines.data.files.map((file: { matches: unknown[] }) => file.matches.length),
    [3, 1],
  );
  assert.equal((await search({ limit: 6 })).truncated, false);
  const files = await search({ limit: 2, output: 'files_with_matches' });
  assert.deepEqual([files.data.files.length, files.truncated], [2, true]);
  assert.equal((await search({ limit: 3, output: 'files_with_matches' })).truncated, false);
});

test('grep skips binary and huge files and says so, and cuts long lines around the match', async (t) => {
  const { workspace } = await makeWorkspace(t, {
    binary: 'needle\0',
    long: `${'x'.repeat(5000)}needle${'y'.repeat(5000)}`,
    huge: 'needle',
  });
  await truncate(join(workspace, 'huge'), 17 * 1024 * 1024);
  const found = await call(grep, { pattern: 'needle' }, testCall(workspace));
  assert.deepEqual(found.skipped, { binary: 1, too_large: ['huge'], unreadable: 0 });
  const [match] = found.files[0].matches;
  assert.equal(match.column, 5001);
  assert.match(match.text, /^…x{100}needley{294}…$/);
});

test('grep answers stay small however much matches', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: `${'match '.repeat(60)}\n`.repeat(5000) });
  const found = await callShaped(grep, { pattern: 'match', limit: 5000 }, testCall(workspace));
  assert.equal(found.truncated, true);
  assert.ok(JSON.stringify(found.data).length < 300_000);
});

test('a pattern that is no expression, or cannot match a line, is refused with its reason', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: 'x' });
  const bad = failsWith('tool_error', 'bad_pattern', workspace);
  await assert.rejects(call(grep, { pattern: '(' }, testCall(workspace)), bad);
  await assert.rejects(call(grep, { pattern: 'a\nb', literal: true }, testCall(workspace)), bad);
  // Escapes that only the older syntax knows still work, and so do those that only the newer one knows.
  await put(workspace, { f: 'a-b\nÄ' });
  assert.equal((await call(grep, { pattern: 'a\\-b' }, testCall(workspace))).files.length, 1);
  assert.equal((await call(grep, { pattern: '^\\p{Lu}$' }, testCall(workspace))).files[0].matches[0].line, 2);
});

/** Returns the number of turns of the event loop during some work. */
async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 5);
  await work.finally(() => clearInterval(timer));
  return turns;
}

const catastrophic = { pattern: '^(a+)+$' };
const bait = `${'a'.repeat(60)}!`;

test('an expression that never ends is stopped at the time limit, with the file it was in', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'a.txt': 'fine', 'b.txt': bait });
  const searching = call(grep, { ...catastrophic, time_limit_seconds: 2 }, testCall(workspace));
  const turns = turnsDuring(
    assert.rejects(searching, (error: Error & { detail?: Record<string, unknown> }) => {
      assert.ok(failsWith('timeout', 'time_limit', workspace)(error));
      assert.deepEqual([error.detail?.stopped_at, error.detail?.files_begun], ['b.txt', 2]);
      return true;
    }),
  );
  assert.ok((await turns) > 5, 'the host was held up');
});

test('an expression that never ends is stopped when the call is given up', async (t) => {
  const { workspace } = await makeWorkspace(t, { f: bait });
  const context = testCall(workspace);
  const searching = call(grep, catastrophic, context);
  setTimeout(() => context.cancel(), 150);
  await assert.rejects(searching, failsWith('cancelled'));
});

test('a file name pattern made to hang is stopped too', async (t) => {
  const { workspace } = await makeWorkspace(t, { ['a'.repeat(200)]: '' });
  const patterns = [`${'*a'.repeat(30)}*b`];
  const searching = call(glob, { patterns, time_limit_seconds: 0.3 }, testCall(workspace));
  await assert.rejects(searching, failsWith('timeout', 'time_limit'));
});

test('directories inside one another are walked down to a bound', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const deep = Array.from({ length: 150 }, () => 'd').join('/');
  await mkdir(join(workspace, deep), { recursive: true });
  await put(workspace, { 'd/near': '', [`${deep}/far`]: '' });
  const found = await call(glob, { patterns: ['**'] }, testCall(workspace));
  assert.deepEqual([found.paths, found.skipped], [['d/near'], 1]);
});
