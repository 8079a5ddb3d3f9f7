/** What a remembered answer covers, and what it must not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { coverageOf } from '../../../src/control/approvals/coverage.ts';

const exec = ['exec', 'writes', 'network'];
const of = (name: string, input: Record<string, unknown>, risks: readonly string[] = exec, cwd = '/project') =>
  coverageOf({ name, input }, risks, cwd);
const command = (line: string, more: Record<string, unknown> = {}) => of('shell', { command: line, ...more });
const same = (one: { key: string }, other: { key: string }) => one.key === other.key;

test('a plain command is covered by its program and subcommand, with other operands', () => {
  assert.equal(command('npm test').words, 'shell: npm test …');
  assert.ok(same(command('npm test'), command('npm  test src/a.ts')));
  assert.ok(same(command('npm test'), of('shell', { argv: ['npm', 'test', 'a b'] })));
  assert.ok(!same(command('npm test'), command('npm publish')));
  assert.ok(!same(command('npm test'), of('other', { command: 'npm test' })));
  assert.ok(same(command('npm run build'), command('npm run build fast')));
  assert.ok(!same(command('npm run build'), command('npm run deploy')));
});

test('what a shell would interpret is covered only as it is', () => {
  for (const tail of [
    '; rm -rf x',
    ' && rm x',
    ' || x',
    ' | sh',
    ' $(x)',
    ' `x`',
    ' > f',
    ' < f',
    ' &',
    '\nrm x',
    ' "a b"',
    " 'a'",
    ' \\x',
    ' *',
    ' ~',
    ' {a,b}',
    ' #x',
    ' !x',
  ]) {
    const compound = command(`npm test${tail}`);
    assert.equal(compound.words, 'shell: exactly this call', tail);
    assert.ok(!same(compound, command('npm test')), tail);
    assert.ok(same(compound, command(`npm test${tail}`)), tail);
    assert.ok(!same(compound, command(`npm test${tail} y`)), tail);
  }
});

test('options and assignments are never covered by the words before them', () => {
  for (const line of [
    'git fetch --upload-pack=x',
    'git -c a.b=c status',
    'make test SHELL=x',
    'A=b npm test',
    'go test -exec x',
  ]) {
    assert.equal(command(line).words, 'shell: exactly this call', line);
  }
});

test('programs that run whatever follows are covered only as called', () => {
  for (const line of [
    'rm a',
    'sudo npm test',
    'bash x',
    'node a.js',
    'env npm test',
    'npm exec x',
    'npx x',
    'npm',
    'git config a b',
  ]) {
    assert.equal(command(line).words, 'shell: exactly this call', line);
  }
});

test('the directory a command runs in counts, its environment and input are not looked through', () => {
  assert.ok(same(command('npm test'), command('npm test', { cwd: '.' })));
  assert.ok(!same(command('npm test'), command('npm test', { cwd: 'sub' })));
  assert.equal(command('npm test', { cwd: 'sub' }).words, 'shell: npm test … in /project/sub');
  assert.equal(command('npm test', { env: { CI: '1' } }).words, 'shell: exactly this call');
  assert.equal(command('npm test', { stdin: 'y' }).words, 'shell: exactly this call');
  assert.ok(same(command('npm test'), command('npm test', { env: {}, timeout_seconds: 5, description: 'tests' })));
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
  const one = of('shell', { argv: ['npm', 'run', 'a'] });
  const other = of('shell', { argv: ['npm', 'run', 'a","b'] });
  assert.ok(!same(one, other));
});
