/** The toolkit `sqlite` with real files: rows, limits of rows and time, and statements that are refused. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { PathGuard } from '../../../src/base/workspace/protected-paths.ts';
import { agentOf, errorOf, folder, refusalOf, toolkitsHost } from './support.ts';

interface Rows {
  readonly columns: string[];
  readonly rows: Record<string, unknown>[];
  readonly changes: number;
}

function filled(t: TestContext): string {
  const workspace = folder(t);
  using database = new DatabaseSync(join(workspace, 'a.db'));
  database.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, data BLOB)');
  const insert = database.prepare('INSERT INTO t VALUES (?, ?, ?)');
  for (let at = 1; at <= 500; at++) insert.run(at, `row ${at}`, new Uint8Array([at % 256]));
  return workspace;
}

async function agentIn(t: TestContext, workspace: string, write = false) {
  const host = await toolkitsHost(t, { workspace, builtin: [{ name: 'sqlite' }], kits: { sqlite: { write } } });
  const agent = await agentOf(t, host, { enable: ['sqlite'] });
  const call = (name: string, args: object = {}) => agent.tools.call<Rows>(`sqlite_${name}`, { ...args });
  return { agent, call, query: (sql: string, more: object = {}) => call('query', { database: 'a.db', sql, ...more }) };
}

/**
 * Returns a journal without pages that names a super-journal, which SQLite deletes once it has played the journal back.
 * @see https://www.sqlite.org/fileformat2.html#the_rollback_journal
 */
function journalNaming(path: string): Buffer {
  const magic = Buffer.from('d9d505f920a163d7', 'hex');
  const numbers = (...values: number[]) => {
    const buffer = Buffer.alloc(values.length * 4);
    for (const [at, value] of values.entries()) buffer.writeUInt32BE(value, at * 4);
    return buffer;
  };
  const header = Buffer.alloc(4096);
  Buffer.concat([magic, numbers(0, 0, 2, 4096, 4096)]).copy(header);
  const name = Buffer.from(path);
  const sum = name.reduce((total, byte) => total + byte, 0);
  return Buffer.concat([header, numbers(0x40000000 / 4096 + 1), name, numbers(name.length, sum), magic]);
}

test('rows by column, bounded, with parameters; the database by configuration', async (t) => {
  const { agent, call, query } = await agentIn(t, filled(t));
  const { data, truncated, summary } = await query('SELECT * FROM t WHERE id > ? ORDER BY id', { parameters: [497] });
  assert.deepEqual(
    data?.rows,
    [498, 499, 500].map((id) => ({
      id,
      name: `row ${id}`,
      data: { base64: Buffer.from([id % 256]).toString('base64') },
    })),
  );
  assert.deepEqual([truncated, summary], [false, '3 rows']);
  const named = await query('SELECT :a AS a, 9007199254740993 AS big', { parameters: { a: 'x' } });
  assert.deepEqual(named.data?.rows, [{ a: 'x', big: '9007199254740993' }]);
  const many = await query('SELECT id FROM t');
  assert.deepEqual([many.data?.rows.length, many.truncated], [200, true]);
  assert.equal((await query('SELECT id FROM t', { max_rows: 3 })).data?.rows.length, 3);
  assert.equal(await refusalOf(call('query', { sql: 'SELECT 1' })), 'tool_error no_database');
  await agent.toolkits.configure('sqlite', { database: 'a.db', max_rows: 2 });
  assert.equal((await call('query', { sql: 'SELECT id FROM t' })).data?.rows.length, 2);
  const schema = await call('schema');
  assert.deepEqual(schema.data?.rows[0]?.name, 't');
});

