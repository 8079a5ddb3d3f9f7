/**
 * `handfast doctor`: checks everything a host and its commands depend on, and advises on fixes.
 */
import { errorTable, exitCodeOf } from '../../wire/errors.ts';
import type { Terminal } from '../output/terminal.ts';
import { type Check, checks } from './doctor-checks.ts';

export interface DoctorFlags {
  readonly config?: string;
}

/** The longest name of a capability of the protocol. */
const NAME_WIDTH = 'multi_agent'.length;

/** Runs all checks. Resolves with the exit code: 0, or the code of the first check that failed. */
export async function doctor(flags: DoctorFlags, terminal: Terminal): Promise<number> {
  const results: Check[] = [];
  for await (const check of checks(flags.config)) {
    results.push(check);
    if (terminal.json) continue;
    terminal.labelled(`${check.status.padEnd(4)}  ${check.name.padEnd(NAME_WIDTH)}  `, check.message);
    if (check.fix !== undefined) terminal.labelled(`${' '.repeat(NAME_WIDTH + 8)}→ `, check.fix);
  }
  const failed = results.find(({ status }) => status === 'fail');
  if (terminal.json) terminal.document({ ok: failed === undefined, checks: results });
  return failed === undefined ? 0 : exitCodeOf(failed.code ?? 'runtime_error') || errorTable.runtime_error.exit;
}
