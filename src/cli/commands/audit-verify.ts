/**
 * `handfast audit verify`: checks that the audit is whole and unchanged.
 */
import { counted } from '../../base/counted.ts';
import { type AuditReport, verifyAudit } from '../../host/audit/verify.ts';
import { errorTable } from '../../wire/errors.ts';
import { configOf } from '../config-file.ts';
import { snakeKeys } from '../output/snake-case.ts';
import type { Terminal } from '../output/terminal.ts';

export interface AuditVerifyFlags {
  readonly config?: string;
  /** A hash noted earlier that must still be in the chain. */
  readonly head?: string;
}

/**
 * Checks a file, a folder, or the audit that the configuration names. Resolves with the exit code: 0, or 5 when it does not
 * hold.
 */
export async function auditVerify(
  file: string | undefined,
  { config, head }: AuditVerifyFlags,
  terminal: Terminal,
): Promise<number> {
  const report = await verifyAudit(file ?? (await configOf(config)).audit.file, {
    ...(head !== undefined && { expectedHead: head }),
    everyHost: file === undefined,
  });
  if (terminal.json) terminal.document(documentOf(report));
  else print(report, terminal);
  return report.ok ? 0 : errorTable.runtime_error.exit;
}

const documentOf = (report: AuditReport): object => snakeKeys({ ...report, chains: report.chains.map(snakeKeys) });

function print({ ok, lines, files, chains, firstBreak }: AuditReport, terminal: Terminal): void {
  for (const { file, first, head, tornTail } of chains) {
    terminal.line(`${file}: lines ${first} to ${head.n}${tornTail ? ', the next one is not complete' : ''}`);
    terminal.line(`  head ${head.hash}`);
  }
  if (ok) terminal.line(`whole: ${counted(lines, 'line')} in ${counted(files, 'file')}`);
  else terminal.line(`broken at ${firstBreak?.file}:${firstBreak?.line}: ${firstBreak?.reason}`);
}