test('columns of one name, values that JSON has not, and parameters stay exact', async (t) => {
  const { query, call } = await agentIn(t, filled(t), true);
  const joined = await query(
    'SELECT a.id, b.id, b.id AS id_2, a.name, b.name FROM t a JOIN t b ON b.id = a.id + 1 LIMIT 1',
  );
  assert.deepEqual(joined.data?.columns, ['id', 'id_3', 'id_2', 'name', 'name_2']);
  assert.deepEqual(joined.data?.rows, [{ id: 1, id_3: 2, id_2: 2, name: 'row 1', name_2: 'row 2' }]);
  const odd = await query('SELECT 9e999 AS up, -9e999 AS down, 1.5 AS half, NULL AS none');
  assert.deepEqual(odd.data?.rows, [{ up: 'Infinity', down: '-Infinity', half: 1.5, none: null }]);
  const kinds =
    'SELECT typeof(?1) AS a, typeof(?2) AS b, typeof(?3) AS c, typeof(?4) AS d, hex(?5) AS e, typeof(?6) AS f';
  const typed = await query(kinds, { parameters: [1, 1.5, true, 'x', { base64: 'AP8=' }, null] });
  assert.deepEqual(typed.data?.rows, [{ a: 'integer', b: 'real', c: 'integer', d: 'text', e: '00FF', f: 'null' }]);
  await call('execute', { database: 'a.db', sql: 'CREATE TABLE u (v TEXT)' });
  await call('execute', { database: 'a.db', sql: 'INSERT INTO u VALUES (:v)', parameters: { v: 5 } });
  assert.deepEqual((await query('SELECT v FROM u')).data?.rows, [{ v: '5' }]);
  const { detail } = await errorOf(query('SELECT ?', { parameters: [[1]] }));
  assert.equal(detail.reason, 'parameter');
});

test('a statement that runs for ever is ended, and the host replies meanwhile', async (t) => {
  const { agent, query } = await agentIn(t, filled(t));
  const endless = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n';
  const failing = errorOf(query(endless, { time_limit_seconds: 1 }));
  await agent.ping();
  const { code, detail } = await failing;
  assert.deepEqual([code, detail.reason], ['timeout', 'time_limit']);
  // A cancelled one ends, too.
  const cancelled = query(endless, { time_limit_seconds: 100 });
  await agent.ping();
  cancelled.cancel();
  assert.equal((await errorOf(cancelled)).code, 'cancelled');
  const large = await query("SELECT printf('%.*c', 300000, 'x') AS x FROM t");
  assert.deepEqual([large.data?.rows.length, large.truncated], [3, true]);
});

test('reading changes nothing and opens no other file', async (t) => {
  const workspace = filled(t);
  const outside = folder(t);
  const { query } = await agentIn(t, workspace);
  for (const sql of [
    "INSERT INTO t VALUES (900, 'x', NULL)",
    'DELETE FROM t',
    `ATTACH '${outside}/x.db' AS x`,
    `VACUUM INTO '${outside}/x.db'`,
    "SELECT load_extension('x')",
    'PRAGMA journal_mode = WAL',
    'PRAGMA writable_schema = ON',
    // Its result would contain the path of the host.
    'PRAGMA database_list',
    'SELECT file FROM pragma_database_list',
    "SELECT readfile('/etc/passwd')",
  ]) {
    assert.equal(await refusalOf(query(sql)), 'tool_error sql', sql);
  }
  assert.equal(await refusalOf(query('SELECT 1; DELETE FROM t')), 'tool_error several_statements');
  assert.deepEqual((await query('SELECT 1 AS a; -- one')).data?.rows, [{ a: 1 }]);
  assert.deepEqual((await query('SELECT count(*) AS n FROM t')).data?.rows, [{ n: 500 }]);
  assert.equal(existsSync(join(outside, 'x.db')), false);
});

test('what needs too much memory fails, fills no disk, and is not repeated in errors', async (t) => {
  const { query } = await agentIn(t, filled(t));
  const many = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 100000)';
  // Sorted in memory, which is bounded: in a file it would fill the disk until the timeout.
  const sorted = await errorOf(
    query(`${many} SELECT randomblob(100000) AS b FROM c ORDER BY b`, { time_limit_seconds: 60 }),
  );
  assert.equal(sorted.code, 'out_of_memory');
  assert.equal(
    (await errorOf(query('SELECT hex(zeroblob(90000000)) AS h', { time_limit_seconds: 60 }))).code,
    'out_of_memory',
  );
  const blob = await query('SELECT zeroblob(50000000) AS b', { time_limit_seconds: 60 });
  assert.deepEqual([blob.data?.rows, blob.truncated], [[], true]);
  const { message } = await errorOf(query(`SELECT ${'a'.repeat(60_000)}`));
  assert.ok(message.length <= 256, `${message.length} characters`);
});

