/**
 * F-102: a journal whose newest writes are lost: one bit of SQLite's log flipped, the log deleted, an older copy put in
 * place. SQLite itself reports none of these. The remaining entries are readable, the loss is reported, and no cursor
 * is used again.
 */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { ROOMY, recognisable } from '../journal/fixtures/recognisable.ts';
import { acknowledged, startWriter } from '../journal/fixtures/writer.ts';

const TIMEOUT = { timeout: 300_000 };

let directory = '';
let files = 0;
before(() => {
  directory = mkdtempSync(join(tmpdir(), 'handfast-damage-'));
});
after(() => rmSync(directory, { recursive: true }));

function freshFile(): string {
  files += 1;
  return join(directory, `journal-${files}.db`);
}

/** Inverts one bit at a share of the log's length. */
function flip(file: string, share: number): void {
  const log = readFileSync(`${file}-wal`);
  const at = Math.floor(log.length * share);
  log[at] = (log[at] as number) ^ 0x10;
  writeFileSync(`${file}-wal`, log);
}

interface Killed {
  readonly file: string;
  /** The highest cursor that any peer can know, by session. */
  readonly used: Readonly<Record<string, number>>;
  /** The highest one that was acknowledged as durable. */
  readonly acknowledged: number;
}

/** Returns a journal whose writer was killed after `count` entries of each kind of durability. */
async function killedWriter(kind: 'durable' | 'mixed', count = 60): Promise<Killed> {
  const file = freshFile();
  await using writer = startWriter([
    file,
    's',
    kind === 'mixed' ? `${count}` : '100000',
    kind === 'mixed' ? kind : '1',
  ]);
  await writer.line(kind === 'mixed' ? /^done/ : new RegExp(`^ack ${count}$`));
  if (kind === 'mixed') {
    // So that the volatile ones are in the log too; those that are not only make the loss larger.
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  await writer.kill();
  const highest = acknowledged(writer.lines);
  const used: Record<string, number> = kind === 'mixed' ? { s: count, 's-volatile': count } : { s: highest };
  return { file, used, acknowledged: highest };
}

/** Opens a damaged journal as a host does, and checks that the loss is reported, once, and all that is promised of it. */
async function opensDamaged({ file, used, acknowledged: promised }: Killed): Promise<HandfastError> {
  await assert.rejects(sqliteJournal({ file, retention: ROOMY }), { code: 'journal_damaged' });
  const told: HandfastError[] = [];
  const open = () =>
    sqliteJournal({ file, retention: ROOMY, namesReturn: true, onDamaged: (error) => told.push(error) });
  const journal = await open();
  assert.equal(told.length, 1);
  assert.equal(journal.damaged, told[0]);
  assert.equal(journal.failed, undefined);
  const { detail } = told[0] as HandfastError;
  const good = detail.last_good as Record<string, number>;
  for (const [session, highest] of Object.entries(used)) {
    const page = await journal.read(session, 0, 1000);
    const there = page.entries.map(({ cursor }) => cursor);
    const expected = good[session] ?? 0;
    assert.deepEqual(
      there,
      Array.from({ length: expected }, (_, at) => at + 1),
      'all that is good is there',
    );
    assert.deepEqual([...page.entries], there.map(recognisable));
    assert.ok(page.last >= highest, `${session} continues behind ${page.last}, and ${highest} was used`);
    assert.equal(page.last, detail.continues_after);
    const { gap, entries } = await journal.read(session, expected);
    assert.deepEqual([gap, entries.length], [{ kind: 'gap', from: expected + 1, to: page.last }, 0]);
    // The writer of a lost name continues after the cursors it reads: the name may also be a new one.
    for (const cursor of session in good ? [highest, page.last] : []) {
      await assert.rejects(journal.append(session, [recognisable(cursor)]), 'a cursor that may have been used');
    }
    await journal.append(session, [recognisable(page.last + 1)]);
    assert.deepEqual([...(await journal.read(session, page.last)).entries], [recognisable(page.last + 1)]);
    assert.deepEqual((await journal.read(session, expected)).gap, { kind: 'gap', from: expected + 1, to: page.last });
  }
  if (promised > (good.s ?? 0)) assert.equal(detail.acknowledged, true);
  await journal.close();
  const again = await open();
  assert.equal(told.length, 1, 'it is reported once');
  assert.equal(again.damaged, undefined);
  await again.close();
  return told[0] as HandfastError;
}

describe('F-102: a journal that lost its newest writes', TIMEOUT, () => {
  for (const kind of ['durable', 'mixed'] as const) {
    for (const share of kind === 'durable' ? [0.15, 0.5, 0.85] : [0.5]) {
      it(`tells a flipped bit at ${share * 100} % of the log, ${kind} entries`, async () => {
        const killed = await killedWriter(kind);
        flip(killed.file, share);
        await opensDamaged(killed);
      });
    }

    it(`tells a deleted log, ${kind} entries`, async () => {
      const killed = await killedWriter(kind);
      rmSync(`${killed.file}-wal`);
      // The tables themselves were in it, unless an earlier process had closed the file.
      const { detail } = await opensDamaged(killed);
      assert.equal(detail.sessions, 0);
    });

    it(`tells an older copy without its log, ${kind} entries`, async () => {
      const file = freshFile();
      const first = await sqliteJournal({ file, retention: ROOMY });
      await first.append('other', [recognisable(1)]);
      await first.close();
      copyFileSync(file, `${file}.copy`);
      await using writer = startWriter([file, 's', '60', kind === 'mixed' ? kind : '1']);
      await writer.line(/^done/);
      await writer.ended;
      assert.ok(!existsSync(`${file}-wal`), 'it was closed in good order');
      copyFileSync(`${file}.copy`, file);
      const used: Record<string, number> = kind === 'mixed' ? { s: 60, 's-volatile': 60 } : { s: 60 };
      const { detail } = await opensDamaged({ file, used, acknowledged: acknowledged(writer.lines) });
      assert.deepEqual(Object.keys(detail.last_good as object), ['other']);
    });
  }

  it('tells nothing after a kill alone, nor after a session was deleted', async () => {
    const { file } = await killedWriter('mixed');
    const onDamaged = () => assert.fail('nothing is lost');
    const journal = await sqliteJournal({ file, retention: ROOMY, onDamaged });
    await journal.append('newest', [recognisable(1)]);
    await journal.delete('newest');
    await journal.close();
    const again = await sqliteJournal({ file, retention: ROOMY, onDamaged });
    assert.equal((await again.read('newest', 0)).last, 0);
    await again.close();
  });

  it('tells a deletion that was lost', async () => {
    const file = freshFile();
    const journal = await sqliteJournal({ file });
    await journal.append('s', [recognisable(1)]);
    const log = readFileSync(`${file}-wal`);
    await journal.delete('s');
    copyFileSync(file, `${file}.now`);
    copyFileSync(`${file}.mark`, `${file}.now.mark`);
    writeFileSync(`${file}.now-wal`, log);
    await journal.close();
    const told: HandfastError[] = [];
    const copy = await sqliteJournal({ file: `${file}.now`, onDamaged: (error) => told.push(error) });
    assert.deepEqual(
      told.map(({ code, detail }) => [code, detail.acknowledged]),
      [['journal_damaged', true]],
    );
    await copy.close();
  });

  it('takes no new session for a lost one where names never return', async () => {
    const { file } = await killedWriter('durable');
    rmSync(`${file}-wal`);
    const journal = await sqliteJournal({ file, onDamaged: () => {} });
    assert.deepEqual(await journal.read('new', 0), { entries: [], last: 0 });
    await journal.append('new', [recognisable(1)]);
    assert.deepEqual([...(await journal.read('new', 0)).entries], [recognisable(1)]);
    await journal.close();
  });

  it('continues behind the cursors of a file that was set aside', async () => {
    const file = freshFile();
    const journal = await sqliteJournal({ file });
    await journal.append('s', [recognisable(1), recognisable(2)]);
    await journal.close();
    writeFileSync(file, 'this is no database'.repeat(500));
    const reports: string[] = [];
    const again = await sqliteJournal({
      file,
      namesReturn: true,
      onCorrupt: () => reports.push('corrupt'),
      onDamaged: () => reports.push('damaged'),
    });
    assert.deepEqual(reports, ['corrupt']);
    const { last } = await again.read('s', 0);
    assert.ok(last >= 2);
    await again.append('s', [recognisable(last + 1)]);
    await again.close();
  });
});

describe('F-102: the check at opening', TIMEOUT, () => {
  /** Statements run while a journal is opened and closed. */
  async function opening(file: string): Promise<readonly string[]> {
    const { DatabaseSync } = await import('node:sqlite');
    const prepared: string[] = [];
    const { prepare } = DatabaseSync.prototype;
    DatabaseSync.prototype.prepare = function (sql: string) {
      prepared.push(sql);
      return prepare.call(this, sql);
    };
    try {
      await (await sqliteJournal({ file })).close();
    } finally {
      DatabaseSync.prototype.prepare = prepare;
    }
    return prepared;
  }
  const checks = async (file: string) => (await opening(file)).some((sql) => sql.includes('quick_check'));

  it('reads the whole file only when it was not closed in good order, or was changed since', async () => {
    const file = freshFile();
    const journal = await sqliteJournal({ file });
    await journal.append('s', [recognisable(1)]);
    await journal.close();
    assert.equal(await checks(file), false);
    assert.equal(await checks(file), false);
    writeFileSync(file, readFileSync(file));
    assert.equal(await checks(file), true, 'changed since');
    assert.equal(await checks(file), false);
    const killed = await killedWriter('durable', 5);
    assert.equal(await checks(killed.file), true, 'not closed');
    rmSync(`${file}.mark`);
    assert.equal(await checks(file), true, 'nothing is known of it');
  });
});
