/**
 * Draws docs/images/*.svg: `handfast chat` at a real terminal (tmux), with a scripted model provider. Run it when the
 * look of the chat changes, and check its pictures: `node -C handfast-source scripts/chat-pictures.ts`.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { startModelServer } from '../src/testing/model-server.ts';
import { User } from '../test/cli/command.ts';
import { TmuxTerminal } from '../test/cli/tmux.ts';
import { CELL, escapedText, INK, placeOf, terminalPicture } from './terminal-picture.ts';

const COLUMNS = 84;
const ROWS = 30;
const COLOURS: Readonly<Record<string, string>> = { 31: '#f2777a', 32: '#8fc97c', 33: '#e5c07b', 36: '#6cc7d6' };

const PLAIN = { colour: INK, bold: false, dim: false, italic: false, underline: false };

const ANSWER = `## What changed

\`parseDate\` took the **local** time zone. It reads ISO dates in UTC now:

\`\`\`ts
export const parseDate = (text: string): Date => new Date(\`\${text}T00:00:00Z\`);
\`\`\`

| Input | Before | Now |
| --- | --- | --- |
| 2026-03-01 | 28 Feb 23:00 | 1 Mar 00:00 |
| 2026-10-25 | 24 Oct 22:00 | 25 Oct 00:00 |

- Callers need no change.
- See [the issue](https://example.org/issues/7).
`;

const edit = {
  id: 'call-2',
  name: 'edit_file',
  input: {
    path: 'dates.ts',
    edits: [{ old_text: 'new Date(text);', new_text: 'new Date(`\u0024{text}T00:00:00Z`);' }],
  },
};

/** Returns a screen with its colours, as SVG: one text element for each row. */
function svgOf(screen: string, title: string): string {
  const rows = screen.replace(/\n+$/, '').split('\n');
  // A style holds until it ends, also in the next row.
  const style = { ...PLAIN };
  const lines = rows.map((row, at) => {
    let column = 0;
    let spans = '';
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what a terminal shows has them
    for (const part of row.split(/(\u001b\[[\d;]*m)/)) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: as above
      const codes = /^\u001b\[([\d;]*)m$/.exec(part)?.[1]?.split(';');
      if (codes === undefined) {
        const look = [
          `fill="${style.colour}"`,
          style.bold ? 'font-weight="bold"' : '',
          style.dim ? 'opacity="0.6"' : '',
          style.italic ? 'font-style="italic"' : '',
          style.underline ? 'text-decoration="underline"' : '',
        ];
        const { x, y } = placeOf(at, column);
        const length = (part.length * CELL.width).toFixed(1);
        if (part.trim() !== '') {
          const text = escapedText(part);
          spans += `<text x="${x}" y="${y}" textLength="${length}" ${look.filter(Boolean).join(' ')}>${text}</text>`;
        }
        column += part.length;
      }
      for (const code of codes ?? []) {
        if (code === '' || code === '0') Object.assign(style, PLAIN);
        if (code === '1') style.bold = true;
        if (code === '2') style.dim = true;
        if (code === '3') style.italic = true;
        if (code === '4') style.underline = true;
        if (code === '39') style.colour = INK;
        style.colour = COLOURS[code] ?? style.colour;
      }
    }
    return spans;
  });
  return terminalPicture({ title, columns: COLUMNS, rows: rows.length, content: lines });
}

const draw = (name: string, title: string, terminal: TmuxTerminal): void =>
  writeFileSync(
    `docs/images/${name}.svg`,
    svgOf(terminal.screen({ styled: true }).replaceAll(user.cwd, '~/project'), title),
  );

mkdirSync('docs/images', { recursive: true });
const provider = await startModelServer({
  models: ['claude-opus-4-5', 'claude-sonnet-4-5'],
  otherwise: () => ({ text: 'ok' }),
});
const user = new User();
user.write('dates.ts', 'export const parseDate = (text: string): Date => new Date(text);\n');
const { NO_COLOR: _, ...environment } = user.environment({
  HANDFAST_KEYRING: 'off',
  ANTHROPIC_API_KEY: 'test',
  ANTHROPIC_BASE_URL: provider.baseUrl('anthropic'),
});
const terminal = new TmuxTerminal(user.line(['chat', '--new']), {
  cwd: user.cwd,
  env: environment,
  columns: COLUMNS,
  rows: ROWS,
});
try {
  provider.play([
    {
      text: 'I will look at the file first.',
      tool_calls: [{ id: 'call-1', name: 'read_file', input: { path: 'dates.ts' } }],
    },
    { text: 'The time zone is missing.', tool_calls: [edit] },
    { text: ANSWER },
  ]);
  await terminal.shows(/\/help\n*$/);
  terminal.type('why does @dates.ts show the day before in Berlin? fix it');
  terminal.press('Enter');
  await terminal.shows('n and why');
  draw('chat-approval', 'An approval in handfast chat', terminal);
  terminal.type('y');
  terminal.press('Enter');
  await terminal.shows(/See the issue[\s\S]*\/help\n*$/);
  draw('chat-answer', 'An answer in handfast chat', terminal);
  terminal.type('/model');
  terminal.press('Enter');
  await terminal.shows('type to narrow');
  draw('chat-model', 'The choice of a model in handfast chat', terminal);
} finally {
  terminal.close();
  await user.leave();
  await provider[Symbol.asyncDispose]();
}
