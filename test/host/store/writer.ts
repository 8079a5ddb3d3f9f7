/**
 * Writes to the state of a plugin until it is killed, and prints each write that was acknowledged: the child of
 * `store.test.ts`. Its argument is the file.
 */
import { openStateDatabase } from '../../../src/host/store/database.ts';

const state = openStateDatabase({ file: process.argv[2] as string });
const store = state.plugin('crash', {}).shared;
const rows = store.rows<{ n: number }>('log');
const start = store.get<number>('count') ?? 0;
process.stdout.write(`open ${start}\n`);
for (let n = start + 1; ; n += 1) {
  const written = Promise.all([store.update<number>('count', (count = 0) => count + 1), rows.insert({ n })]);
  // Every third is alone; the others share a transaction with the next one.
  if (n % 3 === 0) await written;
  void written.then(([count, id]) => process.stdout.write(`stored ${count} ${id}\n`));
  await new Promise((resolve) => setImmediate(resolve));
}
