/**
 * The screen of `handfast chat`, as its user sees it: typed and pasted text, the stream above it, changes with the size of the
 * terminal.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { User, untimed } from './command.ts';
import { noTmux, TmuxTerminal } from './tmux.ts';

const users: User[] = [];
const terminals: TmuxTerminal[] = [];

after(async () => {
  for (const terminal of terminals) terminal.close();
  await Promise.all(users.map((user) => user.leave()));
});

interface Size {
  readonly env?: Readonly<Record<string, string>>;
  readonly columns?: number;
  readonly rows?: number;
}

/** Opens a chat with the rehearsal backend, ready for input. */
async function chatAt(
  user: User,
  words: readonly string[] = [],
  { env = {}, ...size }: Size = {},
): Promise<TmuxTerminal> {
  users.push(user);
  const terminal = new TmuxTerminal(user.line(['chat', ...words]), {
    cwd: user.cwd,
    env: user.environment({ HANDFAST_KEYRING: 'off', ...env }),
    ...size,
  });
  terminals.push(terminal);
  await terminal.shows(IDLE);
  return terminal;
}

/** The last row when no turn runs. */
const IDLE = /rehearsal.*\/help\n*$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: styles are made of them
const SGR = /\u001b\[[\d;:]*m/g;
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

  test('Esc stops the turn and says so, and keeps what is typed', async () => {
    const terminal = await chatAt(new User());
    terminal.type('say "begun" then wait 60000 ms');
    terminal.press('Enter');
    await terminal.shows(/^begun$/m);
    await terminal.shows(/Esc stops\n*$/);
    terminal.type('/ret');
    await terminal.shows('give this session a title');
    terminal.press('Escape');
    const open = await terminal.shows(/─\n› \/ret\nworking/);
    assert.doesNotMatch(open, /stopping/, 'it closed the list');
    terminal.press('Escape', 'Escape');
    await terminal.shows(
      /· stopping the turn; Ctrl-C again: exit\n· response interrupted by user.*\n─+\n› \/ret\nrehearsal/,
    );
    terminal.press('C-u');
    terminal.type('run "touch made"');
    terminal.press('Enter');
    await terminal.shows(/and why:\n›/);
    terminal.press('Escape');
    const screen = await terminal.shows(/\? shell(?:.*\n)+· .*interrupted.*\n─+\n›\nrehearsal/);
    assert.doesNotMatch(screen, /allow\?/, 'a turn that was stopped asks nothing');
    terminal.press('C-c');
    assert.equal(await terminal.ended(), 0);
  });

  test('a second Ctrl-C leaves, also where the server does not respond', async () => {
    const user = new User();
    const { command: up } = await user.up([], { env: { HANDFAST_KEYRING: 'off' } });
    const terminal = await chatAt(user);
    terminal.type('say "begun" then wait 60000 ms');
    terminal.press('Enter');
    await terminal.shows(/^begun$/m);
    up.child.kill('SIGSTOP');
    terminal.press('C-c');
    await terminal.shows('· stopping the turn; Ctrl-C again: exit');
    terminal.press('C-c');
    const code = await terminal.ended();
    up.child.kill('SIGCONT');
    assert.equal(code, 130);
  });

  test('without colours the screen is the same, and nothing in it has a style', async () => {
    const screens: string[] = [];
    for (const NO_COLOR of ['', '1']) {
      const user = new User();
      user.write('notes.txt', 'one\ntwo\n');
      const terminal = await chatAt(user, [], { env: { NO_COLOR } });
      terminal.type(
        'say "# Title\\n\\n- **bold** and `code`\\n\\n```\\nx = 1\\n```\\n> quoted" then edit notes.txt replace "two" with "2"',
      );
      terminal.press('Enter');
      await terminal.shows(/and why:\n›/);
      terminal.type('y');
      terminal.press('Enter');
      await terminal.shows(IDLE);
      terminal.type('/model');
      terminal.press('Enter');
      await terminal.shows('no model can be used');
      terminal.type('/q');
      await terminal.shows(/→ \/queue/);
      const styled = terminal.screen({ history: true, styled: true });
      const plain = styled.replaceAll(SGR, '');
      assert.equal(styled === plain, NO_COLOR === '1');
      screens.push(
        untimed(plain)
          .replaceAll(user.cwd, 'FOLDER')
          .replaceAll(/\d+ tokens/g, 'N tokens'),
      );
      terminal.press('Escape');
      // The list is closed: a key that follows Escape at once would be one key with it.
      await terminal.shows(/─\n› \/q\nrehearsal/);
      terminal.press('C-c');
      await terminal.shows(/─\n›\n/);
      terminal.press('C-d');
      assert.equal(await terminal.ended(), 0);
    }
    assert.equal(screens[1], screens[0]);
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

  test('Tab completes commands, and files that .gitignore does not leave out', async () => {
    const user = new User();
    user.write('.gitignore', '*.log\n');
    user.write('notes.txt', 'one\ntwo\n');
    user.write('noise.log', '');
    user.write('no\u001b[31mte.txt', '');
    const terminal = await chatAt(user);
    terminal.type('/ret');
    await terminal.shows('give this session a title');
    terminal.press('Tab');
    terminal.type('A title');
    terminal.press('Enter');
    await terminal.shows(/─\n›\n/);
    terminal.type('/ses');
    await terminal.shows('choose another session');
    terminal.press('Enter');
    await terminal.shows(/─\nSessions of this folder\n→ A title/);
    terminal.press('Escape');
    await terminal.shows(/─\n›\n/);
    terminal.type('read @no');
    await terminal.shows('→ notes.txt');
    assert.doesNotMatch(terminal.screen(), /noise|te\.txt\n.*te\.txt/);
    terminal.press('Tab');
    await terminal.shows(/─\n› read @notes\.txt\n/);
    terminal.press('C-c', 'C-c');
    assert.equal(await terminal.ended(), 0);
  });

  test('a change is shown as its diff before it is allowed, and a no says why', async () => {
    const user = new User();
    user.write('notes.txt', 'one\ntwo\nthree\n');
    const terminal = await chatAt(user);
    terminal.type('edit notes.txt replace "two" with "2"');
    terminal.press('Enter');
    await terminal.shows(/\? edit_file: notes\.txt \(.*\n(?:.*\n)? {2}│ -two\n {2}│ \+2\n─/);
    await terminal.shows(/\[n\]o, or n and why:\n›/);
    terminal.type('n use the word deux');
    terminal.press('Enter');
    await terminal.shows(/not allowed\. The\s+user says: use\s+the\s+word deux\./);
    assert.equal(readFileSync(join(user.cwd, 'notes.txt'), 'utf8'), 'one\ntwo\nthree\n');
    terminal.type('write "one\\nfour" to notes.txt');
    terminal.press('Enter');
    await terminal.shows(/ {2}│ -two\n/);
    assert.match(await terminal.shows(/\[n\]o, or n and why:\n›/), / {2}│ @@ -1,3 \+1,\d @@\n/);
    terminal.type('y');
    terminal.press('Enter');
    await terminal.shows('✓ write_file notes.txt');
    terminal.press('C-d');
    assert.equal(await terminal.ended(), 0);
  });

  test('a long output is folded to its last lines, and Ctrl-O shows all', async () => {
    const terminal = await chatAt(new User(), ['--approvals', 'allow']);
    terminal.type('run "seq 1000 1019 && echo end"');
    terminal.press('Enter');
    const folded = await terminal.shows(/tokens · \/help\n*$/, { history: true });
    assert.match(folded, /✓ shell seq .*\n {2}… 18 more lines: Ctrl-O shows all\n {2}│ 1018\n {2}│ 1019\n {2}│ end\n/);
    assert.doesNotMatch(folded, /│ 1001/);
    terminal.press('C-o');
    await terminal.shows(/✓ shell seq .*\n {2}│ 1000\n {2}│ 1001\n(?:.*\n)+ {2}│ end\n─/);
    terminal.press('C-o');
    await terminal.shows('nothing more to show');
    terminal.press('C-d');
    assert.equal(await terminal.ended(), 0);
  });

  test('what models and tools write cannot move the cursor, change the title or hide where a link leads', async () => {
    const user = new User();
    user.write('evil.sh', "printf 'a\\033]0;owned\\007b\\033[2Jc\\rd\\n\\033[5Ax\\nlast\\n'\n");
    const terminal = await chatAt(user, ['--approvals', 'allow']);
    terminal.type('run "sh evil.sh"');
    terminal.press('Enter');
    await terminal.shows('│ a\\u{1b}]0;owned\\u{7}b\\u{1b}[2Jc\\u{d}d');
    await terminal.shows(/tokens · \/help\n*$/);
    terminal.type('say "[a bank](https://evil.example/\u202e) and \u009b31m"');
    terminal.press('Enter');
    await terminal.shows(/a bank \(https:\/\/evil\.example\/(?:\\u\{202e\}|%5Cu%7B202e%7D)\) and \\u\{9b\}31m/);
    assert.notEqual(terminal.title, 'owned');
    terminal.press('C-d');
    assert.equal(await terminal.ended(), 0);
  });

  test('/model and /auth are lists to choose from, and a key that is entered is not shown', async () => {
    const user = new User();
    const terminal = await chatAt(user, ['--backend', 'rehearsal'], { env: { ANTHROPIC_API_KEY: 'test' } });
    terminal.type('/model');
    terminal.press('Enter');
    await terminal.shows(/─\nModel of this session\n→ /);
    terminal.type('opus');
    await terminal.shows(/\n→ [^\n]*opus[^\n]*\n(?:.*\n)*› opus · Enter · Esc/);
    terminal.press('Enter');
    await terminal.shows(/─\nThinking of \S*opus\S*\n(?:.*\n)*→ medium ✓ +default of this model\n/);
    terminal.type('low');
    terminal.press('Enter');
    await terminal.shows(/· this session uses \S*opus\S*, thinking low/);
    await terminal.shows(/─\n›\n\S*opus/);
    terminal.type('/model');
    terminal.press('Enter');
    await terminal.shows(/\n→ \S*opus\S* ✓/);
    terminal.press('Enter');
    await terminal.shows(/─\nThinking of \S*opus\S*\n(?:.*\n)*→ low ✓/);
    terminal.press('Escape');
    await terminal.shows(/─\n›\n\S*opus/);
    terminal.type('/auth');
    terminal.press('Enter');
    const providers = await terminal.shows(/─\nProvider\n/);
    assert.match(providers, /anthropic ✓ +ANTHROPIC_API_KEY, \d+ models/);
    assert.match(providers, /openai +not set up/);
    terminal.type('google');
    terminal.press('Enter');
    await terminal.shows(/─\ngoogle\n→ enter an API key\n/);
    terminal.press('Enter');
    await terminal.shows('API key of google');
    terminal.type('verysecret');
    await terminal.shows('› ••••••••••\n');
    terminal.press('Escape');
    await terminal.shows(/─\n›\n/);
    assert.doesNotMatch(terminal.screen({ history: true }), /verysecret/);
    terminal.press('C-d');
    assert.equal(await terminal.ended(), 0);
    await user.up([], { env: { HANDFAST_KEYRING: 'off' } });
    const { settings } = await user.json(['session', 'show', 'last']);
    assert.equal(settings.thinking, 'LOW', 'the session stores it');
  });

  test('a prompt that waits is shown, and /queue takes it back into the input', async () => {
    const user = new User();
    const { command: up } = await user.up([], { env: { HANDFAST_KEYRING: 'off' } });
    const terminal = await chatAt(user);
    terminal.type('say "first" then wait 60000 ms');
    terminal.press('Enter');
    await terminal.shows(/^first$/m);
    const waiting = user.start(['session', 'send', 'last', 'say "second"'], { env: { HANDFAST_KEYRING: 'off' } });
    await terminal.shows('next: say "second"');
    terminal.type('/queue');
    terminal.press('Enter');
    await terminal.shows('→ say "second"');
    terminal.press('Enter');
    const screen = await terminal.shows(/─\n› say "second"\n/);
    assert.doesNotMatch(screen, /next:/);
    terminal.press('C-c');
    await terminal.shows('interrupted');
    terminal.press('C-d', 'C-c');
    await terminal.shows(/─\n›\n/);
    terminal.press('C-d');
    assert.equal(await terminal.ended(), 0);
    waiting.child.kill('SIGTERM');
    up.child.kill('SIGTERM');
    await up.ended();
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
