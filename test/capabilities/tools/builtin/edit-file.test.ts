import assert from 'node:assert/strict';
import { chmod, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { editFile, writeFile } from '../../../../src/capabilities/tools/builtin/index.ts';
import { applyEdits, placesOf } from '../../../../src/capabilities/tools/builtin/text-edit.ts';
import { HandfastError } from '../../../../src/wire/errors.ts';
import fc from '../../../support/properties.ts';
import { call, callShaped, failsWith, makeWorkspace, testCall } from './support.ts';

const program = ['function one() {', '  return 1;', '}', '', 'function two() {', '  return 2;', '}', ''].join('\n');

/** Returns the error of an edit that must fail. */
async function conflictOf(text: string, ...edits: Parameters<typeof applyEdits>[1]): Promise<HandfastError> {
  try {
    await applyEdits(text, edits);
  } catch (error) {
    if (error instanceof HandfastError) return error;
    throw error;
  }
  throw new Error('the edit did not fail');
}

test('edits are applied in order and told as a diff', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'p.js': program });
  await chmod(join(workspace, 'p.js'), 0o750);
  const edits = [
    { old_text: 'return 2;', new_text: 'return 3;' },
    { old_text: 'return 3;', new_text: 'return 4;\n  // four' },
  ];
  const edited = await callShaped(editFile, { path: 'p.js', edits }, testCall(workspace));
  const now = await readFile(join(workspace, 'p.js'), 'utf8');
  assert.equal(now, program.replace('return 2;', 'return 4;\n  // four'));
  assert.equal(edited.data.bytes, Buffer.byteLength(now));
  assert.equal(edited.data.replacements, 2);
  assert.equal(
    edited.data.diff,
    '@@ -3,5 +3,6 @@\n }\n \n function two() {\n-  return 2;\n+  return 4;\n+  // four\n }\n',
  );
  assert.equal((await stat(join(workspace, 'p.js'))).mode & 0o777, 0o750);
  assert.deepEqual(await readdir(workspace), ['p.js']);
});

test('one edit that does not fit leaves the file untouched', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'p.js': program });
  const edits = [
    { old_text: 'return 1;', new_text: 'return 9;' },
    { old_text: 'not there', new_text: 'x' },
  ];
  await assert.rejects(
    call(editFile, { path: 'p.js', edits }, testCall(workspace)),
    failsWith('tool_error', 'no_match'),
  );
  assert.equal(await readFile(join(workspace, 'p.js'), 'utf8'), program);
});

test('an ambiguous text is reported with its count and lines, and replaced everywhere on request', async (t) => {
  const edit = { old_text: 'return', new_text: 'yield' };
  const error = await conflictOf(program, edit);
  assert.deepEqual(error.detail, { reason: 'ambiguous', edit: 1, count: 2, lines: [2, 6] });
  const { workspace } = await makeWorkspace(t, { 'p.js': program });
  const all = { path: 'p.js', edits: [{ ...edit, replace_all: true }] };
  assert.equal((await call(editFile, all, testCall(workspace))).replacements, 2);
  assert.equal(await readFile(join(workspace, 'p.js'), 'utf8'), program.replaceAll('return', 'yield'));
});

test('a text that is not found is reported with the nearest lines', async () => {
  const error = await conflictOf(program, { old_text: 'function twos() {\n  return 3;', new_text: '' });
  assert.equal(error.detail.reason, 'no_match');
  assert.deepEqual(error.detail.nearest, [
    { line: 5, text: 'function two() {' },
    { line: 1, text: 'function one() {' },
  ]);
  assert.match(error.message, /edit 1 of 1.*nearest line is 5/);
  assert.deepEqual((await conflictOf(program, { old_text: 'zzz qqq', new_text: '' })).detail.nearest, []);
});

test('a text that differs only in spaces is reported as such', async () => {
  const error = await conflictOf(program, { old_text: 'function two()\t{\nreturn 2;', new_text: 'x' });
  assert.equal(error.detail.whitespace_only, true);
  assert.deepEqual(error.detail.nearest, [
    { line: 5, text: 'function two() {' },
    { line: 6, text: '  return 2;' },
  ]);
});

test('an edit that changes nothing is refused', async () => {
  const error = await conflictOf(program, { old_text: 'one', new_text: 'uno' }, { old_text: 'two', new_text: 'two' });
  assert.deepEqual(error.detail, { reason: 'no_change', edit: 2 });
});

test('a search for nearest lines in a large file does not hold up the host', async () => {
  const large = Array.from(
    { length: 60_000 },
    (_, index) => `const value${index} = compute(${index * 7}, "text");`,
  ).join('\n');
  const before = process.threadCpuUsage();
  await conflictOf(large, { old_text: 'const valve17 = compare(119, "test");', new_text: '' });
  assert.ok(process.threadCpuUsage(before).user < 2_000_000);
});

