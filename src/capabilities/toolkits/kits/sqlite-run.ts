/**
 * The work of the SQLite tools: one process for each call, which opens the database, runs one statement and ends. SQLite cannot
 * be interrupted from its own process; a process can be ended.
 *
 * Loaded on the first call. The process is `sqlite-child.ts`.
 */
import { fileURLToPath } from 'node:url';
import { compiledCode } from '../../../base/compiled-code.ts';
import { counted } from '../../../base/counted.ts';
import { nodeProgram } from '../../../base/node-program.ts';
import { startProgram } from '../../../base/program.ts';
import { fileFailure } from '../../../base/workspace/file-error.ts';
import { locate } from '../../../base/workspace/workspace-path.ts';
import type { CallContext } from '../../../host/context.ts';
import { fail } from '../../../wire/errors.ts';
import { result, type ShapedResult } from '../../tools/tool.ts';
import type { ChildAnswer, ChildJob, Rows } from './sqlite-child.ts';

export interface QueryArgs {
  readonly database?: string | undefined;
  readonly sql?: string;
  readonly parameters?: readonly unknown[] | Readonly<Record<string, unknown>>;
  readonly max_rows: number;
  readonly time_limit_seconds: number;
}

const SCHEMA =
  "SELECT type, name, tbl_name AS 'table', sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name";
/** Heap of JavaScript in the process, MiB. The process watches its total memory itself. */
const HEAP_MIB = 128;
const MAX_ANSWER = 1024 * 1024;
/** Exit codes of a process that used too much memory: its JavaScript (SIGABRT, SIGTRAP), or all of it (SIGKILL). */
const NO_MEMORY: readonly number[] = [134, 133, 137];

/**
 * Runs one statement. Fails with `tool_error` (`not_found`, `sql`, `several_statements`, `no_database`, …), `tool_denied` as paths do,
 * `timeout`, and `out_of_memory`.
 */
export async function runQuery(
  kind: 'query' | 'schema' | 'execute',
  { database, sql = SCHEMA, parameters = [], max_rows, time_limit_seconds }: QueryArgs,
  context: CallContext,
): Promise<ShapedResult<Rows>> {
  if (database === undefined) {
    throw fail('tool_error', 'name a database, or configure the toolkit sqlite with one', { reason: 'no_database' });
  }
  const writes = kind === 'execute';
  await using place = await locate(context.workspace, database, {
    guard: context.pathGuard,
    access: writes ? 'change' : 'read',
  });
  if (place.kind === 'missing' && !writes) throw fileFailure('not_found', database, 'does not exist');
  if (place.kind !== 'missing' && place.kind !== 'file')
    throw fileFailure('not_a_regular_file', database, 'is no file');
  const release = await context.acquireProcess(context.signal, time_limit_seconds * 1000);
  try {
    const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
    const child = fileURLToPath(new URL(`./sqlite-child${extension}`, import.meta.url));
    const program = await startProgram({
      argv: [...nodeProgram(`--max-old-space-size=${HEAP_MIB}`, '--no-warnings'), child],
      // The process enters the checked folder, and opens the file by its name there.
      cwd: place.parent.at('.'),
      env: compiledCode(),
      signal: context.signal,
      timeoutMs: time_limit_seconds * 1000,
      terminateMs: 0,
      maxStdoutBytes: 4 * MAX_ANSWER,
      stdin: 'open',
    });
    const job: ChildJob = { file: place.name, writes, sql, parameters, maxRows: max_rows, maxBytes: MAX_ANSWER };
    program.write(JSON.stringify(job));
    program.write(null);
    const { stdout, timedOut, code } = await program.ended;
    context.signal.throwIfAborted();
    if (timedOut) {
      throw fail('timeout', `the statement was ended after ${time_limit_seconds} s`, { reason: 'time_limit' });
    }
    if (NO_MEMORY.includes(code)) throw fail('out_of_memory', 'the statement needs more memory than it may have');
    const answer = readAnswer(stdout, code);
    if ('error' in answer) throw fail('tool_error', answer.error, { reason: answer.reason });
    const { rows } = answer;
    const more = rows.truncated ? ' (there are more)' : '';
    const summary = writes ? `${counted(rows.changes, 'row')} changed` : `${counted(rows.rows.length, 'row')}${more}`;
    return result(rows, { summary, truncated: rows.truncated });
  } finally {
    release();
  }
}

function readAnswer(text: string, code: number): ChildAnswer {
  try {
    return JSON.parse(text) as ChildAnswer;
  } catch {
    return { error: `the query ended without an answer (exit code ${code})`, reason: 'no_answer' };
  }
}
