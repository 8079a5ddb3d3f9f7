/** The toolkit `search`, ranked: real folders that change between searches, limits, and the visibility of files. */
import assert from 'node:assert/strict';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { PathGuard } from '../../../src/base/workspace/protected-paths.ts';
import { matchOf, passagesOf, spaced } from '../../../src/capabilities/tools/builtin/passages.ts';
import {
  type IndexLimits,
  type RankedArgs,
  type RankedResult,
  rankFiles,
} from '../../../src/capabilities/tools/builtin/ranked-search.ts';
import { SearchProgress } from '../../../src/capabilities/tools/builtin/search-progress.ts';
import { agentOf, folder, refusalOf, toolkitsHost } from './support.ts';

function put(workspace: string, files: Readonly<Record<string, string | Uint8Array>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(workspace, path)), { recursive: true });
    writeFileSync(join(workspace, path), content);
  }
}

/** Searches without a thread, with a separate index. */
function searcher(t: TestContext, workspace: string, guard?: PathGuard) {
  const index = join(folder(t), 'search.db');
  const search = (query: string, more: Partial<RankedArgs> = {}, limits?: IndexLimits) => {
    const args = { query, path: '.', globs: [], limit: 10, time_limit_seconds: 60, ...more };
    return rankFiles(workspace, args, index, new SearchProgress(), guard, limits);
  };
  return { index, search };
}

const pathsOf = ({ passages }: Pick<RankedResult, 'passages'>): string[] => passages.map(({ path }) => path);

test('passages with the words of a query are found, the best first, with the numbers of their lines', async (t) => {
  const workspace = folder(t);
  const filler = Array.from({ length: 60 }, (_, at) => `line ${at} speaks of the weather`);
  put(workspace, {
    'src/retry.ts': [
      ...filler,
      'export function retryWithBackoff(delayMs: number) {}',
      '// waits longer each time',
    ].join('\n'),
    'docs/guide.md': 'A request that fails is made again after a delay.\n',
    'docs/other.md': 'Nothing of it.\n',
    'delay.txt': 'x\n',
  });
  const { search } = searcher(t, workspace);
  const found = await search('retry with backoff');
  assert.equal(found.passages[0]?.path, 'src/retry.ts');
  assert.deepEqual([found.passages[0]?.line, found.passages[0]?.end_line], [41, 62]);
  assert.match(found.passages[0]?.text ?? '', /^line 40 [\s\S]*retryWithBackoff[\s\S]*each time$/);
  assert.deepEqual([found.complete, found.truncated, found.files_searched], [true, false, 4]);
  // Other forms of a word, and names by their parts; the words of a path count more than those of a text.
  assert.ok(pathsOf(await search('failing requests')).includes('docs/guide.md'));
  assert.deepEqual([...new Set(pathsOf(await search('retry_with_backoff')))], ['src/retry.ts']);
  assert.deepEqual(pathsOf(await search('delay')).slice(0, 1), ['delay.txt']);
  const scores = (await search('delay time request')).passages.map(({ score }) => score);
  assert.deepEqual(
    scores,
    scores.toSorted((one, other) => other - one),
  );
  // Text that would be syntax elsewhere is text.
  for (const query of ['"', 'a" OR "b', 'NEAR(', '*', '-x ^y {z}: AND', '\u0000', '\ud800'.toWellFormed()]) {
    assert.deepEqual((await search(query)).complete, true, query);
  }
  assert.deepEqual((await search('?!')).passages, []);
});

test('limit, three passages of a file, globs and a directory', async (t) => {
  const workspace = folder(t);
  const long = Array.from({ length: 400 }, (_, at) => `needle ${at}`).join('\n');
  put(workspace, { 'a/long.txt': long, 'b/one.md': 'needle\n', 'b/two.txt': 'needle\n' });
  const { search } = searcher(t, workspace);
  const all = await search('needle');
  assert.equal(pathsOf(all).filter((path) => path === 'a/long.txt').length, 3);
  assert.deepEqual([all.passages.length, all.truncated], [5, false]);
  const some = await search('needle', { limit: 2 });
  assert.deepEqual([some.passages.length, some.truncated], [2, true]);
  assert.deepEqual(pathsOf(await search('needle', { globs: ['*.md'] })), ['b/one.md']);
  assert.deepEqual(pathsOf(await search('needle', { path: 'b', globs: ['!two.*'] })), ['b/one.md']);
  assert.equal(await refusalOf(search('needle', { path: 'no' })), 'tool_error not_found');
  assert.equal(await refusalOf(search('needle', { path: '..' })), 'tool_denied outside_workspace');
});

