/**
 * The change that a call would make and the output it printed, from the members of its input and result.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { changeOf, outputOf } from '../../src/cli/chat/screen/call-text.ts';

const folder = mkdtempSync(join(tmpdir(), 'handfast-change-'));
writeFileSync(join(folder, 'a.txt'), 'one\ntwo\n');
after(() => rmSync(folder, { recursive: true }));

test('replacements are a diff by the names of several tools; what a diff does not say stays beside it', async () => {
  const diff = '-two\n+2\n';
  assert.deepEqual(await changeOf({ path: 'a.txt', old_text: 'two', new_text: '2', replace_all: true }, folder), {
    path: 'a.txt',
    diff,
    others: { replace_all: true },
  });
  const edits = [
    { old_string: 'two', new_string: '2' },
    { old_string: 'one', new_string: '1', replace_all: true },
  ];
  assert.deepEqual(await changeOf({ file_path: 'a.txt', edits, dry: false }, folder), {
    path: 'a.txt',
    diff: `${diff}⋮\n-one\n+1\n`,
    others: { dry: false, edits: [{ replace_all: true }] },
  });
});

test('new content is a diff against the file, or against nothing', async () => {
  const changed = await changeOf({ path: 'a.txt', content: 'one\n2\n' }, folder);
  assert.deepEqual(changed, { path: 'a.txt', diff: '@@ -1,2 +1,2 @@\n one\n-two\n+2\n', others: {} });
  assert.equal((await changeOf({ path: 'b.txt', content: 'new\n' }, folder))?.diff, '@@ -0,0 +1,1 @@\n+new\n');
});

test('what cannot be shown in whole as a diff is not shown as one', async () => {
  for (const input of [
    { path: 'a.txt', content: 'b25l', encoding: 'base64' },
    { path: 'a.txt', content: 'one\r\ntwo\r\n' },
    { path: 'a.txt', old_text: 'a\n', new_text: 'a\r\n' },
    { path: 'a.txt', edits: [{ old_text: 'a', new_text: 'b' }, { insert: 'c' }] },
    { command: 'rm a.txt' },
  ]) {
    assert.equal(await changeOf(input, folder), undefined, JSON.stringify(input));
  }
  assert.equal(
    await changeOf({ path: 'a.txt', content: 'x' }, undefined),
    undefined,
    'the folder is not on this machine',
  );
});

test('the output of a call is its text, else its result', () => {
  assert.equal(outputOf({ exit_code: 0, stdout: 'a\nb\n', stderr: 'c\n' }), 'a\nb\nc');
  assert.equal(outputOf({ content: [{ type: 'text', text: 'x' }, null, { text: 'y' }] }), 'x\ny');
  assert.equal(outputOf({ found: 3 }), '{\n  "found": 3\n}');
  assert.equal(outputOf('plain'), 'plain');
  assert.equal(outputOf(null), undefined);
});
