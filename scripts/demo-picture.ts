/**
 * Records `handfast demo` as docs/images/demo.svg: each line appears with its recorded delay after the one before it,
 * but after {@link MAX_PAUSE_S} at the latest: the start of a host is not worth watching. Run it when the demo changes,
 * and check its picture: `node -C handfast-source scripts/demo-picture.ts`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { User } from '../test/cli/command.ts';
import { escapedText, INK, placeOf, terminalPicture } from './terminal-picture.ts';

const MAX_PAUSE_S = 1.5;

const user = new User();
let before = performance.now();
let seconds = 0;
const [program, ...args] = user.line(['demo']);
const child = spawn(program as string, args, {
  cwd: user.cwd,
  env: user.environment(),
  stdio: ['ignore', 'pipe', 'inherit'],
});
const ended = once(child, 'close');
const lines: { readonly text: string; readonly seconds: number }[] = [{ text: '$ handfast demo', seconds: 0 }];
for await (const text of createInterface(child.stdout)) {
  const now = performance.now();
  seconds += Math.min((now - before) / 1000, MAX_PAUSE_S);
  before = now;
  lines.push({ text, seconds });
}
const [code] = await ended;
if (code !== 0) throw new Error(`the demo ended with ${code}`);
await user.leave();

writeFileSync(
  'docs/images/demo.svg',
  terminalPicture({
    title: 'handfast demo',
    columns: Math.max(...lines.map(({ text }) => text.length)) + 1,
    rows: lines.length,
    style:
      '@media (prefers-reduced-motion: no-preference) { text { animation: show 1ms both; } } @keyframes show { from { opacity: 0; } }',
    content: lines.map(({ text, seconds }, row) => {
      if (text === '') return '';
      const { x, y } = placeOf(row, 0);
      return `<text x="${x}" y="${y}" fill="${INK}" style="animation-delay: ${seconds.toFixed(2)}s">${escapedText(text)}</text>`;
    }),
  }),
);
