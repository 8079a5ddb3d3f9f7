/**
 * The databases of the project, each as its owner opens it: its permissions, its promises about the disk, and the
 * errors of one that is locked, damaged, newer, or another program's.
 */
// A process of its own: its stores fail, and the failures stay in the process.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it, mock } from 'node:test';
import { openSessionStore } from '../../src/control/sessions/store/store.ts';
import { openA2aTaskStore } from '../../src/fleet/bus/a2a/task-store.ts';
import { sqliteTaskStore } from '../../src/fleet/orchestrator/store-sqlite.ts';
import { SqliteWorkerJournal } from '../../src/fleet/worker/journal-sqlite.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';

interface Damage {
  readonly reason: string;
  readonly movedTo: string;
}

interface Opening {
  readonly onCorrupt?: (damage: Damage) => void;
  readonly now: () => number;
}

interface Kind {
  /** Returns the beginning of messages about the file. */
  readonly called: (file: string) => string;
  readonly name: string;
  readonly mark: string;
  readonly synchronous: 'FULL' | 'NORMAL';
  /** Pages of log after which SQLite makes a checkpoint by itself; 0: never. */
  readonly checkpointAfter: number;
  /** Returns the error of a second process; undefined: another mechanism keeps it out. */
  readonly locked: ((file: string) => string) | undefined;
  /** A column its statements name; undefined: it prepares them when they are needed. */
  readonly column: string | undefined;
  /** True when it sets a damaged file aside without being asked. */
  readonly always?: boolean;
  /** Opens it; the returned function closes it. */
  open(file: string, opening: Opening): Promise<() => void | Promise<void>>;
}

const FULL = 2;
const NORMAL = 1;
const NOW = Date.UTC(2031, 1, 3, 4, 5, 6);
const NOT_A_DATABASE = 'this is no database, whatever its name says'.repeat(200);

const kinds: Record<string, Kind> = {
  'the event journal': {
    called: (file) => `the journal file ${file}`,
    name: 'journal.db',
    mark: 'HFJL',
    synchronous: 'FULL',
    checkpointAfter: 0,
    column: 'sessions.evicted',
    locked: (file) => `process ${process.pid} has the journal ${file} open; stop it, or name another data folder`,
    async open(file, opening) {
      const journal = await sqliteJournal({ file, ...opening });
      return () => journal.close();
    },
  },
  'the task store': {
    called: () => 'the task store',
    name: 'tasks.db',
    mark: 'HFTK',
    synchronous: 'FULL',
    checkpointAfter: 0,
    column: 'tasks.revision',
    locked: () => 'another process has the task store open; stop that process',
    async open(file, opening) {
      const store = await sqliteTaskStore({ file, ...opening });
      return () => store.close();
    },
  },
  'the journal of a worker': {
    called: () => 'the journal of the worker',
    name: 'worker.db',
    mark: 'HFWJ',
    synchronous: 'FULL',
    checkpointAfter: 0,
    column: undefined,
    locked: () => 'another worker has this home folder open; give each worker its own',
    always: true,
    async open(file, { onCorrupt, now }) {
      const journal = new SqliteWorkerJournal(dirname(file), now);
      if (journal.damage !== undefined) onCorrupt?.(journal.damage);
      return () => journal.close();
    },
  },
  'the tasks of an A2A agent': {
    called: () => 'the A2A task store',
    name: 'a2a.db',
    mark: 'HFA2',
    synchronous: 'NORMAL',
    checkpointAfter: 1000,
    column: undefined,
    locked: () => 'another process has the A2A tasks open; stop that process',
    async open(file, opening) {
      const sdk = {} as Parameters<typeof openA2aTaskStore>[0]['sdk'];
      const store = openA2aTaskStore({ file, sdk, passing: () => false, ...opening });
      return () => store.close();
    },
  },
  'the session store': {
    called: () => 'the session store',
    name: 'sessions.db',
    mark: 'HFSE',
    synchronous: 'NORMAL',
    // As many bytes, of smaller pages.
    checkpointAfter: 4000,
    column: 'chats.title',
    locked: undefined,
    async open(file, opening) {
      const store = openSessionStore({ file, ...opening });
      return () => store.close();
    },
  },
};

let directory = '';
let places = 0;
before(() => {
  directory = mkdtempSync(join(tmpdir(), 'handfast-databases-'));
});
after(() => rmSync(directory, { recursive: true }));

