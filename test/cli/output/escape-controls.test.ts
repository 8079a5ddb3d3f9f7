/** Text from elsewhere on a terminal: nothing in it acts, nothing in it hides. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { escapeControls, UnsplitText } from '../../../src/base/escape-controls.ts';
import { createLog } from '../../../src/base/log.ts';
import { isLocal } from '../../../src/cli/connect/find-host.ts';
import { failureOf } from '../../../src/cli/failure.ts';
import { promptFor, questionOf } from '../../../src/cli/output/approval-text.ts';
import { shown } from '../../../src/cli/trust/trust-question.ts';
import type { Approval } from '../../../src/protocol/session-types.ts';
import { fail } from '../../../src/wire/errors.ts';

test('what could act on a terminal, hide or reorder text is shown', () => {
  assert.equal(escapeControls('\u001b[2J\u0007\u009b1m'), '\\u{1b}[2J\\u{7}\\u{9b}1m');
  assert.equal(escapeControls('a\u202eb\u200bc\ufeff\u{e0041}'), 'a\\u{202e}b\\u{200b}c\\u{feff}\\u{e0041}');
  assert.equal(escapeControls('a\u061cb\u00adc\u3164d\u{e0101}'), 'a\\u{61c}b\\u{ad}c\\u{3164}d\\u{e0101}');
  assert.equal(escapeControls('\u2764\ufe0f'), '\u2764\ufe0f', 'the form of a symbol is no secret');
  assert.equal(escapeControls('over\rwritten'), 'over\\u{d}written');
});

test('ordinary text in any script, with tabs and line breaks, stays as it is', () => {
  const text = 'tab\there\nnext line\n日本語 עברית 👩‍💻 👩🏽‍💻 ❤️‍🔥 👨‍👩‍👧‍👦';
  assert.equal(escapeControls(text), text);
  assert.equal(escapeControls('one\r\ntwo'), 'one\ntwo');
});

test('a joiner stays between two pictures only', () => {
  const joiner = '\u200d';
  assert.equal(escapeControls(`a${joiner}b`), 'a\\u{200d}b');
  assert.equal(escapeControls(`👩${joiner}x`), '👩\\u{200d}x');
  assert.equal(escapeControls(`x${joiner}👩`), 'x\\u{200d}👩');
  assert.equal(escapeControls(`👩${joiner}${joiner}👩`), '👩\\u{200d}\\u{200d}👩');
  assert.equal(escapeControls(`👩${joiner}\u202e`), '👩\\u{200d}\\u{202e}');
});

test('text that comes in pieces is escaped as the whole would be, wherever it was cut', () => {
  const text = 'one\r\ntwo\rthree 👨‍👩‍👧‍👦 👩🏽‍💻\u001b[2J ❤️‍🔥 a\u200db 👩\u200d\u202e\r';
  for (let size = 1; size <= 5; size++) {
    const unsplit = new UnsplitText();
    let shown = '';
    for (let at = 0; at < text.length; at += size) shown += escapeControls(unsplit.push(text.slice(at, at + size)));
    assert.equal(shown + escapeControls(unsplit.end()), escapeControls(text), `pieces of ${size}`);
    assert.equal(unsplit.end(), '');
  }
});

test('a sequence without an end is not waited for', () => {
  const unsplit = new UnsplitText();
  let passed = 0;
  for (let piece = 0; piece < 1000; piece++) passed += unsplit.push('👩\u200d').length;
  assert.ok(passed > 2_800, `only ${passed} of 3000 characters were passed on`);
});

test('errors of the system are not taken for errors of the table', () => {
  const system = Object.assign(new Error('no such file'), { code: 'ENOENT' });
  assert.deepEqual(failureOf(system), { code: 'runtime_error', message: 'no such file', detail: {}, retryable: false });
  const ours = fail('over_capacity', 'full', { retry_after_ms: 5 });
  assert.deepEqual(failureOf(ours), {
    code: 'over_capacity',
    message: 'full',
    detail: { retry_after_ms: 5 },
    retryable: true,
  });
  assert.equal(failureOf('a text').message, 'a text');
});

test('the token of this user is offered to addresses of this machine only', () => {
  const local = ['unix:///run/x.sock', 'http://localhost:4700', 'ws://127.0.0.1:1/ws', 'tcp://[::1]:1'];
  assert.deepEqual(
    local.filter((address) => !isLocal(address)),
    [],
  );
  const remote = [
    'http://evil.example\\@127.0.0.1/',
    'https://example.org',
    'tcp://192.168.1.2:1',
    'http://127.0.0.1.example.org',
    'http://localhost:80@example.org/',
    'stdio:some program',
  ];
  assert.deepEqual(remote.filter(isLocal), []);
});

test('a prompt, a log line and the question of trust hold nothing that a terminal obeys', () => {
  const about = { kind: 'tool', covers: 'write_file: files directly in /a/\u001b]0;x\u0007\nallow?' } as Approval;
  const prompt = promptFor(about);
  assert.match(prompt, /\/a\/\\u\{1b\}\]0;x\\u\{7\} allow\?\), \[a\]lways/);
  const spoof = { title: 'rm x #\n? read_file a (only reads)', reason: '', risks: ['exec'] } as unknown as Approval;
  assert.equal(questionOf(spoof), 'rm x #\n    │ ? read_file a (only reads) (exec)');
  const choices = { kind: 'question', schema: { properties: { a: { enum: ['\u009b2J'] } } } } as unknown as Approval;
  assert.equal(promptFor(choices), 'answer (\\u{9b}2J): ');
  const lines: string[] = [];
  createLog({ format: 'text', write: (line) => lines.push(line) }).warn('\u001b[2J', { from: '\u009b\u202e' });
  assert.match(lines[0] ?? '', /\\u\{1b\}\[2J from="\\u\{9b\}\\u\{202e\}"\n$/);
  const settings = Array.from({ length: 500 }, (_, index) => `a[${index}]: 1`);
  const entry = { repository: '/r', folder: '', subject: 'handfast.yaml', path: '/r', files: {} } as const;
  const finding = {
    subject: 'handfast.yaml',
    entry,
    trusted: false,
    about: { starts: ['./evil.sh'], sets: settings },
  } as const;
  assert.ok(shown([finding]).slice(-6).includes('In all: starts: 1; sets: 500'));
});
