/**
 * The process that runs one SQL statement: reads a job from standard input, writes the reply to standard output, ends.
 * `sqlite-run.ts` ends it at its timeout.
 *
 * No other file is opened: ATTACH, VACUUM INTO, extensions and most pragmas are refused, and a link in place of the file or its
 * log. A journal that a change would play back first is refused, because it may name any file of the host, which is then
 * deleted.
 */
import { closeSync, constants as constantsOfFiles, lstatSync, openSync, readSync } from 'node:fs';
import { constants, DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { Worker } from 'node:worker_threads';

export interface ChildJob {
  /** The file name in the working directory. */
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
/** Maximum memory of the whole process. */
const MAX_RSS = 512 * 1024 * 1024;
const WATCH_MS = 20;
/** Ends this process when it uses too much memory: SQLite in Node does not count its own, and blocks the main thread. */
const WATCH = `setInterval(() => {
  if (process.memoryUsage.rss() > ${MAX_RSS}) process.kill(process.pid, 'SIGKILL');
}, ${WATCH_MS})`;
const BUSY_MS = 5_000;
const POLL_MS = 20;
/** Longest message of SQLite that is passed on: it repeats input that it does not understand. */
const MAX_MESSAGE = 256;
/** Allowed pragmas, which describe the schema. */
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
  // A relative path, so that names such as ":memory:" or "file:…" are files, too.
  const path = `./${file}`;
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats !== undefined && !stats.isFile()) throw new Error('not a file');
  for (const suffix of ['-wal', '-shm', '-journal']) {
    if (lstatSync(path + suffix, { throwIfNoEntry: false })?.isFile() === false) throw new Error('not a file');
  }
  if (writes) mustHaveNoJournal(`${path}-journal`);
  const database = new DatabaseSync(path, {
    readOnly: !writes,
    timeout: BUSY_MS,
    allowExtension: false,
    defensive: true,
  });
  // Temporary tables and sorts count as memory, and fill no disk.
  database.exec(`PRAGMA hard_heap_limit = ${MAX_MEMORY}; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;`);
  database.setAuthorizer(authorize);
  const statement = database.prepare(sql);
  if (!isOnlyComment(sql.slice(statement.sourceSQL.length)))
    throw new Refusal('give one statement', 'several_statements');
  statement.setReadBigInts(true);
  const bound = Array.isArray(parameters)
    ? parameters.map((value, at) => bindable(value, at + 1))
    : [Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, bindable(value, name)]))];
  const columns = distinct(statement.columns().map(({ name }) => name));
  if (columns.length === 0) {
    const { changes } = statement.run(...(bound as SQLInputValue[]));
    return { columns, rows: [], truncated: false, changes: Number(changes) };
  }
  // As lists: an object would have only the last of several columns of one name.
  statement.setReturnArrays(true);
  const rows: Record<string, unknown>[] = [];
  let bytes = 0;
  for (const values of statement.iterate(...(bound as SQLInputValue[])) as Iterable<readonly unknown[]>) {
    // Checked before the value is copied as text.
    const size = values.reduce<number>((sum, value) => sum + sizeOf(value), 0);
    if (bytes + size > maxBytes) return { columns, rows, truncated: true, changes: 0 };
    const shown = Object.fromEntries(columns.map((name, at) => [name, plain(values[at])]));
    bytes += JSON.stringify(shown).length;
    if (rows.length === maxRows || bytes > maxBytes) return { columns, rows, truncated: true, changes: 0 };
    rows.push(shown);
  }
  return { columns, rows, truncated: false, changes: 0 };
}

const sizeOf = (value: unknown): number =>
  typeof value === 'string' ? value.length : value instanceof Uint8Array ? value.byteLength : 0;

/** Waits for a program that is changing the database; fails if its change stays unfinished. */
function mustHaveNoJournal(path: string): void {
  for (const until = Date.now() + BUSY_MS; isUnfinished(path); ) {
    if (Date.now() > until) {
      throw new Refusal(
        'a change of the database is unfinished; open it once with the program that made it',
        'unfinished_change',
      );
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, POLL_MS);
  }
}

/** Returns true for a journal whose first byte is not 0: SQLite would play it back. */
function isUnfinished(path: string): boolean {
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return false;
  let fd: number;
  try {
    fd = openSync(path, constantsOfFiles.O_RDONLY | constantsOfFiles.O_NOFOLLOW);
  } catch {
    // The journal was deleted meanwhile.
    return false;
  }
  try {
    const first = Buffer.alloc(1);
    return readSync(fd, first, 0, 1, 0) === 1 && first[0] !== 0;
  } finally {
    closeSync(fd);
  }
}

/** Returns the names of columns, each once: of equal ones the later get a number, `id`, `id_2`. */
function distinct(names: readonly string[]): string[] {
  const taken = new Set(names);
  const seen = new Set<string>();
  return names.map((name) => {
    let own = name;
    for (let at = 2; seen.has(own); at += 1) {
      const numbered = `${name}_${at}`;
      if (!taken.has(numbered) && !seen.has(numbered)) own = numbered;
    }
    seen.add(own);
    return own;
  });
}

/**
 * Converts a JSON value for SQLite: whole numbers are integers, true and false 1 and 0, and a blob has the form that rows give
 * it.
 */
function bindable(value: unknown, name: string | number): SQLInputValue {
  if (typeof value === 'boolean') return BigInt(value);
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (value === null || typeof value === 'string') return value;
  const { base64 } = value as { readonly base64?: unknown };
  if (typeof base64 === 'string') return Buffer.from(base64, 'base64');
  throw new Refusal(
    `the parameter ${name} is a list or an object; pass a text, a number, true, false, null or {"base64": …}`,
    'parameter',
  );
}

function plain(value: unknown): unknown {
  // JSON has no infinities.
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
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
new Worker(WATCH, { eval: true, env: {}, execArgv: [] }).unref();
try {
  answer = { rows: run(JSON.parse(text) as ChildJob) };
} catch (thrown) {
  const { message } = thrown as Error;
  answer = { error: message.slice(0, MAX_MESSAGE), reason: thrown instanceof Refusal ? thrown.reason : 'sql' };
}
process.stdout.write(JSON.stringify(answer));