/** Returns a path in a folder that does not exist yet. */
function freshFile(name: string): string {
  places += 1;
  return join(directory, `place-${places}`, 'deep', name);
}

const mode = (path: string): number => statSync(path).mode & 0o777;
const plain: Opening = { now: () => NOW };

/** Returns the first value of the first row. */
function value(db: DatabaseSync, sql: string): unknown {
  return Object.values(db.prepare(sql).get() ?? {})[0];
}

/** Returns true when another process cannot take the lock. */
function lockedForOthers(lock: string): boolean {
  const script = `
    const { DatabaseSync } = require('node:sqlite');
    try { new DatabaseSync(process.argv[1], { timeout: 0 }).exec('BEGIN EXCLUSIVE'); } catch { process.exit(5); }`;
  const { status } = spawnSync(process.execPath, ['-e', script, lock], { timeout: 120_000 });
  assert.ok(status === 0 || status === 5, `the other process ended with ${status}`);
  return status === 5;
}

/** Returns the error of an opening that must not succeed, and must leave the file unchanged. */
async function refusal(kind: Kind, file: string, opening = plain): Promise<{ code: unknown; message: string }> {
  const bytes = readFileSync(file);
  const thrown = await kind.open(file, opening).then(
    () => assert.fail('it was opened'),
    (error: unknown) => error as { code: unknown; message: string },
  );
  assert.deepEqual(readFileSync(file), bytes);
  return { code: thrown.code, message: thrown.message };
}

/** Makes the file of a kind, and lets `change` do something to it. */
async function changed(kind: Kind, change: (db: DatabaseSync) => void): Promise<string> {
  const file = freshFile(kind.name);
  await (await kind.open(file, plain))();
  const db = new DatabaseSync(file);
  change(db);
  db.close();
  return file;
}

