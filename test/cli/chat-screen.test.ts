/**
 * The screen of `handfast chat`, as its user sees it: what is typed and pasted, what streams above it, what changes with
 * the size of the terminal.
 */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { User } from './command.ts';
import { noTmux, TmuxTerminal } from './tmux.ts';

const users: User[] = [];
const terminals: TmuxTerminal[] = [];

after(async () => {
  for (const terminal of terminals) terminal.close();
  await Promise.all(users.map((user) => user.leave()));
});

interface Size {
  readonly columns?: number;
  readonly rows?: number;
}

/** A chat with the rehearsal backend, ready for input. */
async function chatAt(user: User, words: readonly string[] = [], size: Size = {}): Promise<TmuxTerminal> {
  users.push(user);
  const terminal = new TmuxTerminal(user.line(['chat', ...words]), {
    cwd: user.cwd,
    env: user.environment({ HANDFAST_KEYRING: 'off' }),
    ...size,
  });
  terminals.push(terminal);
  await terminal.shows(IDLE);
  return terminal;
}

/** The last row when no turn runs. */
const IDLE = /rehearsal.*\/help\n*$/;
const RULE = /^─+$/m;

describe('the screen of a chat', { skip: noTmux }, () => {
  test('several lines are one prompt: pasted, with Alt-Enter, behind a backslash', async () => {
    const terminal = await chatAt(new User());
    terminal.paste('say "one"\nthen');
    terminal.type(' say');
    terminal.press('M-Enter');
    terminal.type('"two" then \\');
    terminal.press('Enter');
    terminal.type('say "three"');
    await terminal.shows('› say "one"\n  then say\n  "two" then\n  say "three"\n');
    assert.doesNotMatch(terminal.screen(), /working|tokens/, 'nothing was sent yet');
    terminal.press('Enter');
    await terminal.shows(/tokens · \/help\n*$/);
    const [above = ''] = terminal.screen({ history: true }).split(RULE);
    assert.match(above, /\n› say "one"\n {2}then say\n {2}"two" then\n {2}say "three"\n\n/);
    terminal.press('C-d');
    assert.equal(await terminal.ended(), 0);
  });

  test('what is typed stands still below the answer that streams', async () => {
    const terminal = await chatAt(new User());
    terminal.type('say "first" then wait 3000 ms then say "second"');
    terminal.press('Enter');
    await terminal.shows(/^first$/m);
    terminal.type('half a thought');
    await terminal.shows(/first\n─+\n› half a thought\nworking/);
    await terminal.shows(/second\n─+\n› half a thought\nrehearsal/);
    terminal.press('C-c');
    await terminal.shows(/─\n›\n/);
    terminal.press('C-c');
    assert.equal(await terminal.ended(), 0);
  });

  test('inputs of before come back with the arrow keys', async () => {
    const terminal = await chatAt(new User());
    terminal.type('say "older"');
    terminal.press('Enter');
    await terminal.shows(/tokens · \/help\n*$/);
    terminal.press('Up');
    await terminal.shows(/─\n› say "older"\n/);
    terminal.press('C-c', 'C-c');
    assert.equal(await terminal.ended(), 0);
  });

  test('a terminal that gets narrower and wider shows one input line, and keeps what it said', async () => {
    const terminal = await chatAt(new User(), [], { columns: 90, rows: 24 });
    terminal.type(`say "${'word '.repeat(30)}"`);
    terminal.press('Enter');
    await terminal.shows(/tokens · \/help\n*$/);
    terminal.type('kept');
    for (const columns of [40, 100, 61]) {
      terminal.resize(columns, 24);
      const screen = await terminal.shows(new RegExp(`^─{${columns}}\\n› kept\\nrehearsal`, 'm'));
      assert.equal(screen.match(/› kept/g)?.length, 1);
      assert.ok(screen.split('\n').every((row) => [...row].length <= columns));
    }
    terminal.press('C-c', 'C-c');
    assert.equal(await terminal.ended(), 0);
  });

  test('wide characters are counted as the terminal counts them', async () => {
    const terminal = await chatAt(new User(), [], { columns: 40, rows: 24 });
    terminal.type('say "漢字かな交じり文を折り返して表示する試験です"');
    terminal.press('Enter');
    const screen = await terminal.shows(/tokens · \/help\n*$/);
    assert.match(screen, /^漢字かな交じり文を折り返して表示する試験$|^漢字かな交じり文を折り返して表示する試験で$/m);
    terminal.type('猫');
    await terminal.shows(/─\n› 猫\nrehearsal/);
    terminal.press('BSpace');
    await terminal.shows(/─\n›\nrehearsal/);
    terminal.press('C-d');
    assert.equal(await terminal.ended(), 0);
  });
});
