/**
 * One line about a tool: its arguments, its outcome, and the reason why it failed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failureOf, oneLine, subjectOf, summaryOf } from '../../../src/cli/output/tool-summary.ts';

test('a call is named by what it is about, and by all its arguments where nothing stands out', () => {
  assert.equal(subjectOf({ path: 'README.md', limit: 10 }), 'README.md');
  assert.equal(subjectOf({ command: 'npm\n  test' }), 'npm test');
  assert.equal(subjectOf({ argv: ['git', 'log'] }), 'git log');
  assert.equal(subjectOf({ pattern: 'TODO', path: 'src' }), 'TODO in src');
  assert.equal(subjectOf({ patterns: ['*.ts', '*.js'], path: '.' }), '*.ts *.js');
  assert.equal(subjectOf({ key: 'k', value: { a: 1 } }), 'key=k value={"a":1}');
  assert.equal(subjectOf({}), '');
});

test('results of the built-in tools come down to what one wants to know', () => {
  const cases: [unknown, string][] = [
    [{ content: 'a\nb\n', total_lines: 2, size: 4, truncated: false }, '2 lines, 4 bytes'],
    [{ content: 'AAAA', encoding: 'base64', size: 3 }, '3 bytes'],
    [{ entries: [{ path: 'a' }], truncated: true }, '1 entry, cut'],
    [{ paths: ['a', 'b'], truncated: false }, '2 files'],
    [{ files: [{ matches: [{}, {}] }, { matches: [{}] }] }, '3 lines in 2 files'],
    [{ files: [], files_searched: 4 }, 'no match'],
    [{ created: true, bytes: 1 }, 'created, 1 byte'],
    [{ created: false, bytes: 12 }, 'written, 12 bytes'],
    [{ replacements: 2, bytes: 9 }, '2 replacements'],
    [{ exit_code: 0, stdout: '', stderr: '' }, 'exit code 0'],
    [{ exit_code: 0, stdout: 'v26\n', stderr: '' }, 'exit code 0: v26'],
    [{ exit_code: 0, stdout: 'a\nb\nc\n', stderr: '' }, 'exit code 0, 3 lines'],
    [{ exit_code: null, signal: 'SIGKILL', timed_out: true, stdout: '' }, 'out of time'],
    [{ status: 200, content_type: 'text/html; charset=utf-8', bytes: 2, text: '<p' }, 'status 200, text/html, 2 bytes'],
    [{ answer: 'blue' }, 'blue'],
  ];
  for (const [result, said] of cases) assert.equal(summaryOf(result), said);
});

test('results of other tools are shown as far as one line goes', () => {
  assert.equal(summaryOf({ summary: 'three issues' }), 'three issues');
  assert.equal(summaryOf({ content: [{ type: 'text', text: 'one\ntwo' }] }), 'one (2 lines)');
  assert.equal(summaryOf('plain'), 'plain');
  assert.equal(summaryOf({ some: 'thing' }), '{"some":"thing"}');
  for (const nothing of [undefined, null]) assert.equal(summaryOf(nothing), '');
  assert.equal(summaryOf(3), '3');
  assert.equal(oneLine('x'.repeat(500)).length, 161);
});

test('a failure is its first sentence, or how the program ended and its last words', () => {
  assert.equal(failureOf('not run: it was not allowed. Do not try again; ask.', null), 'not run: it was not allowed');
  assert.equal(failureOf(undefined, { exit_code: 2, stdout: 'x', stderr: 'no such\nfile\n' }), 'exit code 2: file');
  assert.equal(failureOf(undefined, { text: 'refused' }), 'refused');
});
