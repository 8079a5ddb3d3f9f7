/**
 * A file that may not grow (`RLIMIT_FSIZE`) counts as a full disk for every writer: writes are refused with
 * `disk_full`, and reads continue.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { ROOMY, recognisableRange } from '../journal/fixtures/recognisable.ts';
import { acknowledged, startWriter } from '../journal/fixtures/writer.ts';

const noLimit = spawnSync('prlimit', ['--fsize=1000000', 'true']).status === 0 ? false : 'prlimit is missing';

test('a journal at the limit of its file refuses with disk_full and can be read', { skip: noLimit }, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'handfast-limit-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'journal.db');
  await using writer = startWriter([file, 's', '1000', '1'], ['prlimit', '--fsize=300000']);
  await writer.line(/^store/);
  await writer.ended;
  const written = acknowledged(writer.lines);
  assert.ok(written > 5, 'it wrote until the limit');
  assert.deepEqual(
    writer.lines.filter((line) => !line.startsWith('ack')),
    ['open 0', 'failed disk_full {}', `readable ${written}`, 'failed disk_full {}', 'store fine'],
  );
  assert.equal(existsSync(`${file}.probe`), false);
  const journal = await sqliteJournal({ file, retention: ROOMY });
  assert.deepEqual([...(await journal.read('s', 0, 1000)).entries], recognisableRange(1, written));
  await journal.append('s', recognisableRange(written + 1, written + 1));
  await journal.close();
});
