/**
 * The least that SQLite can do for a durable chain: `bare.ts FOLDER`. A row with the end of a node and the start of the
 * next, in a synced transaction each; side by side the rows of the nodes that run at once share a transaction. It calls
 * and checks nothing.
 */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { serveLines, timed } from './lines.ts';
import type { Shape } from './measure.ts';

const db = new DatabaseSync(join(process.argv[2] as string, 'bare.db'));
db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL');
db.exec('CREATE TABLE entry(id INTEGER PRIMARY KEY, value TEXT NOT NULL)');
const insert = db.prepare('INSERT INTO entry(value) VALUES (?)');

await serveLines(async ({ shape, nodes, parallel }: { shape: Shape; nodes: number; parallel: number }) => {
  const width = shape === 'row' ? 1 : parallel;
  const seconds = await timed(() => {
    for (let at = 0; at < nodes; at += width) {
      db.exec('BEGIN IMMEDIATE');
      for (let n = at; n < Math.min(nodes, at + width); n += 1) {
        insert.run(
          JSON.stringify([
            { p: 'done', n: n - 1, o: 1 },
            { p: 'start', n },
          ]),
        );
      }
      db.exec('COMMIT');
    }
  });
  return { seconds };
});
