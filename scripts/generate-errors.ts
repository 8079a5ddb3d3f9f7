/**
 * Writes `docs/errors.md` from the error table: one section per name, with its form on every edge.
 *
 * `test/errors.test.ts` compares the page with the table.
 */
import { type ErrorName, type ErrorRow, errorTable } from '../src/wire/errors.ts';

/** Meaning of the exit codes of the command line, in the order of their numbers. */
export const exitCodes: Readonly<Record<number, string>> = {
  0: 'The command did what it was asked to do.',
  1: 'The command did its work, and what it ran, checked or compared failed or differs; its help says so.',
  2: 'The command line or the configuration is wrong, or Node is too old; nothing was tried.',
  3: 'The peer does not accept who is asking.',
  4: 'The peer cannot be reached, or the link to it was lost.',
  5: 'The peer answered with an error.',
  6: 'The two sides could not agree in the handshake.',
  7: 'Something took longer than it may.',
  130: 'The command was interrupted, or its request was cancelled.',
};

const intro = `# Errors

<!-- Generated from src/wire/errors.ts by "npm run generate". -->

Every failure has one name, the same in the library (\`error.code\`), on every wire and in the log. Test \`error.code\`, not
the message and not the class; a peer may send a code that is not listed here, so keep a default branch.

- **A2E** carries the code below in \`error.code\`. Where several names share a code, \`detail.reason\` holds the name.
- **JSON-RPC** carries the number below in \`error.code\` and the name in \`data.kind\`; \`data.reason\` has the
  word of the protocol.
- **HTTP** is the status when the failure is the answer to an HTTP request.
- **Exit** is the exit code of the command line.
- **Retry** says whether the same request, unchanged, may succeed later. An error with \`detail.may_have_run\` says no
  in spite of its row: its request had begun and may have done its work, and repeating it is not known to be safe.
`;

const rows = Object.entries(errorTable) as [ErrorName, ErrorRow][];

function overview(): string {
  const lines = rows.map(
    ([name, row]) =>
      `| [\`${name}\`](#${name}) | \`${row.a2e}\` | ${row.jsonrpc} | ${row.http} | ${row.exit} | ${row.retryable ? 'yes' : 'no'} |`,
  );
  return [
    '| Name | A2E code | JSON-RPC | HTTP | Exit | Retry |',
    '| --- | --- | ---: | ---: | ---: | --- |',
    ...lines,
  ].join('\n');
}

function exits(): string {
  const lines = Object.entries(exitCodes).map(([code, meaning]) => `| ${code} | ${meaning} |`);
  return ['| Exit | Meaning |', '| ---: | --- |', ...lines].join('\n');
}

/** Returns the whole page. Pure: the same table gives the same text. */
export function errorsPage(): string {
  const sections = rows.map(([name, row]) => `### ${name}\n\n${row.help}`);
  return [intro.trimEnd(), '## All names', overview(), '## Meanings', ...sections, '## Exit codes', exits(), '']
    .join('\n\n')
    .replace(/\n+$/, '\n');
}