test('files that are new, changed, renamed, deleted or ignored by now', async (t) => {
  const workspace = folder(t);
  put(workspace, { 'a.txt': 'apple\n', 'b.txt': 'banana\n', 'c.txt': 'cherry\n', 'sub/d.txt': 'date\n' });
  const { search } = searcher(t, workspace);
  assert.deepEqual(pathsOf(await search('apple banana')).sort(), ['a.txt', 'b.txt']);
  const { atime, mtime } = statSync(join(workspace, 'a.txt'));
  writeFileSync(join(workspace, 'a.txt'), 'melon\n');
  // Even one with the size and the time of the old file.
  utimesSync(join(workspace, 'a.txt'), atime, mtime);
  rmSync(join(workspace, 'b.txt'));
  renameSync(join(workspace, 'c.txt'), join(workspace, 'e.txt'));
  put(workspace, { 'f.txt': 'fig\n' });
  assert.deepEqual(pathsOf(await search('apple banana')), []);
  assert.deepEqual(pathsOf(await search('melon cherry fig date')).sort(), ['a.txt', 'e.txt', 'f.txt', 'sub/d.txt']);
  put(workspace, { '.gitignore': 'sub/\n' });
  assert.deepEqual(pathsOf(await search('date')), []);
  // A caller that names an ignored directory wants to see its content; it does not stay for others.
  assert.deepEqual(pathsOf(await search('date', { path: 'sub' })), ['sub/d.txt']);
  assert.deepEqual(pathsOf(await search('date')), []);
});

test('binary and large files, links, and what is in .git are left out', async (t) => {
  const [workspace, outside] = [folder(t), folder(t)];
  put(outside, { 'secret.txt': 'needle outside\n' });
  put(workspace, {
    'text.txt': 'needle\n',
    'binary.bin': Buffer.from('needle\0needle'),
    'large.txt': `needle\n${'x'.repeat(1024 * 1024)}`,
    '.git/config': 'needle\n',
    'minified.js': `needle(${'y'.repeat(100_000)})`,
  });
  symlinkSync(outside, join(workspace, 'folder'));
  symlinkSync(join(outside, 'secret.txt'), join(workspace, 'file.txt'));
  symlinkSync('.', join(workspace, 'loop'));
  const { search } = searcher(t, workspace);
  const found = await search('needle outside');
  assert.deepEqual(pathsOf(found).sort(), ['minified.js', 'text.txt']);
  assert.deepEqual(found.skipped, { binary: 1, too_large: 1, unreadable: 0 });
  assert.ok(found.passages.every(({ text }) => text.length < 1_000));
  assert.equal(await refusalOf(search('needle', { path: 'folder' })), 'tool_denied outside_workspace');
});

test('more files than are indexed, an index that is full, and a time that is up: said, and continued', async (t) => {
  const workspace = folder(t);
  const name = (at: number) => `${String(at).padStart(4, '0')}.txt`;
  put(workspace, Object.fromEntries(Array.from({ length: 1_500 }, (_, at) => [name(at), `needle word${at}\n`])));
  const { search, index } = searcher(t, workspace);
  const few = await search('needle', {}, { maxFiles: 100 });
  assert.deepEqual([few.complete, few.files_searched], [false, 100]);
  const late = await search('word1400', {}, { readingMs: 0 });
  assert.deepEqual([late.complete, late.passages, late.files_searched], [false, [], 100]);
  const whole = await search('word1400');
  assert.deepEqual([whole.complete, pathsOf(whole)], [true, [name(1400)]]);
  assert.equal(whole.files_searched, 1_500);
  // Files that a stopped search has indexed are found, although the walk did not reach them.
  assert.deepEqual(pathsOf(await search('word1400', {}, { readingMs: 0 })), [name(1400)]);

  const words = (at: number) => Array.from({ length: 400 }, (_, word) => `w${at}x${word}`).join(' ');
  put(workspace, Object.fromEntries(Array.from({ length: 1_500 }, (_, at) => [name(at), words(at)])));
  const small = searcher(t, workspace);
  const maxBytes = 1024 * 1024;
  const full = await small.search('w0x1', {}, { maxBytes });
  assert.deepEqual([full.complete, pathsOf(full)], [false, [name(0)]]);
  assert.ok(full.files_searched < 1_500);
  assert.ok(statSync(small.index).size <= maxBytes);
  assert.ok(statSync(index).size > 0);
});

test('an index that is damaged, of another version, or cannot be written costs nothing but time', async (t) => {
  const workspace = folder(t);
  put(workspace, { 'a.txt': 'needle\n' });
  const { search, index } = searcher(t, workspace);
  await search('needle');
  writeFileSync(index, 'no database at all, but long enough to be taken for the head of one '.repeat(200));
  assert.deepEqual(pathsOf(await search('needle')), ['a.txt']);
  const damaged = Buffer.alloc(64 * 1024, 7);
  writeFileSync(index, damaged);
  assert.deepEqual(pathsOf(await search('needle')), ['a.txt']);
  rmSync(dirname(index), { recursive: true });
  assert.deepEqual(pathsOf(await search('needle')), ['a.txt']);
  assert.ok(!existsSync(index));
});

