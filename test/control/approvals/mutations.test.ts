/**
 * The tricks, mutated: everything a mutation would be allowed to run is run, in real shells where every program only writes
 * down how it was called. Nothing but what the rules cover may be called, and nothing may be written.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CommandReader } from '../../../src/control/approvals/commands/command-reader.ts';
import { openSecondOpinion } from '../../../src/control/approvals/commands/second-opinion.ts';
import { compilePolicy } from '../../../src/control/approvals/policy-rules.ts';
import fc from '../../support/properties.ts';
import { TRICK_RULES, TRICKS } from './tricks.ts';

const place = mkdtempSync(join(tmpdir(), 'handfast-tricks-'));
after(() => rmSync(place, { recursive: true }));

const policyWith = (reader: CommandReader) => {
  const policy = compilePolicy(TRICK_RULES, { reader, maxSteps: 1_000_000 });
  return (command: string) =>
    policy.decide({
      tool: { name: 'shell', kind: '', input: { command } },
      risks: ['exec'],
      session: { id: 's', owner: 'local', title: '', cwd: '/project', backend: 'model' },
      turn: { id: 't' },
    }).decision;
};
const decide = policyWith(new CommandReader());

const seeds = Object.values(TRICKS)
  .flat()
  .flatMap(({ call }) => (typeof call === 'string' && call.length < 200 ? [call] : []));

/** Inserted pieces: all texts with a meaning for a shell, and words of the rules. */
const pieces = [
  ...[
    'npm',
    'test',
    'git',
    'status',
    'log',
    'ls',
    'rm',
    'x',
    '-l',
    '--oneline',
    '--output=x',
    '--',
    'sh',
    '-c',
    'timeout 5',
  ],
  ...[
    'env',
    'eval',
    'exec',
    'command',
    'cd',
    'A=b',
    'PATH=.',
    'if',
    'then',
    'fi',
    'do',
    'done',
    'in',
    'esac',
    '!',
    'time',
  ],
  ...[
    ' ',
    '\n',
    '\t',
    ';',
    '&',
    '|',
    '&&',
    '||',
    ';;',
    '(',
    ')',
    '((',
    '))',
    '{',
    '}',
    '[',
    ']',
    '[[',
    ']]',
    '<',
    '>',
    '>>',
  ],
  ...[
    '<<',
    '<<-',
    '<<<',
    '&>',
    '>&',
    '2>&1',
    '> /dev/null',
    '<(',
    '$(',
    '${',
    '$((',
    '$',
    '`',
    '"',
    "'",
    "$'",
    '$"',
    '\\',
  ],
  ...[
    '\\\n',
    '*',
    '?',
    '~',
    '#',
    '=',
    ':-',
    '@P',
    '\\x72',
    '\\`',
    'END',
    '\nEND\n',
    '{a,b}',
    '...',
    '$X',
    '"$X"',
    "''",
    '""',
  ],
];

/** A mutation: pieces put in, taken out, or a part of another trick. */
const mutated = fc
  .tuple(
    fc.constantFrom(...seeds),
    fc.array(
      fc.record({
        at: fc.nat(200),
        cut: fc.integer({ min: 0, max: 4 }),
        put: fc.oneof(fc.constantFrom(...pieces), fc.constantFrom(...seeds), fc.constant('')),
      }),
      { minLength: 1, maxLength: 4 },
    ),
  )
  .map(([seed, changes]) =>
    changes.reduce((line, { at, cut, put }) => {
      const from = at % (line.length + 1);
      return line.slice(0, from) + put + line.slice(from + cut);
    }, seed),
  );

/** Programs that only write down how they were called. */
const bin = join(place, 'bin');
const calls = join(place, 'calls');
mkdirSync(bin);
const stubs = [
  ...['npm', 'git', 'ls', 'rm', 'sudo', 'make', 'curl', 'tee', 'find', 'xargs', 'cat', 'busybox', 'setsid'],
];
for (const name of stubs) {
  const file = join(bin, name);
  // One write for a call: calls of a pipe come at the same time.
  writeFileSync(file, `#!/bin/sh\nprintf '%s\\0' ${name} "$@" '\n' >> '${calls}'\n`);
  chmodSync(file, 0o755);
}
for (const name of ['sh', 'bash', 'env', 'timeout', 'nice', 'nohup', 'stdbuf']) {
  const real = ['/bin', '/usr/bin'].map((folder) => join(folder, name)).find((file) => existsSync(file));
  if (real !== undefined) symlinkSync(real, join(bin, name));
}

