/**
 * `npm run bench:learning`: the quality of the choices of the learning capability's policies.
 *
 *   npm run bench:learning -- [--seeds N] [--only NAME]… [--svg FOLDER] [--digits FILE]
 *
 * Cumulative regret on problems whose truth is known (stationary, abrupt and gradual drift, contextual), over 100
 * seeds; the choice of a ranking for real queries; with `--digits`, the digits data set as a bandit:
 * `bench/learning/digits.py` writes that file, with the results of `mabwiser` on the same rows. `--svg` writes the
 * plots of docs/learning.md.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { chart } from './learning/chart.ts';
import { type DigitsFile, playDigits } from './learning/digits.ts';
import { type Band, bandOf, contenders, regretOf } from './learning/play.ts';
import { type Problem, problems } from './learning/problems.ts';
import { judgedQueries, playSearch } from './learning/search.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '100' },
    only: { type: 'string', multiple: true },
    svg: { type: 'string' },
    digits: { type: 'string' },
  },
});
const SEEDS = Number(values.seeds);
const MARKS = 60;

const isWanted = (name: string): boolean => values.only?.includes(name) ?? true;

function write(name: string, svg: string): void {
  if (values.svg === undefined) return;
  const file = join(values.svg, `learning-${name}.svg`);
  writeFileSync(file, svg);
  console.log(`wrote ${file}`);
}

function playProblem(problem: Problem): void {
  const bands: Band[] = [];
  console.log(`\n${problem.title}; cumulative regret after ${problem.rounds} rounds, ${SEEDS} seeds\n`);
  for (const { label, policy } of contenders) {
    const needsFeatures = policy !== 'best fixed' && policy.name === 'linucb';
    if (needsFeatures && problem.name !== 'contextual') continue;
    const begun = performance.now();
    const runs = Array.from({ length: SEEDS }, (_, seed) => regretOf(problem, policy, seed, MARKS));
    const micros = ((performance.now() - begun) * 1000) / SEEDS / problem.rounds;
    const band = bandOf(label, runs);
    bands.push(band);
    const [mean, half] = [band.means.at(-1)!, band.halves.at(-1)!];
    console.log(
      `  ${label.padEnd(26)} ${mean.toFixed(1).padStart(8)} ± ${half.toFixed(1).padEnd(6)} ${micros.toFixed(1)} µs a round`,
    );
  }
  const x = `round (mean of ${SEEDS} seeds, 95 % confidence bands)`;
  write(problem.name, chart(bands, { title: problem.title, x, y: 'cumulative regret', until: problem.rounds }));
}

for (const problem of problems) if (isWanted(problem.name)) playProblem(problem);

if (values.digits !== undefined && isWanted('digits')) {
  const file = JSON.parse(readFileSync(values.digits, 'utf8')) as DigitsFile;
  const bands = playDigits(file);
  console.log(`\nDigits as a bandit: ${file.rows.length} rows, ${file.orders.length} orders; mean reward\n`);
  for (const { label, means, halves } of bands) {
    console.log(`  ${label.padEnd(26)} ${means.at(-1)!.toFixed(4)} ± ${halves.at(-1)!.toFixed(4)}`);
  }
  const title = 'Digits: ten options, 64 features, reward 1 for the right digit';
  const x = `row (mean of ${file.orders.length} orders, 95 % confidence bands)`;
  write('digits', chart(bands, { title, x, y: 'mean reward so far', until: file.rows.length, top: 1 }));
}

if (isWanted('search')) {
  const judged = await judgedQueries();
  const bands = playSearch(judged, SEEDS);
  console.log(`\nHow to search: ${judged.length} queries over the sections of docs/; hit@5, ${SEEDS} orders\n`);
  for (const { label, means, halves } of bands) {
    console.log(`  ${label.padEnd(26)} ${means.at(-1)!.toFixed(4)} ± ${halves.at(-1)!.toFixed(4)}`);
  }
  for (const kind of ['heading', 'name'] as const) {
    const some = judged.filter((one) => one.kind === kind);
    const shares = [0, 1, 2].map((at) => some.reduce((sum, { hits }) => sum + hits[at]!, 0) / some.length);
    console.log(
      `  ${kind}: ${some.length} queries, lexical, vector, hybrid ${shares.map((share) => share.toFixed(3)).join(', ')}`,
    );
  }
  const title = 'How to search: hit@5 of queries over the sections of these pages';
  const x = `query (mean of ${SEEDS} orders, 95 % confidence bands)`;
  write('search', chart(bands, { title, x, y: 'mean hit@5 so far', until: judged.length, top: 1 }));
}