test('a journal that names another file is not played back, and logs are no links', async (t) => {
  const [workspace, outside] = [filled(t), folder(t)];
  const { call } = await agentIn(t, workspace, true);
  const write = (database: string) => call('execute', { database, sql: 'CREATE TABLE more (a)' });
  const victim = join(outside, 'victim.txt');
  writeFileSync(victim, 'precious\n');
  writeFileSync(join(workspace, 'a.db-journal'), journalNaming(victim));
  assert.equal(await refusalOf(write('a.db')), 'tool_error unfinished_change');
  assert.equal(existsSync(victim), true);
  // The rest of a change that has ended is no hindrance.
  writeFileSync(join(workspace, 'a.db-journal'), Buffer.alloc(512));
  assert.equal((await write('a.db')).success, true);
  for (const suffix of ['-wal', '-shm', '-journal']) {
    const name = `b${suffix}.db`;
    using database = new DatabaseSync(join(workspace, name));
    database.exec('CREATE TABLE t (a)');
    symlinkSync(victim, join(workspace, `${name}${suffix}`));
    assert.equal(await refusalOf(write(name)), 'tool_error sql', suffix);
  }
  assert.equal(readFileSync(victim, 'utf8'), 'precious\n');
});

test('databases are files of the workspace, off protected paths', async (t) => {
  const [workspace, outside] = [filled(t), folder(t)];
  using other = new DatabaseSync(join(outside, 'o.db'));
  other.exec('CREATE TABLE o (a)');
  symlinkSync(join(outside, 'o.db'), join(workspace, 'link.db'));
  mkdirSync(join(workspace, 'd'));
  writeFileSync(join(workspace, 'no.db'), 'this is not a database, but a text of some length');
  const { call } = await agentIn(t, workspace, true);
  for (const name of ['query', 'execute']) {
    const at = (database: string) => call(name, { database, sql: 'SELECT 1 FROM sqlite_schema' });
    for (const database of ['../o.db', join(outside, 'o.db'), 'link.db']) {
      assert.equal(await refusalOf(at(database)), 'tool_denied outside_workspace', database);
    }
    assert.equal(await refusalOf(at('d')), 'tool_error not_a_regular_file');
    assert.equal(await refusalOf(at('no.db')), 'tool_error sql');
  }
  // Names that SQLite would read as something else are files.
  assert.equal(await refusalOf(call('query', { database: ':memory:', sql: 'SELECT 1' })), 'tool_error not_found');
  assert.equal(
    await refusalOf(call('query', { database: 'file:a.db?mode=rwc', sql: 'SELECT 1' })),
    'tool_error not_found',
  );

  const guard = new PathGuard([{ path: join(workspace, 'a.db'), kind: 'database', deny: 'all' }]);
  const principals = [{ name: 'some', capabilities: ['tools'], grants: { toolkits: { names: ['sqlite'] } } }];
  const host = await toolkitsHost(t, { workspace, builtin: [{ name: 'sqlite' }], principals, pathGuard: guard });
  const agent = await agentOf(t, host, { principal: 'some', enable: ['sqlite'] });
  const reading = agent.tools.call('sqlite_query', { database: 'a.db', sql: 'SELECT 1' });
  assert.equal(await refusalOf(reading), 'tool_denied protected_path');
});

test('writing is there only where the host has it, and for principals that may', async (t) => {
  const workspace = filled(t);
  const reading = await agentIn(t, workspace);
  assert.equal(
    (await errorOf(reading.call('execute', { database: 'a.db', sql: 'DELETE FROM t' }))).code,
    'unknown_tool',
  );
  const { call, query } = await agentIn(t, workspace, true);
  const write = (sql: string, more: object = {}) => call('execute', { database: 'a.db', sql, ...more });
  const inserted = await write('INSERT INTO t VALUES (?, ?, NULL)', { parameters: [901, 'x'] });
  assert.deepEqual([inserted.data?.changes, inserted.summary], [1, '1 row changed']);
  assert.deepEqual((await query('SELECT name FROM t WHERE id = 901')).data?.rows, [{ name: 'x' }]);
  assert.equal((await call('execute', { database: 'new.db', sql: 'CREATE TABLE n (a)' })).success, true);
  for (const sql of ["ATTACH 'other.db' AS o", "VACUUM INTO 'other.db'", 'PRAGMA writable_schema = ON']) {
    assert.equal(await refusalOf(write(sql)), 'tool_error sql', sql);
  }
  assert.equal(existsSync(join(workspace, 'other.db')), false);
  const principals = [{ name: 'some', capabilities: ['tools'], grants: { toolkits: { names: ['sqlite'] } } }];
  const host = await toolkitsHost(t, {
    workspace,
    builtin: [{ name: 'sqlite' }],
    kits: { sqlite: { write: true } },
    principals,
  });
  const some = await agentOf(t, host, { principal: 'some', enable: ['sqlite'] });
  assert.equal((await errorOf(some.tools.call('sqlite_execute', { sql: 'DELETE FROM t' }))).code, 'tool_denied');
});