/** Returns the calls of a shell when it runs a line, and whether it wrote any file. */
function run(shell: string, line: string): { readonly called: string[][]; readonly wrote: string[] } {
  const cwd = join(place, 'work');
  rmSync(cwd, { recursive: true, force: true });
  rmSync(calls, { force: true });
  mkdirSync(cwd);
  spawnSync(join(bin, shell), ['-c', line], { cwd, env: { PATH: bin }, stdio: 'ignore', timeout: 10_000 });
  const text = existsSync(calls) ? readFileSync(calls, 'utf8') : '';
  const called = text
    .split('\0\n\0')
    .slice(0, -1)
    .map((words) => words.split('\0'));
  return { called, wrote: readdirSync(cwd) };
}

/** Applies the rules of the table, written a second time. */
function isCovered([program, ...words]: readonly string[]): boolean {
  if (program === 'npm') return words.join('\0') === 'test';
  const options = words.filter((word) => word.startsWith('-') && word !== '--');
  if (!options.every((option) => ['--oneline', '-l', '-a'].includes(option.replace(/^(--\w+)=.*/s, '$1'))))
    return false;
  return (
    program === 'ls' ||
    (program === 'git' && ['status', 'log'].includes(words.find((word) => !word.startsWith('-')) ?? ''))
  );
}

const shells = ['sh', 'bash'].filter((shell) => existsSync(join(bin, shell)));

/** Returns false for lines that name files outside, which would look for them there, and for loops, which might not end. */
const staysHere = (line: string): boolean =>
  !line.replaceAll('/dev/null', '').replaceAll('src/', '').includes('/') && !/while|until/.test(line);

test('what is allowed starts nothing but what the rules cover, in real shells', () => {
  const lines = new Set(seeds.filter((line) => decide(line) === 'allow' && staysHere(line)));
  fc.assert(
    fc.property(mutated, (line) => {
      if (lines.size < 150 && staysHere(line) && decide(line) === 'allow') lines.add(line);
    }),
    { numRuns: 6000 },
  );
  assert.ok(lines.size >= 30, `${lines.size} lines to run`);
  let called = 0;
  for (const line of lines) {
    for (const shell of shells) {
      const found = run(shell, line);
      called += found.called.length;
      for (const words of found.called)
        assert.ok(isCovered(words), `${shell} ran ${JSON.stringify(words)} of ${JSON.stringify(line)}`);
      assert.deepEqual(found.wrote, [], JSON.stringify(line));
    }
  }
  assert.ok(called > 0, 'the shells ran something');
});

test('the real shells would notice: lines that are not allowed do start other programs', () => {
  const others = new Set(
    seeds
      .filter((line) => decide(line) !== 'allow' && staysHere(line))
      .flatMap((line) => shells.flatMap((shell) => run(shell, line).called))
      .filter((words) => !isCovered(words))
      .map(([program]) => program),
  );
  assert.ok(others.has('rm') && others.has('curl'), [...others].join(' '));
});

test('any text is decided, and two parsers allow no more than one', async () => {
  const second = await openSecondOpinion();
  assert.ok(second);
  const both = new CommandReader(() => Promise.resolve(second));
  await both.ready();
  const decideTwice = policyWith(both);
  const order = { allow: 0, ask: 1, deny: 2 };
  fc.assert(
    fc.property(
      fc.oneof(
        mutated,
        fc.array(fc.constantFrom(...pieces), { maxLength: 30 }).map((all) => all.join('')),
      ),
      (line) => {
        assert.ok(order[decideTwice(line)] >= order[decide(line)] || decide(line) === 'deny');
      },
    ),
    { numRuns: 1500 },
  );
});

test('hostile lines are decided within a bounded time, and never allowed', () => {
  const openers = [
    '(',
    '$(',
    '`',
    '`\\',
    '{',
    '{,',
    '${',
    '${x:-',
    "'",
    '"$(',
    '<<A ',
    '<<A\n',
    '$((',
    '((',
    '@(',
    '|',
    'a&&',
    'a;',
    'if ',
    'case x in ',
    '[a',
    '\\',
    'f()',
    'a=(',
    '[[ ! ',
    'a=b ',
    '<(',
    '1+',
    '$',
    '"${x:-$(`',
    '{a,b}',
    "$'\\",
    'sh -c ',
    'sudo ',
    'timeout 5 ',
    'eval ',
    '! ',
    'push -a ',
    '-a ',
  ];
  for (const opener of openers) {
    for (const size of [300, 32_000, 1_000_000]) {
      const line = `npm test ${opener.repeat(Math.ceil(size / opener.length))}`;
      const startedMs = performance.now();
      assert.notEqual(decide(line), 'allow', opener);
      const tookMs = performance.now() - startedMs;
      assert.ok(tookMs < 5000, `${JSON.stringify(opener)} × ${size}: ${tookMs} ms`);
    }
  }
});
