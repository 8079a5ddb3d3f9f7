/**
 * `handfast audit ls`: the handled requests, their principals, and their ends. Reads the files, as their owner.
 */
import { counted } from '../../base/counted.ts';
import { parseSince } from '../../config/parse-deadline.ts';
import { type AuditLine, type AuditPage, followAudit, listAudit } from '../../host/audit/list.ts';
import { configOf } from '../config-file.ts';
import { interruptible } from '../interrupt.ts';
import type { Terminal } from '../output/terminal.ts';
import { fitted } from '../output/text-width.ts';

export interface AuditLsFlags {
  readonly config?: string;
  readonly since?: string;
  readonly principal?: string;
  readonly capability?: string;
  readonly outcome?: string;
  readonly code?: string;
  readonly limit: number;
  readonly before?: number;
  readonly follow?: boolean;
}

/** Prints the newest matching lines of a file, or of the audit that the configuration names, the newest last. */
export async function auditLs(file: string | undefined, flags: AuditLsFlags, terminal: Terminal): Promise<void> {
  const { config, since, limit, before, follow, principal, capability, outcome, code } = flags;
  const filter = { principal, capability, outcome, code, ...(since && { sinceMs: parseSince(since, Date.now()) }) };
  const from = file ?? (await configOf(config)).audit.file;
  // Hosts of one configuration that run at the same time write one audit each.
  const list = (): Promise<AuditPage> => listAudit(from, { ...filter, limit, before, everyHost: file === undefined });
  if (follow) {
    return interruptible(async (signal) => {
      const page = await list();
      for (const line of page.lines) print(line, terminal);
      hints(page, terminal);
      for await (const line of followAudit(page.ends, { filter, signal })) print(line, terminal);
    });
  }
  terminal.page();
  const page = await list();
  const { lines, more, ends } = page;
  if (terminal.json) for (const line of lines) terminal.document(line);
  else if (lines.length > 0) terminal.table(HEADINGS, lines.map(cellsOf), ['MS', 'PRINCIPAL']);
  if (lines.length === 0) terminal.note('no line of the audit matches');
  if (more) {
    terminal.note(ends.length > 1 ? 'older lines: raise --limit' : `older lines: add --before ${lines[0]?.n}`);
  }
  hints(page, terminal);
}

function hints({ unreadable, ends }: AuditPage, terminal: Terminal): void {
  if (unreadable > 0)
    terminal.note(
      `! ${counted(unreadable, 'line is no line', 'lines are not lines')} of an audit; see: handfast audit verify`,
    );
  if (ends.length > 1) {
    const files = ends.map(({ file }) => file).join(', ');
    terminal.note(`lines of ${ends.length} audits; name one to see it alone: ${files}`);
  }
}

/** Prints a followed line. Its columns have no common width: the lines to come are unknown. */
function print(line: AuditLine, terminal: Terminal): void {
  if (terminal.json) terminal.document(line);
  else terminal.line(fitted(cellsOf(line).join('  ').trimEnd(), terminal.width));
}

const HEADINGS = ['TIME', 'PRINCIPAL', 'TYPE', 'OUTCOME', 'MS', 'DETAIL'];

/** Returns the cells of a line: the last one has the audit's data beyond the columns. */
function cellsOf(line: AuditLine): string[] {
  const {
    time,
    principal = '',
    type,
    outcome = '',
    duration_ms,
    error_code,
    reason,
    task,
    tool,
    via,
    by,
    peer,
    count,
  } = line;
  const detail = [
    error_code,
    reason,
    tool && `tool ${tool}`,
    task && `task ${task}`,
    via && `via ${via}`,
    by && `by the ${by}`,
    peer && `from ${peer}`,
    count && counted(count, 'request'),
  ].filter(Boolean);
  return [
    new Date(time).toISOString(),
    principal || '-',
    type,
    outcome || '-',
    duration_ms === undefined ? '' : String(duration_ms),
    detail.join(', '),
  ];
}
