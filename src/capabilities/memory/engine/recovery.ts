/**
 * Takes over the readable rows of a damaged database: rows are read one by one, and those whose checksum fits are stored again.
 * Their indexes and vectors are computed again. The damaged file is in quarantine.
 */
import type { DatabaseSync } from 'node:sqlite';
import { connect } from '../../../base/sqlite/file.ts';
import type { Times } from './counters.ts';
import type { MemoryDatabase } from './database.ts';
import { checkSum, type EntryRow } from './reads.ts';
import { fold, textOf } from './words.ts';
import { indexText } from './writes.ts';

export interface Recovered {
  readonly recovered: number;
  /** The known number of rows that exist and cannot be read. */
  readonly lost: number;
}

type Row = Record<string, null | number | bigint | string | Uint8Array>;

export function recover(damaged: string, into: MemoryDatabase): Recovered {
  let from: DatabaseSync;
  try {
    from = connect(damaged, 1000);
  } catch {
    return { recovered: 0, lost: 0 };
  }
  let recovered = 0;
  let lost = 0;
  try {
    into.commits.transact(() => {
      for (const table of ['memory', 'part', 'successor']) copyTable(from, into, table);
      into.db.exec('UPDATE part SET entries = 0, bytes = 0, holding = 0');
      for (const row of readable(from, () => (lost += 1))) {
        try {
          insert(into, row);
          recovered += 1;
        } catch {
          lost += 1;
        }
      }
      into.counters.write();
      return recovered * 4096;
    });
  } catch {
    // Rows read until then stay.
  } finally {
    from.close();
  }
  return { recovered, lost };
}

/** Copies the rows of a table that has no checksums, up to the first unreadable one. */
function copyTable(from: DatabaseSync, into: MemoryDatabase, table: string): void {
  try {
    for (const row of from.prepare(`SELECT * FROM ${table}`).iterate() as IterableIterator<Row>) {
      const names = Object.keys(row);
      into
        .sql(`INSERT OR IGNORE INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`)
        .run(...Object.values(row));
    }
  } catch {
    // The rest of the table is lost.
  }
}

/** Yields the readable rows of the entries. An unreadable page loses only its rows. */
function* readable(from: DatabaseSync, lost: () => void): Generator<Row> {
  let id = 0;
  let failures = 0;
  // If a page is damaged, the search for the next row continues behind it.
  for (let step = 1; failures < 10_000; ) {
    let row: Row | undefined;
    try {
      row = from.prepare('SELECT * FROM entry WHERE id > ? ORDER BY id LIMIT 1').get(id) as Row | undefined;
    } catch {
      failures += 1;
      lost();
      id += step;
      step = Math.min(step * 2, 64);
      continue;
    }
    if (row === undefined) return;
    step = 1;
    id = row.id as number;
    try {
      checkSum(row as unknown as EntryRow);
    } catch {
      lost();
      continue;
    }
    yield row;
  }
}

function insert(into: MemoryDatabase, row: Row): void {
  const tags = JSON.parse(row.tags as string) as string[];
  const text = fold(textOf(JSON.parse(row.key as string), JSON.parse(row.content as string), tags));
  const part = row.part as number;
  into
    .sql('INSERT OR IGNORE INTO part (part, name, used_at) VALUES (?, ?, ?)')
    .run(part, `lost ${part}`, row.stored_at as number);
  const names = Object.keys(row);
  into
    .sql(`INSERT INTO entry (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`)
    .run(...Object.values({ ...row, text }));
  into.counters.count(part, row as unknown as Times & { bytes: number });
  const id = row.id as number;
  for (const tag of new Set(tags)) into.sql('INSERT INTO tag (part, tag, entry) VALUES (?, ?, ?)').run(part, tag, id);
  indexText(into, id, text);
}
