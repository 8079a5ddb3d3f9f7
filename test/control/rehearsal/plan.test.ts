/**
 * The language of the rehearsal backend: words on the left, steps on the right.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Directive } from '../../../src/control/backends/rehearsal/directives.ts';
import { planOf } from '../../../src/control/backends/rehearsal/plan.ts';

/** Steps in short: a single directive as it is, the calls of one round as a list. */
const plan = (prompt: string): (Directive | readonly Directive[])[] =>
  planOf(prompt).map((step) => {
    if (step.kind === 'talk') return step.directive;
    return step.directives.length === 1 ? step.directives[0]! : step.directives;
  });

const readme = { kind: 'read', path: 'README.md' } as const;

const understood: readonly (readonly [prompt: string, ...steps: (Directive | readonly Directive[])[]])[] = [
  ['read README.md', readme],
  ['Please read the file "my notes.txt".', { kind: 'read', path: 'my notes.txt' }],
  ['could you read README.md, please?', readme],
  ['read README.md and count its lines', { ...readme, count: 'lines' }],
  ['read README.md. Count the words', { ...readme, count: 'words' }],
  ['count the characters of a.txt', { kind: 'read', path: 'a.txt', count: 'characters' }],
  ['How many lines are there in README.md?', { ...readme, count: 'lines' }],
  ['how many lines does README.md have?', { ...readme, count: 'lines' }],
  ['read a.txt and b.txt', { kind: 'read', path: 'a.txt' }, { kind: 'read', path: 'b.txt' }],
  ['list', { kind: 'list', path: '.' }],
  ['list the files in src', { kind: 'list', path: 'src' }],
  ['list .', { kind: 'list', path: '.' }],
  ['find *.ts in src', { kind: 'find', patterns: ['*.ts'], path: 'src' }],
  ['find all files named a.txt', { kind: 'find', patterns: ['a.txt'] }],
  ['glob src/**/*.ts', { kind: 'find', patterns: ['src/**/*.ts'] }],
  ['grep TODO', { kind: 'grep', text: 'TODO' }],
  ['search for "two words" in src', { kind: 'grep', text: 'two words', where: 'src' }],
  ['search for two words in *.ts', { kind: 'grep', text: 'two words', where: '*.ts' }],
  ['write "a\\nb" to notes/x.txt', { kind: 'write', path: 'notes/x.txt', text: 'a\nb' }],
  ['create a file x.md with "hi"', { kind: 'write', path: 'x.md', text: 'hi' }],
  ['edit a.txt replace "x" with "y"', { kind: 'edit', path: 'a.txt', from: 'x', to: 'y' }],
  ['edit a.txt: replace "x" with ""', { kind: 'edit', path: 'a.txt', from: 'x', to: '' }],
  ['edit a.txt and replace "x" with "y"', { kind: 'edit', path: 'a.txt', from: 'x', to: 'y' }],
  ['replace foo with bar in a.txt', { kind: 'edit', path: 'a.txt', from: 'foo', to: 'bar' }],
  ['run npm test && echo "a; b" | wc -l', { kind: 'run', command: 'npm test && echo "a; b" | wc -l' }],
  ['run `sleep 1; echo then read`', { kind: 'run', command: 'sleep 1; echo then read' }],
  ['run the command "ls -l"', { kind: 'run', command: 'ls -l' }],
  ['fetch https://example.com/a?b=c', { kind: 'fetch', url: 'https://example.com/a?b=c' }],
  ['fetch example.com', { kind: 'fetch', url: 'https://example.com' }],
  ['ask "Which?" with choices "a", "b" or "c"', { kind: 'ask', question: 'Which?', choices: ['a', 'b', 'c'] }],
  ['ask me what is your name?', { kind: 'ask', question: 'what is your name?', choices: [] }],
  ['call echo with {"text": "x, then; y"}', { kind: 'call', tool: 'echo', input: { text: 'x, then; y' } }],
  ['call ping', { kind: 'call', tool: 'ping', input: {} }],
  ['think about it', { kind: 'think', text: 'it' }],
  ["say it's done", { kind: 'say', text: "it's done" }],
  ['wait 200 ms', { kind: 'wait', ms: 200 }],
  ['wait 1.5s', { kind: 'wait', ms: 1500 }],
  ['wait 2 minutes', { kind: 'wait', ms: 120_000 }],
  ['wait 999 minutes', { kind: 'wait', ms: 600_000 }],
  ['fail "no luck"', { kind: 'fail', text: 'no luck' }],
  ['fail', { kind: 'fail', text: 'a rehearsed failure' }],
  ['read README.md, then say "read; done"', readme, { kind: 'say', text: 'read; done' }],
  ['read README.md\nlist src; say ok', readme, { kind: 'list', path: 'src' }, { kind: 'say', text: 'ok' }],
  ['say I came, then I saw', { kind: 'say', text: 'I came, then I saw' }],
  [
    'read a and list b in parallel',
    [
      { kind: 'read', path: 'a' },
      { kind: 'list', path: 'b' },
    ],
  ],
  [
    'in parallel: read a, read b; then list c',
    [
      { kind: 'read', path: 'a' },
      { kind: 'read', path: 'b' },
    ],
    { kind: 'list', path: 'c' },
  ],
];

for (const [prompt, ...steps] of understood) {
  test(`understands: ${prompt.replaceAll('\n', ' ⏎ ')}`, () => {
    assert.deepEqual(plan(prompt), steps);
  });
}

test('what it does not understand it repeats, and does the rest', () => {
  assert.deepEqual(plan('what is the meaning of life?'), [{ kind: 'unknown', text: 'what is the meaning of life?' }]);
  assert.deepEqual(plan('dance; read README.md'), [{ kind: 'unknown', text: 'dance' }, readme]);
  for (const prompt of [
    'read',
    'write x',
    'edit a.txt',
    'wait soon',
    'count the lines',
    'call {"a": 1}',
    'call x with y',
  ]) {
    assert.deepEqual(
      plan(prompt).map((step) => (Array.isArray(step) ? 'calls' : (step as Directive).kind)),
      ['unknown'],
      prompt,
    );
  }
});

test('a prompt made to be slow is read in little time', () => {
  const hostile = ['{ ', '" ', '“ ', 'and ', ', ', 'edit, ', 'read a and ', 'then ', '; ', 'in parallel ', '\\"'];
  const before = process.threadCpuUsage();
  for (const piece of hostile) planOf(piece.repeat(Math.floor(60_000 / piece.length)));
  planOf('x'.repeat(2_000_000));
  const { user } = process.threadCpuUsage(before);
  assert.ok(user < 5_000_000, `${user} microseconds`);
});
