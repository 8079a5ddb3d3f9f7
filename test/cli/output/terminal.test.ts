/**
 * Output on a terminal: tables that fit its width, colour only where it is shown and wanted, long output through the pager.
 */
import assert from 'node:assert/strict';
import { chmodSync, readFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { after, describe, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { Pager, pagerOf } from '../../../src/cli/output/pager.ts';
import { Terminal } from '../../../src/cli/output/terminal.ts';
import { fitted, widthOf, wrapped } from '../../../src/cli/output/text-width.ts';
import { leadOf, toneOf } from '../../../src/cli/output/tones.ts';
import { User } from '../command.ts';

/** Makes a terminal of this width; returns it and the text written to it. */
function screen(columns: number, env: Record<string, string> = { PAGER: '' }) {
  const stdout = Object.assign(new PassThrough(), { isTTY: true, columns, rows: 24 }) as unknown as NodeJS.WriteStream;
  let text = '';
  stdout.on('data', (data) => {
    text += data;
  });
  const terminal = new Terminal(false, { stdout, stderr: stdout, env });
  return { terminal, text: () => stripVTControlCharacters(text) };
}

test('a text beside its label is cut between words and stays beside it; without a terminal it is one line', () => {
  const { terminal, text } = screen(40);
  terminal.labelled(
    '   refused    ',
    'auth_failed: the host refused the token; pass another\nhttp://127.0.0.1:4700/a-long-address',
  );
  assert.deepEqual(text().trimEnd().split('\n'), [
    '   refused    auth_failed: the host',
    '              refused the token; pass',
    '              another',
    '              http://127.0.0.1:4700/a-long-address',
  ]);
  assert.deepEqual(wrapped('日本語の ファイル', 10), ['日本語の', 'ファイル']);
  assert.deepEqual(wrapped('one line of any length', Number.POSITIVE_INFINITY), ['one line of any length']);
});

describe('a table', () => {
  const headings = ['NAME', 'STATE', 'ABOUT'];
  const rows = [
    ['日本語のファイル', 'done', 'wide characters take two columns each'],
    ['plain', 'error, parked', 'and narrow ones take one 👩‍👩‍👧 each'],
  ];

  test('is no wider than the terminal, in columns and not in characters, at any width', () => {
    for (const columns of [20, 24, 30, 40, 60, 80, 200]) {
      for (const line of screen(columns).terminal.columns(headings, rows)) {
        assert.ok(widthOf(line) <= columns, `${widthOf(line)} columns at ${columns}: ${line}`);
      }
    }
  });

  test('has its columns one below the other behind wide characters', () => {
    const [head = '', first = '', second = ''] = screen(80).terminal.columns(headings, rows);
    const at = (line: string, word: string) => widthOf(line.slice(0, line.indexOf(word)));
    assert.equal(at(head, 'STATE'), at(first, 'done'));
    assert.equal(at(head, 'STATE'), at(second, 'error'));
    assert.equal(at(head, 'ABOUT'), at(first, 'wide'));
  });

  test('says with … what was cut, and leaves out dispensable columns first', () => {
    const [head = '', first = ''] = screen(40).terminal.columns(headings, rows, ['STATE']);
    assert.match(head, /^NAME +ABOUT$/);
    assert.match(first, /…$/);
    assert.deepEqual(screen(200).terminal.columns(headings, rows)[1]?.endsWith('each'), true);
  });
});

test('a text is cut between characters, never inside one', () => {
  assert.equal(fitted('日本語', 6), '日本語');
  assert.equal(fitted('日本語', 5), '日本…');
  assert.equal(fitted('日本語', 4), '日…');
  assert.equal(fitted('ab👩‍👩‍👧cd', 5), 'ab👩‍👩‍👧…');
  assert.equal(fitted('long enough', 100), 'long enough');
});

test('colours go by the word of a state and by the mark of a note', () => {
  assert.equal(toneOf('running+2'), 'green');
  assert.equal(toneOf('error, parked'), 'yellow');
  assert.equal(toneOf('error'), 'red');
  assert.equal(toneOf('constructor'), undefined);
  assert.deepEqual(leadOf('✗ it failed'), ['✗', 'red']);
  assert.deepEqual(leadOf('warning: it is open'), ['warning:', 'yellow']);
  assert.equal(leadOf('✗'), undefined);
});

describe('the pager', () => {
  const started: string[] = [];
  const start = (code: number) => () => ({
    write: (text: string) => void started.push(text),
    end: async () => code,
  });

  test('is not started for what fits the screen', async () => {
    const pager = new Pager('less', {}, { rows: 5, columns: 80 }, start(0));
    pager.write('one\ntwo\n');
    assert.equal(await pager.end(), 'one\ntwo\n');
    assert.deepEqual(started, []);
  });

  test('gets everything once it is longer, counting lines that wrap', async () => {
    const pager = new Pager('less', {}, { rows: 5, columns: 10 }, start(0));
    pager.write('first\n');
    pager.write(`\n${'x'.repeat(60)}\n`);
    pager.write('last\n');
    assert.equal(await pager.end(), '');
    assert.equal(started.join(''), `first\n\n${'x'.repeat(60)}\nlast\n`);
  });

  test('that cannot be started costs nothing: the text is printed', async () => {
    const pager = new Pager('less', {}, { rows: 1, columns: 10 }, start(127));
    pager.write('a\nb\nc\n');
    assert.equal(await pager.end(), 'a\nb\nc\n');
  });

  test('is named by PAGER, which turns it off when it is empty', () => {
    assert.equal(pagerOf({}, 'linux'), 'less');
    assert.equal(pagerOf({ PAGER: 'more -s' }), 'more -s');
    for (const PAGER of ['', ' ', 'cat']) assert.equal(pagerOf({ PAGER }), undefined);
    assert.equal(pagerOf({ TERM: 'dumb' }, 'linux'), undefined);
    assert.equal(pagerOf({}, 'win32'), undefined);
  });
});

describe('at a real terminal', () => {
  const user = new User();
  after(() => user.leave());
  const at = { terminal: true, env: { COLUMNS: '80', LINES: '24', TERM: 'xterm-256color' } };
  const run = (words: string[], env: Record<string, string>) =>
    user.run(words, { ...at, env: { ...at.env, ...env } }).then(({ stdout }) => stdout);

  test('errors are in colour, and NO_COLOR turns that off', async () => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the colour itself
    assert.match(await run(['schema', 'export', 'nothing'], { NO_COLOR: '' }), /\u001b\[31mhandfast:\u001b\[39m /);
    assert.match(await run(['schema', 'export', 'nothing'], { NO_COLOR: '1' }), /^handfast: /);
  });

  test('a pipe gets no colour, unless FORCE_COLOR asks for it', async () => {
    const piped = (env: Record<string, string>) => user.run(['schema', 'export', 'nothing'], { env });
    assert.match((await piped({ NO_COLOR: '' })).stderr, /^handfast: /);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the colour itself
    assert.match((await piped({ FORCE_COLOR: '1', NO_COLOR: '' })).stderr, /^\u001b\[31mhandfast:/);
  });

  test('a long schema goes through PAGER, and into a pipe as it is', async () => {
    const pager = user.write('pager.sh', '#!/bin/sh\necho "paged by $0"\ncat > paged.txt\n');
    chmodSync(pager, 0o755);
    assert.match(await run(['schema', 'export', 'config'], { PAGER: pager }), /^paged by /);
    const { stdout } = await user.run(['schema', 'export', 'config'], { env: { PAGER: pager } });
    assert.equal(readFileSync(`${user.cwd}/paged.txt`, 'utf8'), stdout);
  });
});