test('CRLF line ends and a byte order mark survive an edit written with plain newlines', async (t) => {
  const { workspace } = await makeWorkspace(t, { dos: '\ufeffone\r\ntwo\r\nthree\r\n' });
  const edits = [
    { old_text: 'one\ntwo\n', new_text: 'eins\nzwei\nzweieinhalb\n' },
    { old_text: '\nthree', new_text: '\ndrei' },
  ];
  const edited = await call(editFile, { path: 'dos', edits }, testCall(workspace));
  const now = await readFile(join(workspace, 'dos'), 'utf8');
  assert.equal(now, '\ufeffeins\r\nzwei\r\nzweieinhalb\r\ndrei\r\n');
  assert.equal(edited.line_endings, 'crlf');
  assert.doesNotMatch(edited.diff, /\r/);
});

test('line ends of mixed files stay as they are outside of what is replaced', async () => {
  const mixed = 'a\nb\r\nc\nb\r\nd\n';
  const edited = await applyEdits(mixed, [{ old_text: 'b\nc', new_text: 'x\ny' }]);
  assert.equal(edited.text, 'a\nx\r\ny\nb\r\nd\n');
  assert.equal((await applyEdits(mixed, [{ old_text: '\nb\n', new_text: '|', replace_all: true }])).text, 'a|c|d\n');
  // Explicit carriage returns are intended.
  assert.equal((await applyEdits(mixed, [{ old_text: 'b\r\nd', new_text: 'b\nd' }])).text, 'a\nb\r\nc\nb\nd\n');
});

test('an edit cannot make a file grow without bound', async () => {
  const edit = { old_text: 'a', new_text: 'b'.repeat(100_000), replace_all: true };
  const error = await conflictOf('a'.repeat(50_000), edit);
  assert.deepEqual(error.detail, { reason: 'too_large', edit: 1 });
  const many = await conflictOf('a'.repeat(200_000), { ...edit, new_text: '' });
  assert.equal(many.detail.reason, 'too_many_places');
});

test('places are found as indexOf finds them, also of long texts', () => {
  const letters = fc.array(fc.constantFrom('a', 'a', 'a', 'b'), { maxLength: 400 }).map((parts) => parts.join(''));
  const long = fc
    .tuple(letters, fc.constantFrom('', 'b', 'ab'))
    .map(([text, end]) => 'a'.repeat(65) + text.slice(0, 9) + end);
  fc.assert(
    fc.property(fc.array(fc.oneof(letters, fc.constant('a'.repeat(70))), { maxLength: 8 }), long, (parts, search) => {
      const text = parts.join(search);
      const expected: number[] = [];
      for (let at = text.indexOf(search); at !== -1; at = text.indexOf(search, at + search.length)) expected.push(at);
      assert.deepEqual(placesOf(text, search), expected);
    }),
  );
});

test('a search made to be slow is not', () => {
  const text = 'a'.repeat(4 * 1024 * 1024);
  const before = process.threadCpuUsage();
  assert.deepEqual(placesOf(text, `${'a'.repeat(25_000)}b${'a'.repeat(25_000)}`), []);
  assert.ok(process.threadCpuUsage(before).user < 2_000_000);
});

test('binary and foreign text is not edited', async (t) => {
  const { workspace } = await makeWorkspace(t, { latin: Buffer.from('caf\xe9', 'latin1'), nul: 'a\0b' });
  for (const path of ['latin', 'nul']) {
    const edit = call(editFile, { path, edits: [{ old_text: 'a', new_text: 'b' }] }, testCall(workspace));
    await assert.rejects(edit, failsWith('tool_error', 'not_utf8'), path);
  }
});

test('edits of one file at the same time all take effect', async (t) => {
  const names = Array.from({ length: 16 }, (_, index) => `<${index}>`);
  const { workspace } = await makeWorkspace(t, { list: names.join('\n') });
  await Promise.all(
    names.map((name) =>
      call(editFile, { path: 'list', edits: [{ old_text: name, new_text: `done ${name}` }] }, testCall(workspace)),
    ),
  );
  assert.equal(await readFile(join(workspace, 'list'), 'utf8'), names.map((name) => `done ${name}`).join('\n'));
  assert.deepEqual(await readdir(workspace), ['list']);
});

test('an edit sees what was written just before it', async (t) => {
  const { workspace } = await makeWorkspace(t);
  for (let round = 0; round < 10; round += 1) {
    await call(writeFile, { path: 'f', content: `round ${round}` }, testCall(workspace));
    const edits = [{ old_text: `round ${round}`, new_text: 'done' }];
    await call(editFile, { path: 'f', edits }, testCall(workspace));
  }
  assert.equal(await readFile(join(workspace, 'f'), 'utf8'), 'done');
});
