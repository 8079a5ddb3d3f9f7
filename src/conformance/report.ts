/** Reports of a run: TAP 14 while it runs, JUnit and one JSON document when it is over. Pure. */
import { toAscii } from '../wire/ascii.ts';
import type { Outcome } from './case.ts';

/** The facts of a run, for the head of a report. */
export interface RunFacts {
  /** `a2e`, `session-rpc` or `fleet`. */
  readonly protocol: string;
  readonly target: string;
  /** Version of the kit. */
  readonly version: string;
}

/** Numbers of cases by outcome. */
export interface Totals {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

export function totalsOf(outcomes: readonly Outcome[]): Totals {
  const count = (status: Outcome['status']): number => outcomes.filter((one) => one.status === status).length;
  return { passed: count('passed'), failed: count('failed'), skipped: count('skipped') };
}

/** Returns the first lines of TAP. */
export const tapHead = ({ protocol, target, version }: RunFacts, count: number): string =>
  `TAP version 14\n# handfast ${version} conformance ${protocol} --target ${target.replaceAll('\n', ' ')}\n1..${count}\n`;

/** Returns the lines of one case; `number` counts from 1. */
export function tapLines(outcome: Outcome, number: number): string {
  const { id, level, title, status, reason = '' } = outcome;
  const what = `${number} - ${id} ${level} ${hashed(title)}`;
  if (status === 'passed') return `ok ${what}\n`;
  if (status === 'skipped') return `ok ${what} # SKIP ${hashed(reason)}\n`;
  const facts = [
    ['section', outcome.section],
    ['reason', reason],
    ...(outcome.expected === undefined ? [] : [['expected', outcome.expected]]),
    ...(outcome.got === undefined ? [] : [['got', outcome.got]]),
  ] as const;
  // JSON texts in ASCII are YAML too, of every version.
  const quoted = (value: string): string => toAscii(JSON.stringify(value));
  const lines = facts.map(([name, value]) => `  ${name}: ${quoted(value)}`);
  const crossed = (outcome.transcript ?? []).map(({ direction, text }) => `    - ${direction}: ${quoted(text)}`);
  const transcript = crossed.length === 0 ? [] : ['  transcript:', ...crossed];
  return `not ok ${[what, '  ---', ...lines, ...transcript, '  ...'].join('\n')}\n`;
}

/** Returns the last line of TAP. */
export const tapTail = ({ passed, failed, skipped }: Totals): string =>
  `# ${passed} passed, ${failed} failed, ${skipped} skipped\n`;

/** Escapes `#`, which begins a directive. */
const hashed = (text: string): string => text.replaceAll('\n', ' ').replaceAll('#', '\\#');

/** Returns a whole run as JUnit XML: one suite for each group of cases. */
export function junitText(outcomes: readonly Outcome[], { protocol, target }: RunFacts): string {
  const groups = Map.groupBy(outcomes, ({ id }) => id.split('-').slice(0, -1).join('-'));
  const suites = [...groups].map(([group, cases]) => {
    const tests = cases.map((one) => junitCase(one, `${protocol}.${group}`));
    return `  <testsuite name="${xml(group)}" ${counts(cases)}>\n${tests.join('')}  </testsuite>\n`;
  });
  const head = `<testsuites name="${xml(`${protocol} ${target}`)}" ${counts(outcomes)}>`;
  return `<?xml version="1.0" encoding="UTF-8"?>\n${head}\n${suites.join('')}</testsuites>\n`;
}

function counts(cases: readonly Outcome[]): string {
  const { failed, skipped } = totalsOf(cases);
  const ms = cases.reduce((sum, { duration_ms }) => sum + duration_ms, 0);
  return `tests="${cases.length}" failures="${failed}" skipped="${skipped}" time="${seconds(ms)}"`;
}

function junitCase(outcome: Outcome, group: string): string {
  const { id, level, title, status, reason = '', duration_ms } = outcome;
  const head = `    <testcase classname="${xml(group)}" name="${xml(`${id} ${level} ${title}`)}" time="${seconds(duration_ms)}"`;
  if (status === 'passed') return `${head}/>\n`;
  const [tag, inner] =
    status === 'skipped' ? ['skipped', ''] : ['failure', xml(tapLines(outcome, 1).split('\n').slice(1).join('\n'))];
  return `${head}>\n      <${tag} message="${xml(reason)}">${inner}</${tag}>\n    </testcase>\n`;
}

const seconds = (ms: number): string => (ms / 1000).toFixed(3);

/** Escapes text for XML; characters that XML cannot hold are left out. */
const xml = (text: string): string =>
  text
    .replaceAll(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
