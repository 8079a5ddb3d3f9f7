/**
 * Draws the run of `examples/learner.ts` for docs/learning.md: its crossings of the lake, its choices of strategies,
 * and the episodes in which it was killed.
 *
 *   EPISODES=200 node -C handfast-source bench/learner.ts FILE.svg
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

interface Done {
  readonly number: number;
  readonly strategy: string;
  readonly won: boolean;
  readonly resumedAt: number;
}

const [file = ''] = process.argv.slice(2);
const example = join(import.meta.dirname, '..', 'examples', 'learner.ts');
const printed = execFileSync(process.execPath, [...process.execArgv, example], {
  env: { ...process.env, JSON: '1' },
  encoding: 'utf8',
});
const { episodes } = JSON.parse(printed.trim().split('\n').at(-1)!) as { readonly episodes: readonly Done[] };
const resumed = episodes.findIndex(({ resumedAt }) => resumedAt > 0);

/** Episodes behind each point. */
const WINDOW = 20;
/** With which probability uniformly random actions cross the lake within 100 steps, computed from its transitions. */
const RANDOM = 0.014;
const PLOT = { left: 64, right: 590, top: 48, height: 230, shares: 310, sharesHeight: 90 };
const COLOURS: Readonly<Record<string, string>> = { wander: '#8a8a8a', curious: '#e69f00', careful: '#0072b2' };

const x = (at: number) => PLOT.left + (at / episodes.length) * (PLOT.right - PLOT.left);
const y = (rate: number) => PLOT.top + PLOT.height * (1 - rate);
const shareOf = (at: number, test: (done: Done) => boolean) => {
  const window = episodes.slice(Math.max(0, at - WINDOW), at);
  return window.filter(test).length / window.length;
};
const points = episodes.map((_, at) => at + 1).filter((at) => at >= WINDOW);
const place = (across: number, up: number) => `${across.toFixed(1)},${up.toFixed(1)}`;
const text = (across: number, up: number, words: string | number, more = '') =>
  `<text x="${across.toFixed(1)}" y="${up.toFixed(1)}" ${more}>${words}</text>`;

const parts = [
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 450" font-family="sans-serif" font-size="13">',
  '<title>FrozenLake, slippery: killed in the middle, continued</title>',
  '<rect width="760" height="450" fill="#fff"/>',
  text(PLOT.left, 26, 'FrozenLake, slippery: killed in the middle, continued', 'font-size="16" font-weight="bold"'),
];
for (const rate of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
  parts.push(
    `<line x1="${PLOT.left}" x2="${PLOT.right}" y1="${y(rate)}" y2="${y(rate)}" stroke="#e3e3e3"/>`,
    text(PLOT.left - 8, y(rate) + 4, rate, 'text-anchor="end"'),
  );
}
const rates = points.map((at) => place(x(at), y(shareOf(at, ({ won }) => won))));
const end = shareOf(episodes.length, ({ won }) => won);
parts.push(
  `<line x1="${PLOT.left}" x2="${PLOT.right}" y1="${y(RANDOM)}" y2="${y(RANDOM)}" stroke="#333" stroke-dasharray="4 4"/>`,
  text(PLOT.right + 8, y(RANDOM) + 4, `random: ${RANDOM}`),
  `<polyline points="${rates.join(' ')}" fill="none" stroke="#009e73" stroke-width="2"/>`,
  text(PLOT.right + 8, y(end) + 4, `crossed: ${end.toFixed(2)}`, 'fill="#009e73"'),
  `<text transform="translate(18 ${PLOT.top + PLOT.height / 2}) rotate(-90)" text-anchor="middle">share that crossed</text>`,
  `<text transform="translate(18 ${PLOT.shares + PLOT.sharesHeight / 2}) rotate(-90)" text-anchor="middle">strategies</text>`,
);
const shares = points.map(() => 0);
for (const [name, colour] of Object.entries(COLOURS)) {
  const lower = [...shares];
  for (const [index, at] of points.entries()) shares[index]! += shareOf(at, ({ strategy }) => strategy === name);
  const up = (share: number) => PLOT.shares + PLOT.sharesHeight * (1 - share);
  const outline = [
    ...points.map((at, index) => place(x(at), up(shares[index]!))),
    ...points.map((at, index) => place(x(at), up(lower[index]!))).reverse(),
  ];
  const labelled = PLOT.shares + 24 + 20 * Object.keys(COLOURS).indexOf(name);
  parts.push(
    `<polygon points="${outline.join(' ')}" fill="${colour}" opacity="0.75"/>`,
    text(PLOT.right + 8, labelled, name, `fill="${colour}"`),
  );
}
if (resumed >= 0) {
  const at = x(resumed + 1);
  parts.push(
    `<line x1="${at}" x2="${at}" y1="${PLOT.top}" y2="${PLOT.shares + PLOT.sharesHeight}" stroke="#d55e00" stroke-width="2"/>`,
    text(at + 6, PLOT.top + 14, `agent and host killed (episode ${resumed + 1})`, 'fill="#d55e00"'),
  );
}
for (let tick = 0; tick <= 4; tick++) {
  const number = Math.round((episodes.length * tick) / 4);
  parts.push(text(x(number), PLOT.shares + PLOT.sharesHeight + 18, number, 'text-anchor="middle"'));
}
const label = `episode (each point: the ${WINDOW} before it)`;
parts.push(text((PLOT.left + PLOT.right) / 2, 440, label, 'text-anchor="middle"'), '</svg>', '');
writeFileSync(file, parts.join('\n'));
console.log(printed.trim().split('\n').slice(0, -1).join('\n'));
