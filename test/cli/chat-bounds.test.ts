/**
 * Very long answers and outputs in a chat, stored and drawn: counts, never times.
 */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { AnswerText } from '../../src/cli/chat/screen/answer-text.ts';
import { boundedLines, FoldedTexts } from '../../src/cli/chat/screen/folded-texts.ts';
import { LiveArea } from '../../src/cli/chat/screen/live-area.ts';
import { theme } from '../../src/cli/chat/screen/theme.ts';
import { User } from './command.ts';
import { noTmux, TmuxTerminal } from './tmux.ts';

const users: User[] = [];
const terminals: TmuxTerminal[] = [];

after(async () => {
  for (const terminal of terminals) terminal.close();
  await Promise.all(users.map((user) => user.leave()));
});

const COLUMNS = 80;
const MEGABYTE = 2 ** 20;
/** The largest block of Markdown that may still change is 8192 characters; as lines of its width, a little more than that. */
const MAX_TAIL_LINES = 250;

/** Texts of about 1 MB, without a word between two lines that are alike. */
const streams = {
  'paragraphs of prose': (line: number) =>
    `Line ${line} of a long answer with **bold** words.${line % 5 === 4 ? '\n\n' : ' '}`,
  'one paragraph without an end': (line: number) => `word${line} `,
  'one code block': (line: number) => (line === 0 ? '```\n' : `const value${line} = ${line};\n`),
  'one table': (line: number) => (line === 0 ? '| a | b |\n| --- | --- |\n' : `| ${line} | x |\n`),
};

describe('an answer of 1 MB', () => {
  for (const [name, lineOf] of Object.entries(streams)) {
    test(`${name}: what may change stays small, and what is finished is written once`, () => {
      let text = '';
      for (let line = 0; text.length < MEGABYTE; line++) text += lineOf(line);
      const answer = new AnswerText(theme);
      let written = 0;
      let longest = 0;
      let frames = 0;
      const area = new LiveArea({
        write: (piece) => {
          written += piece.length;
          longest = Math.max(longest, piece.length);
        },
        columns: () => COLUMNS,
        draw: (columns) => {
          frames++;
          const lines = answer.tail(columns);
          assert.ok(lines.length <= MAX_TAIL_LINES, `${lines.length} lines may still change`);
          return { lines: lines.slice(-20), cursor: undefined };
        },
      });
      area.open();
      let printed = 0;
      let characters = 0;
      const print = (lines: readonly string[]): void => {
        printed += lines.length;
        for (const line of lines) characters += line.length;
        area.print(lines);
      };
      for (let at = 0; at < text.length; at += 64) {
        const lines = answer.push(text.slice(at, at + 64), COLUMNS);
        print(lines);
      }
      print(answer.end(COLUMNS));
      area.close();
      assert.ok(printed > 1000, `${printed} lines`);
      // No frame waits for more lines than 500 and the lines of one block.
      assert.ok(longest < 200_000, `${longest} characters at once`);
      // A row costs its text and the codes around it; a frame, the rows below.
      assert.ok(written < characters + 10 * printed + 5000 * frames, `${written} of ${characters} characters`);
      assert.ok(frames <= printed / 500 + 3, `${frames} frames for ${printed} lines`);
    });
  }
});

test('of outputs the newest 32 are stored, each up to a size', () => {
  const output = Array.from({ length: 100_000 }, (_, line) => `line ${line}`).join('\n');
  const lines = boundedLines(output);
  assert.equal(lines.length, 5001);
  assert.deepEqual([lines[0], lines[2499]], ['line 0', 'line 2499']);
  assert.match(lines[2500] ?? '', new RegExp(`^… \\d+ of ${output.length} characters are left out$`));
  assert.deepEqual(lines.slice(-3), ['line 99997', 'line 99998', 'line 99999']);
  const long = boundedLines(`${'x'.repeat(MEGABYTE)}y\n`);
  assert.ok(long.join('').length < 300_000);
  assert.equal(long.at(-1)?.at(-1), 'y');
  const few = boundedLines(`${'z\n'.repeat(5000)}`);
  assert.deepEqual(few, Array(5000).fill('z'));
  assert.deepEqual(boundedLines(`${'z\n'.repeat(5000)}end\n`).slice(2499, 2502), [
    'z',
    '… 3 of 10003 characters are left out',
    'z',
  ]);
  const folded = new FoldedTexts();
  for (let text = 0; text < 1000; text++) folded.add({ title: `${text}`, lines });
  let stored = 0;
  while (folded.unfold() !== undefined) stored++;
  assert.equal(stored, 32);
});

test('100,000 lines of a tool are drawn as a few, and the input stays usable', { skip: noTmux }, async () => {
  const user = new User();
  users.push(user);
  const env = user.environment({ HANDFAST_KEYRING: 'off' });
  const terminal = new TmuxTerminal(user.line(['chat', '--approvals', 'allow']), { cwd: user.cwd, env });
  terminals.push(terminal);
  await terminal.shows(/\/help\n*$/);
  terminal.type('run "seq 100000; sleep 2; seq 100000"');
  terminal.press('Enter');
  await terminal.shows(/Esc stops\n*$/);
  terminal.type('typed while it prints');
  await terminal.shows(/\n› typed while it prints\nworking/);
  await terminal.shows(/tokens · \/help\n*$/);
  const screen = terminal.screen({ history: true });
  assert.match(screen, /more lines: Ctrl-O shows all/);
  assert.match(screen, /│ 99998\n *│ 99999\n *│ 100000\n/, 'the last lines are the real end');
  assert.ok(screen.trimEnd().split('\n').length < 200, 'the terminal got a few lines of it');
  assert.match(screen, /\n› typed while it prints\n/);
  terminal.press('C-o');
  const shown = await terminal.shows(/characters (are )?left out/, { history: true });
  assert.ok(shown.trimEnd().split('\n').length < 6000);
  terminal.press('C-c', 'C-c');
  assert.equal(await terminal.ended(), 0);
});
