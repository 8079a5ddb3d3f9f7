/**
 * Writes the tables of `docs/security/approvals.md`, between their marks: the programs that run code of others, and the
 * tricks with their outcomes, which are also a test.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { RUNS_OTHERS_CODE } from '../src/control/approvals/commands/programs.ts';
import { REMEMBERED_TRICKS, TRICK_RULES, TRICKS, type TrickInput } from '../test/control/approvals/tricks.ts';

const page = 'docs/security/approvals.md';

/** Longest call that is shown whole. */
const SHOWN_CHARACTERS = 70;

function code(text: string): string {
  const visible = text
    .replace(/[\n\r\t]/g, (character) => ({ '\n': '⏎', '\r': '␍', '\t': '⇥' })[character] ?? '')
    .replace(/\u00a0/g, '␣')
    .replaceAll('|', '\\|');
  const shown = visible.length > SHOWN_CHARACTERS ? `${visible.slice(0, SHOWN_CHARACTERS)}…` : visible;
  if (shown === '') return '(empty)';
  return shown.includes('`')
    ? `\`\` ${shown} \`\``
    : `\`${shown.replace(/^ +| +$/g, (blanks) => '␣'.repeat(blanks.length))}\``;
}

const call = (input: TrickInput): string => code(typeof input === 'string' ? input : JSON.stringify(input));

function programs(): string {
  const rows = Object.entries(RUNS_OTHERS_CODE).map(([kind, names]) => {
    return `| ${kind} | ${names
      .split(' ')
      .map((name) => `\`${name}\``)
      .join(' ')} |`;
  });
  return ['| Kind | Programs |', '| --- | --- |', ...rows].join('\n');
}

function tricks(): string {
  const rules = TRICK_RULES.map(({ command = [], options = [], then }) => {
    const listed = options.length === 0 ? '' : `, with the options ${options.map(code).join(' ')}`;
    return `- **${then}** ${command.map(code).join(', ')}${listed}`;
  });
  const sections = Object.entries(TRICKS).map(([group, rows]) =>
    [
      `### ${group}`,
      '',
      '| Call | Outcome | Description |',
      '| --- | --- | --- |',
      ...rows.map(({ call: input, outcome, about }) => `| ${call(input)} | ${outcome} | ${about} |`),
    ].join('\n'),
  );
  const remembered = [
    '### After a yes for the folder, without rules',
    '',
    '| Allowed before | Call | Outcome | Description |',
    '| --- | --- | --- | --- |',
    ...REMEMBERED_TRICKS.map(
      ({ after, call: input, outcome, about }) =>
        `| ${after.map(call).join(', ')} | ${call(input)} | ${outcome} | ${about} |`,
    ),
  ].join('\n');
  return [rules.join('\n'), ...sections, remembered].join('\n\n');
}

/** Returns the whole page with its tables renewed; everything outside the marks stays unchanged. */
export function approvalsPage(root: string): string {
  let text = readFileSync(join(root, page), 'utf8');
  for (const [name, table] of Object.entries({ programs: programs(), tricks: tricks() })) {
    const marks = new RegExp(`(<!-- ${name}: [^\\n]*-->\\n)[^]*?(<!-- /${name} -->)`);
    if (!marks.test(text)) throw new Error(`${page} has lost the marks around its table of ${name}`);
    text = text.replace(marks, (_, start: string, end: string) => `${start}\n${table}\n\n${end}`);
  }
  return text;
}
