/**
 * The process that runs one SQL statement: reads a job from standard input, writes the answer to standard output, ends. Started by
 * `sqlite-run.ts`, which ends it when it takes too long.
 *
 * No other file is opened: ATTACH, VACUUM INTO, extensions and most pragmas are refused, and a link in the file's place is.
 */
import { lstatSync } from 'node:fs';
import { constants, DatabaseSync, type SQLInputValue } from 'node:sqlite';

export interface ChildJob {
  /** In the working directory. */
  readonly file: string;
  readonly writes: boolean;
  readonly sql: string;
  readonly parameters: readonly unknown[] | Readonly<Record<string, unknown>>;
  readonly maxRows: number;
  readonly maxBytes: number;
}

export interface Rows {
  readonly columns: readonly string[];
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  readonly truncated: boolean;
  readonly changes: number;
}

export type ChildAnswer = { readonly rows: Rows } | { readonly error: string; readonly reason: string };

const MAX_MEMORY = 256 * 1024 * 1024;
const BUSY_MS = 5_000;
/** They tell of the schema. */
const PRAGMAS = new Set([
  'table_info',
  'table_xinfo',
  'table_list',
  'index_list',
  'index_info',
  'index_xinfo',
  'foreign_key_list',
  'foreign_key_check',
  'integrity_check',
  'quick_check',
  'database_list',
  'user_version',
  'encoding',
  'page_count',
  'page_size',
]);
const NO_FUNCTIONS = new Set(['load_extension', 'fts3_tokenizer']);

function authorize(action: number, first: string | null, second: string | null): number {
  const { SQLITE_ATTACH, SQLITE_DETACH, SQLITE_PRAGMA, SQLITE_FUNCTION, SQLITE_DENY, SQLITE_OK } = constants;
  if (action === SQLITE_ATTACH || action === SQLITE_DETACH) return SQLITE_DENY;
  if (action === SQLITE_PRAGMA && !PRAGMAS.has(String(first).toLowerCase())) return SQLITE_DENY;
  if (action === SQLITE_FUNCTION && NO_FUNCTIONS.has(String(second ?? first).toLowerCase())) return SQLITE_DENY;
  return SQLITE_OK;
}

function run({ file, writes, sql, parameters, maxRows, maxBytes }: ChildJob): Rows {
  // A relative path: no name such as ":memory:" or "file:…" is anything but a file.
  const path = `./${file}`;
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats !== undefined && !stats.isFile()) throw new Error('not a file');
  const database = new DatabaseSync(path, {
    readOnly: !writes,
    timeout: BUSY_MS,
    allowExtension: false,
    defensive: true,
  });
  database.exec(`PRAGMA hard_heap_limit = ${MAX_MEMORY}; PRAGMA trusted_schema = OFF;`);
  database.setAuthorizer(authorize);
  const statement = database.prepare(sql);
  if (!isOnlyComment(sql.slice(statement.sourceSQL.length)))
    throw new Refusal('give one statement', 'several_statements');
  statement.setReadBigInts(true);
  const bound = (Array.isArray(parameters) ? parameters : [parameters]) as SQLInputValue[];
  const columns = statement.columns().map(({ name }) => name);
  if (columns.length === 0) {
    const { changes } = statement.run(...bound);
    return { columns, rows: [], truncated: false, changes: Number(changes) };
  }
  const rows: Record<string, unknown>[] = [];
  let bytes = 0;
  for (const row of statement.iterate(...bound)) {
    const shown = Object.fromEntries(Object.entries(row as object).map(([name, value]) => [name, plain(value)]));
    bytes += JSON.stringify(shown).length;
    if (rows.length === maxRows || bytes > maxBytes) return { columns, rows, truncated: true, changes: 0 };
    rows.push(shown);
  }
  return { columns, rows, truncated: false, changes: 0 };
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') {
    return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : String(value);
  }
  return value instanceof Uint8Array ? { base64: Buffer.from(value).toString('base64') } : value;
}

const isOnlyComment = (rest: string): boolean =>
  rest
    .replaceAll(/--[^\n]*|\/\*[\s\S]*?(\*\/|$)/g, '')
    .replaceAll(';', '')
    .trim() === '';

class Refusal extends Error {
  readonly reason: string;

  constructor(message: string, reason: string) {
    super(message);
    this.reason = reason;
  }
}

let text = '';
process.stdin.setEncoding('utf8');
for await (const chunk of process.stdin) text += chunk;
let answer: ChildAnswer;
try {
  answer = { rows: run(JSON.parse(text) as ChildJob) };
} catch (thrown) {
  const { message } = thrown as Error;
  answer = { error: message, reason: thrown instanceof Refusal ? thrown.reason : 'sql' };
}
process.stdout.write(JSON.stringify(answer));