for (const [title, kind] of Object.entries(kinds)) {
  describe(title, { timeout: 300_000 }, () => {
    it('is its owner’s alone, and marked as what it is', async () => {
      const file = freshFile(kind.name);
      const close = await kind.open(file, plain);
      assert.equal(mode(file), 0o600);
      assert.equal(mode(dirname(file)), 0o700);
      assert.equal(mode(dirname(dirname(file))), 0o700);
      if (kind.locked !== undefined) assert.equal(mode(`${file}.lock`), 0o600);
      const db = new DatabaseSync(file, { readOnly: true });
      assert.equal(value(db, 'PRAGMA application_id'), Buffer.from(kind.mark).readUInt32BE());
      assert.ok((value(db, 'PRAGMA user_version') as number) >= 1);
      db.close();
      await close();
      chmodSync(file, 0o644);
      const again = await kind.open(file, plain);
      assert.equal(mode(file), 0o600);
      await again();
    });

    it('is synced and checkpointed as it promises', async () => {
      // The state at opening: group commit then orders SQLite not to sync, and syncs itself.
      const opened = new Map<DatabaseSync, unknown>();
      const { exec } = DatabaseSync.prototype;
      const spy = mock.method(DatabaseSync.prototype, 'exec', function (this: DatabaseSync, sql: string) {
        exec.call(this, sql);
        if (!opened.has(this)) opened.set(this, value(this, 'PRAGMA synchronous'));
      });
      const file = freshFile(kind.name);
      let close: () => void | Promise<void>;
      try {
        close = await kind.open(file, plain);
      } finally {
        spy.mock.restore();
      }
      const [db, synchronous] = [...opened].find(([one]) => one.isOpen && one.location()?.endsWith(kind.name)) ?? [];
      assert.ok(db);
      assert.equal(value(db, 'PRAGMA journal_mode'), 'wal');
      assert.equal(synchronous, kind.synchronous === 'FULL' ? FULL : NORMAL);
      assert.equal(value(db, 'PRAGMA wal_autocheckpoint'), kind.checkpointAfter);
      assert.equal(value(db, 'PRAGMA temp_store'), 2);
      assert.equal(value(db, 'PRAGMA busy_timeout'), 1000);
      await close();
    });

    if (kind.locked !== undefined) {
      it('is one process’s at a time, also after that very process was refused a second time', async () => {
        const file = freshFile(kind.name);
        const close = await kind.open(file, plain);
        assert.deepEqual(await refusal(kind, file), { code: 'journal_locked', message: kind.locked?.(file) });
        assert.equal(lockedForOthers(`${file}.lock`), true);
        await close();
        assert.equal(lockedForOthers(`${file}.lock`), false);
        await (await kind.open(file, plain))();
      });
    }

    it('leaves the database of another program, or of a newer version, as it is', async () => {
      const onCorrupt = (): void => assert.fail('it is not damaged');
      const newer = await changed(kind, (db) => db.exec('PRAGMA user_version=99'));
      const { code, message } = await refusal(kind, newer, { ...plain, onCorrupt });
      assert.equal(code, 'runtime_error');
      assert.ok(message.startsWith(kind.called(newer)), message);
      assert.match(
        message,
        / was written by a newer version \(schema 99, known up to \d\); update Handfast, or use another data folder$/,
      );
      const foreign = await changed(kind, (db) => db.exec('PRAGMA application_id=7'));
      for (const change of ['PRAGMA user_version=0', 'PRAGMA application_id=0', 'PRAGMA user_version=1']) {
        assert.match(
          (await refusal(kind, foreign, { ...plain, onCorrupt })).message,
          new RegExp(
            `^${kind.called(foreign)} is the database of another program; move it away, or use another data folder$`,
          ),
        );
        const db = new DatabaseSync(foreign);
        db.exec(change);
        db.close();
      }
      // If no lock is released, the next process to open it would find it locked.
      assert.equal((await refusal(kind, foreign)).code, 'runtime_error');
    });

    if (kind.always !== true) {
      it('leaves a damaged file where it is unless it is to be set aside', async () => {
        const file = freshFile(kind.name);
        await (await kind.open(file, plain))();
        writeFileSync(file, NOT_A_DATABASE);
        const { code, message } = await refusal(kind, file);
        assert.equal(code, 'journal_corrupt');
        assert.equal(message, `${kind.called(file)} is damaged: file is not a database`);
      });
    }

    if (kind.column !== undefined) {
      it('counts a table that is not as its version says as damage', async () => {
        const [table, column] = kind.column?.split('.') ?? [];
        const file = await changed(kind, (db) => db.exec(`ALTER TABLE ${table} RENAME COLUMN ${column} TO other`));
        const { code, message } = await refusal(kind, file);
        assert.equal(code, 'journal_corrupt');
        assert.match(message, new RegExp(`^${kind.called(file)} is damaged: .*no.* column`));
        const reports: Damage[] = [];
        await (await kind.open(file, { ...plain, onCorrupt: (damage) => reports.push(damage) }))();
        assert.equal(reports.length, 1);
      });
    }

    it('takes no emptied file for a new one while its log is beside it', async () => {
      const file = freshFile(kind.name);
      await (await kind.open(file, plain))();
      truncateSync(file);
      writeFileSync(`${file}-wal`, Buffer.alloc(4096, 1));
      const reports: Damage[] = [];
      const close = await kind.open(file, { ...plain, onCorrupt: (damage) => reports.push(damage) });
      assert.equal(reports.length, 1);
      assert.equal(statSync(`${reports[0]?.movedTo}-wal`).size, 4096);
      await close();
    });

    it('sets a damaged file aside, reports where it is, and starts again', async () => {
      const file = freshFile(kind.name);
      await (await kind.open(file, plain))();
      copyFileSync(file, `${file}.whole`);
      for (const suffix of ['', '-2']) {
        const reports: Damage[] = [];
        if (suffix === '') writeFileSync(file, NOT_A_DATABASE);
        else truncateSync(file, Math.floor(statSync(`${file}.whole`).size / 2));
        const bytes = readFileSync(file);
        const close = await kind.open(file, { ...plain, onCorrupt: (damage) => reports.push(damage) });
        const movedTo = `${file}.corrupt-20310203T040506Z${suffix}`;
        assert.deepEqual(
          reports.map((report) => report.movedTo),
          [movedTo],
        );
        assert.match(reports[0]?.reason ?? '', /not a database|malformed|damaged|short read|Page|page/);
        assert.deepEqual(readFileSync(movedTo), bytes);
        assert.equal(mode(file), 0o600);
        await close();
      }
    });
  });
}

describe('the session store in memory', () => {
  it('makes no file', () => {
    const store = openSessionStore({ file: ':memory:' });
    assert.equal(store.messageIds.next(), 1);
    store.close();
    assert.ok(!existsSync(':memory:'));
  });
});
