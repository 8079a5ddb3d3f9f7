/**
 * The coverage of a remembered answer, and calls that it must not cover.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandReader } from '../../../src/control/approvals/commands/command-reader.ts';
import { type Coverage, coverageOf } from '../../../src/control/approvals/coverage.ts';

const exec = ['exec', 'writes', 'network'];
const reader = new CommandReader();
const of = (name: string, input: Record<string, unknown>, risks: readonly string[] = exec, cwd = '/project') =>
  coverageOf({ name, input }, risks, cwd, reader);
const command = (line: string, more: Record<string, unknown> = {}) => of('shell', { command: line, ...more });
const keys = ({ parts }: Coverage) => parts.map(({ key }) => key);
const same = (one: Coverage, other: Coverage) => keys(one).join() === keys(other).join();

test('of git, what only shows is covered with other operands; other programs with the same words', () => {
  assert.equal(command('git status').words, 'shell: git status …');
  assert.ok(same(command('git status'), command("git  'status' src/a.ts")));
  assert.ok(same(command('git status'), of('shell', { argv: ['git', 'status', 'a b'] })));
  assert.ok(!same(command('git status'), command('git log')));
  assert.ok(!same(command('git status'), of('other', { command: 'git status' })));
  assert.equal(command('wc -l "a b"').words, 'shell: wc -l "a b"');
  assert.ok(same(command('wc -l "a b"'), command("wc  -l 'a b'")));
  assert.ok(!same(command('wc a'), command('wc b')));
});

test('each command of a line is covered by itself', () => {
  const line = command('git status src && wc a | sort');
  assert.equal(line.words, 'shell: git status …, wc a, sort');
  assert.deepEqual(keys(line), [...keys(command('git status')), ...keys(command('wc a')), ...keys(command('sort'))]);
});

test('a line that does more than run programs is covered only as it is', () => {
  for (const tail of [' > f', ' < f', ' *', ' {a,b}x', ' "$X"', ' ~']) {
    const line = command(`wc a${tail}`);
    assert.ok(!same(line, command('wc a')), tail);
    assert.ok(!same(line, command(`wc a${tail} y`)), tail);
    if (line.lasting) assert.equal(line.words, 'shell: exactly this call', tail);
  }
  for (const line of ['A=b wc a', 'wc a; export X=1', 'f() { wc a; }; f', 'wc "', '', '$X a', 'wc a <<END']) {
    assert.equal(command(line).lasting, false, line);
  }
});

test('options and assignments are never covered by the words before them', () => {
  for (const line of ['git status --porcelain', 'git log --output=x', 'git status a=b']) {
    assert.ok(!same(command(line), command('git status')), line);
    assert.ok(!same(command(line), command('git log')), line);
  }
});

test('a yes never lasts for programs that run code of others', () => {
  for (const line of [
    'npm test',
    'npm install x',
    'npx x',
    'make',
    'go test',
    'cargo build',
    'python3.12 a.py',
    'node a.js',
    'bash x',
    'env wc a',
    'sudo wc a',
    'xargs wc',
    'find . -exec wc {} ;',
    './build.sh',
    '/usr/bin/python3 a.py',
    'git commit',
    'git fetch --upload-pack=x',
    'git -c a.b=c status',
    'git st',
    'wc a; make',
    'wc $(make)',
    "sh -c 'wc a'",
    'eval wc a',
    'ssh host wc a',
    'docker run x',
  ]) {
    const { lasting, words } = command(line);
    assert.equal(lasting, false, line);
    assert.match(words, /^shell: this call, only now: /, line);
  }
  assert.equal(command('npm test').words, 'shell: this call, only now: npm runs code of others');
});

test('the directory a command runs in counts, its environment and input are not looked through', () => {
  assert.ok(same(command('git status'), command('git status', { cwd: '.' })));
  assert.ok(!same(command('git status'), command('git status', { cwd: 'sub' })));
  assert.equal(command('git status', { cwd: 'sub' }).words, 'shell: git status … in /project/sub');
  assert.equal(command('wc a', { env: { CI: '1' } }).lasting, false);
  assert.equal(command('wc a', { stdin: 'y' }).words, 'shell: exactly this call');
  assert.ok(same(command('wc a'), command('wc a', { env: {}, timeout_seconds: 5, description: 'tests' })));
});

test('a tool that works on a file is covered for the folder of the file, dots in the path resolved away', () => {
  const write = (path: string) => of('write_file', { path, content: path }, ['writes', 'destructive']);
  assert.equal(write('src/a.ts').words, 'write_file: files directly in /project/src');
  assert.ok(same(write('src/a.ts'), write('src/b.ts')));
  assert.ok(same(write('src/a.ts'), write('lib/../src/b.ts')));
  assert.ok(!same(write('src/a.ts'), write('src/deep/a.ts')));
  assert.ok(!same(write('src/a.ts'), write('a.ts')));
  assert.ok(!same(write('src/a.ts'), write('src/../../etc/passwd')));
});

test('a tool of the network is covered for one origin', () => {
  const get = (url: unknown) => of('http_get', { url }, ['network']);
  assert.ok(same(get('https://example.org/a'), get('https://example.org/b?c')));
  assert.ok(!same(get('https://example.org/a'), get('http://example.org/a')));
  assert.ok(!same(get('https://example.org/a'), get('https://example.org.evil.test/a')));
  assert.equal(get('not a url').words, 'http_get: exactly this call');
});

test('other tools that write are covered by name, those that may lose data or say nothing as called', () => {
  assert.ok(same(of('note', { text: 'a' }, ['writes']), of('note', { text: 'b' }, ['writes'])));
  assert.ok(!same(of('drop', { table: 'a' }, ['destructive']), of('drop', { table: 'b' }, ['destructive'])));
  assert.ok(!same(of('odd', { a: 1 }, []), of('odd', { a: 2 }, [])));
  assert.ok(same(of('odd', { a: 1, b: [{ c: 2, d: 3 }] }, []), of('odd', { b: [{ d: 3, c: 2 }], a: 1 }, [])));
});

test('parts of a key cannot be made to look like other parts', () => {
  const one = of('shell', { argv: ['wc', 'a', 'b'] });
  const other = of('shell', { argv: ['wc', 'a","b'] });
  assert.ok(!same(one, other));
});
