/**
 * The work of reading a command: commands that start each other, in a line of any legal length, are looked at a bounded number of times.
 * A line that is too large is unreadable, so rules that deny are perhaps about it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandReader } from '../../../src/control/approvals/commands/command-reader.ts';
import type { PolicyRule } from '../../../src/control/approvals/policy.ts';
import { compilePolicy } from '../../../src/control/approvals/policy-rules.ts';

/** Commands in a reading, at most: each costs its words. */
const MAX_COMMANDS = 8192;
const MAX_WORDS = 16 * 1024;

const rule = (command: readonly string[], decision: 'allow' | 'deny'): PolicyRule =>
  Object.fromEntries([
    ['command', command],
    ['then', decision],
  ]) as unknown as PolicyRule;
const policy = compilePolicy([rule(['rm'], 'deny'), rule(['find', 'ls', 'env', 'echo'], 'allow')]);

const lines: Readonly<Record<string, string>> = {
  'find in find': 'find . -exec ',
  'find in find, ended': 'find . -exec find . -exec ls ; ',
  'fd in find': 'find . -execdir fd x --exec ',
  'starters in starters': 'env nice timeout 1 sudo nohup ',
  'xargs in xargs': 'xargs -I{} sh -c "{}" ',
  'shells in shells': 'sh -c "sh -c ls" ',
  'programs that start any of their words': 'npx docker run sh -c ',
  'scripts in variables': 'env A="sh -c ls" B="$(ls)" ',
  'aliases of git': 'git -c alias.a="!git -c alias.b=!ls b" a ',
  'one word': 'a ',
  'one command': 'a;',
  lists: 'x=(a b) ',
};

for (const [name, unit] of Object.entries(lines)) {
  for (const [start, length] of [
    ['', 1024],
    ['', 30_000],
    ['foo ', 30_000],
    ['find . -exec ', 30_000],
  ] as const) {
    test(`${name}, ${length} characters behind "${start}": the work is bounded`, () => {
      const command = start + unit.repeat(length / unit.length);
      const reading = new CommandReader().read({ command }, '/project');
      assert.ok(reading !== undefined);
      assert.ok(reading.commands.length <= MAX_COMMANDS, `${reading.commands.length} commands`);
      const words = reading.commands.reduce((all, one) => all + one.words.length, 0);
      assert.ok(words <= MAX_WORDS, `${words} words`);
    });
  }
}

test('a line that was not read to its end is not allowed, and may be denied', () => {
  const command = `${'find . -exec '.repeat(100)}rm -rf /`;
  const verdict = policy.decide({
    tool: { name: 'shell', kind: '', input: { command } },
    risks: ['exec'],
    session: { id: 's', owner: 'local', title: '', cwd: '/project', backend: 'model' },
    turn: { id: 't' },
  });
  assert.equal(verdict.decision, 'ask');
  assert.ok(verdict.mayBeDenied !== undefined);
});

test('variables beside a command, and words of a list, are counted', () => {
  const read = (input: object) => new CommandReader().read(input as Record<string, unknown>, '/project');
  const env = Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`A${at}`, 'sh -c ls']));
  assert.match(read({ command: 'ls', env })?.hidden ?? '', /variables/);
  assert.match(read({ command: ['git', ...Array(60_000).fill('a')] })?.unreadable ?? '', /too large/);
  assert.match(read({ command: ['git', 'a'.repeat(1_000_000)] })?.unreadable ?? '', /too large/);
  assert.equal(read({ command: ['git', 'add', ...Array(2000).fill('docs/some-file.md')] })?.unreadable, undefined);
});