test('searches at the same time share an index', async (t) => {
  const workspace = folder(t);
  put(workspace, Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`${at}.txt`, `needle ${at}\n`])));
  const agent = await agentOf(t, await toolkitsHost(t, { workspace, dataDir: folder(t) }));
  const calls = Array.from({ length: 6 }, (_, at) =>
    agent.tools.call<RankedResult>('search_files', { query: `needle ${at}`, limit: 1 }),
  );
  for (const [at, { data }] of (await Promise.all(calls)).entries()) {
    assert.deepEqual([data && pathsOf(data), data?.complete], [[`${at}.txt`], true]);
  }
});

test('over the wire: in a thread, with an index in the data folder that outlives the host', async (t) => {
  const [workspace, dataDir] = [folder(t), folder(t)];
  put(workspace, { 'notes.md': 'The build needs three steps.\n' });
  for (const word of ['steps', 'building']) {
    const host = await toolkitsHost(t, { workspace, dataDir });
    const agent = await agentOf(t, host);
    const { data, summary } = await agent.tools.call<RankedResult>('search_files', { query: word });
    assert.deepEqual(
      data?.passages.map(({ path, line, text }) => [path, line, text]),
      [['notes.md', 1, 'The build needs three steps.']],
    );
    assert.match(String(summary), /1 passage of 1 file/);
    await agent.close();
    await host.close(0);
  }
  const files = readdirSync(dataDir, { recursive: true }).map(String);
  assert.equal(files.filter((file) => file.endsWith('search.db')).length, 1);
  for (const file of files.filter((path) => path.endsWith('search.db'))) {
    assert.equal(statSync(join(dataDir, file)).mode & 0o077, 0);
  }
  assert.ok(!existsSync(join(workspace, 'search.db')));
});

test('a principal finds nothing of what is protected from it, also after an administrator did', async (t) => {
  const workspace = folder(t);
  put(workspace, { 'conf/tokens.txt': 'needle secret\n', 'conf/plain.txt': 'needle\n', '.handfast/x.txt': 'needle\n' });
  linkSync(join(workspace, 'conf/tokens.txt'), join(workspace, 'other-name.txt'));
  const protectedPaths = [{ path: join(workspace, 'conf', 'tokens.txt'), kind: 'file', deny: 'all' }] as const;
  const host = await toolkitsHost(t, {
    workspace,
    dataDir: folder(t),
    pathGuard: new PathGuard(protectedPaths),
    principals: [
      { name: 'boss', admin: true },
      { name: 'some', capabilities: ['tools', 'toolkits'] },
      { name: 'other', capabilities: ['tools'], grants: { toolkits: { names: ['sqlite'] } } },
    ],
  });
  const find = async (principal: string, query: string) => {
    const agent = await agentOf(t, host, { principal });
    return pathsOf((await agent.tools.call<RankedResult>('search_files', { query })).data as RankedResult).sort();
  };
  assert.deepEqual(await find('boss', 'secret'), ['conf/tokens.txt', 'other-name.txt']);
  assert.deepEqual(await find('some', 'secret'), []);
  assert.deepEqual(await find('some', 'needle'), ['conf/plain.txt']);
  const other = await agentOf(t, host, { principal: 'other' });
  assert.equal(await refusalOf(other.tools.call('search_files', { query: 'needle' })), 'unknown_tool undefined');
});

test('texts are cut into passages, and names into words', () => {
  assert.deepEqual(passagesOf(''), []);
  assert.deepEqual(passagesOf('a\r\nb'), [{ line: 1, endLine: 2, text: 'a\nb' }]);
  const text = Array.from({ length: 100 }, (_, at) => (at % 20 === 19 ? '' : `line ${at + 1}`)).join('\n');
  const passages = passagesOf(text);
  assert.deepEqual(
    passages.map(({ line, endLine }) => [line, endLine]),
    [
      [1, 20],
      [21, 40],
      [41, 60],
      [61, 80],
      [81, 99],
    ],
  );
  assert.ok(passagesOf('\n'.repeat(1_000_000)).length <= 1_024);
  assert.equal(spaced('parseHTTPServer2Go'), 'parse HTTP Server2 Go');
  assert.equal(matchOf('readFile x'), '"read file" OR "read" OR "file" OR "x"');
  assert.equal(matchOf('検索'), '"検 索" OR "検" OR "索"');
  assert.equal(matchOf(' "" '), undefined);
});

test('passages are found by the folded forms of their words', async (t) => {
  const workspace = folder(t);
  writeFileSync(join(workspace, 'a.md'), 'Die Straße und das Café\n');
  writeFileSync(join(workspace, 'b.md'), 'مُحَمَّد\n');
  writeFileSync(join(workspace, 'c.md'), 'ΟΔΟΣ\n');
  const host = await toolkitsHost(t, { workspace, builtin: [{ name: 'search' }] });
  const agent = await agentOf(t, host, { enable: ['search'] });
  for (const [query, path] of [
    ['STRASSE', 'a.md'],
    ['cafe\u0301', 'a.md'],
    ['محمد', 'b.md'],
    ['οδος', 'c.md'],
  ] as const) {
    const { data } = await agent.tools.call<{ passages: { path: string }[] }>('search_files', { query });
    assert.deepEqual(
      data?.passages.map((found) => found.path),
      [path],
      query,
    );
  }
});
