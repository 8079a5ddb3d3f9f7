/** Reads the output of git: states, worktrees, and the reason of a failure. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  decodeNames,
  fileNamed,
  isLockHeld,
  nameInLine,
  readableName,
  readStatus,
  readWorktrees,
  reasonOf,
  statusLines,
} from '../../src/base/git-output.ts';

test('a state is read with its names as they are, renames with both, and written as lines again', () => {
  const output = [
    '# branch.oid (initial)',
    '# branch.head (detached)',
    '1 .M N... 100644 100644 100644 aa bb with space "and" ä',
    '2 R. N... 100644 100644 100644 aa bb R100 new -> name',
    'old name',
    'u UU N... 100644 100644 100644 100644 aa bb cc both',
    '? -dash\nline',
    '! built/',
    '? cut of',
  ].join('\0');
  const status = readStatus(output);
  assert.deepEqual([status.head, status.branch], [null, null]);
  assert.deepEqual(
    status.entries.map(({ state, path, from }) => [state, path, from]),
    [
      ['.M', 'with space "and" ä', undefined],
      ['R.', 'new -> name', 'old name'],
      ['UU', 'both', undefined],
      ['??', '-dash\nline', undefined],
      ['!!', 'built/', undefined],
    ],
    'an entry that was cut is none',
  );
  assert.deepEqual(statusLines(status).split('\n').slice(2), [
    '1 .M N... 100644 100644 100644 aa bb with space "and" ä',
    '2 R. N... 100644 100644 100644 aa bb R100 new -> name\told name',
    'u UU N... 100644 100644 100644 100644 aa bb cc both',
    '? "-dash\\nline"',
    '! built/',
    '',
  ]);
  assert.equal(nameInLine('back\\slash'), 'back\\slash');
});

test('names that are no UTF-8 stay apart, lead to their files, and have a readable text', () => {
  const names = [
    'café 日本 👩',
    'caf\xe9',
    'caf\xe8',
    '\xff\xfe',
    'cut \xf0\x9f\x91',
    'surrogate \xed\xa0\x80',
    '\xc0\x80 long',
  ];
  const bytes = names.map((name, at) => Buffer.from(name, at === 0 ? 'utf8' : 'latin1'));
  const records = decodeNames(Buffer.concat(bytes.flatMap((name) => [name, Buffer.of(0)]))).split('\0');
  assert.equal(records.pop(), '');
  assert.equal(new Set(records).size, names.length);
  assert.deepEqual(
    records.map((name) => Buffer.from(fileNamed(name))),
    bytes,
  );
  assert.deepEqual(records.map(readableName), [
    'café 日本 👩',
    'caf\\xe9',
    'caf\\xe8',
    '\\xff\\xfe',
    'cut \\xf0\\x9f\\x91',
    'surrogate \\xed\\xa0\\x80',
    '\\xc0\\x80 long',
  ]);
});

test('worktrees are read with why they are locked', () => {
  const output = ['worktree /a', 'bare', '', 'worktree /b c', 'HEAD ff', 'branch refs/heads/x/y', 'locked', ''];
  const more = ['worktree /d', 'HEAD ee', 'detached', 'locked initializing', 'prunable gone', '', ''];
  assert.deepEqual(readWorktrees([...output, ...more].join('\0')), [
    { path: '/a', head: null, branch: null, bare: true, locked: undefined },
    { path: '/b c', head: 'ff', branch: 'x/y', bare: false, locked: '' },
    { path: '/d', head: 'ee', branch: null, bare: false, locked: 'initializing' },
  ]);
});

test('of a git before 2.36 they are read line by line', () => {
  const output = 'worktree /b c\nHEAD ff\nbranch refs/heads/x/y\nlocked why not\n\nworktree /d\nHEAD ee\ndetached\n\n';
  assert.deepEqual(
    readWorktrees(output).map(({ path, branch, locked }) => [path, branch, locked]),
    [
      ['/b c', 'x/y', 'why not'],
      ['/d', null, undefined],
    ],
  );
});

test('of an error the line that gives the reason is shown, not progress, hints or advice', () => {
  for (const [stderr, reason] of [
    [
      "Preparing worktree (new branch 'x')\nfatal: 'x' is already checked out at '/y'\n",
      "fatal: 'x' is already checked out at '/y'",
    ],
    ['warning: unable to access\nhint: try\nfatal: bad object HEAD\nhint: more', 'fatal: bad object HEAD'],
    [
      'sh: 1: git-lfs: not found\nfatal: the remote end hung up',
      'sh: 1: git-lfs: not found; fatal: the remote end hung up',
    ],
    ['error: first\nfatal: last', 'error: first'],
    [
      "fatal: '/gone' does not appear to be a git repository\nfatal: could not fetch 3e51 from promisor remote",
      "fatal: '/gone' does not appear to be a git repository; fatal: could not fetch 3e51 from promisor remote",
    ],
    [
      "fatal: detected dubious ownership in repository at '/a'\nTo add an exception for this directory, call:\n\n\tgit config --global --add safe.directory /a\n",
      "fatal: detected dubious ownership in repository at '/a'; allow it with: git config --global --add safe.directory /a",
    ],
    ['Updating files:  50% (1/2)\rUpdating files: 100% (2/2)\rfatal: disk full', 'fatal: disk full'],
    ['12:00:00.000001 git.c:455 trace: built-in\nfatal: \u001b[31mred', 'fatal:  [31mred'],
    ['', ''],
  ]) {
    assert.equal(reasonOf(stderr as string), reason);
  }
  assert.ok(isLockHeld("fatal: Unable to create '/a/.git/index.lock': File exists.\n\nAnother git process"));
  assert.ok(isLockHeld('error: could not lock config file .git/config: File exists'));
  assert.ok(
    !isLockHeld("fatal: cannot lock ref 'refs/heads/a/b': 'refs/heads/a' exists; cannot create 'refs/heads/a/b'"),
  );
});
