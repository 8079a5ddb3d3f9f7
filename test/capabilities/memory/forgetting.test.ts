/** Forgotten entries are gone from the bytes of the files: the database, its log and its indexes. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '../../../src/base/sqlite/file.ts';
import { bytesBelow, memoryHost } from './support.ts';

/** Returns words that occur nowhere else, alone and inside of other text. */
const secret = (n: number) => `zqxwvkj${n}secret`;

test('forgotten entries leave no byte in database, log and indexes; the others stay', {
  timeout: 120_000,
}, async (t) => {
  const opened = await memoryHost(t);
  const memory = await opened.memory();
  const entries = Array.from({ length: 60 }, (_, n) => ({
    key: { owner: secret(n), n },
    content: { text: `before ${secret(n)} after`, more: 'filler '.repeat(n) },
    tags: [`tag${secret(n)}`, n % 2 ? 'odd' : 'even'],
    source: `source${secret(n)}`,
    metadata: { note: secret(n) },
  }));
  await memory.store(entries);
  // Versions and merges of the index move the bytes around.
  for (let round = 0; round < 3; round += 1) {
    await memory.store(entries.map((entry) => ({ ...entry, content: `${entry.content.text} again ${round}` })));
  }
  assert.ok(bytesBelow(opened.folder).includes(secret(1)));
  assert.equal((await memory.search(secret(1))).entries[0]?.key.n, 1);
  const byTag = await memory.forget({ tags: ['odd'] });
  assert.deepEqual(byTag, { deleted: 30, erased: true });
  await memory.forget({ keys: [{ owner: secret(0), n: 0 }] });
  await memory.forget({ sources: [`source${secret(2)}`] });
  await opened.close();
  const bytes = bytesBelow(opened.folder);
  for (let n = 0; n < 60; n += 1) {
    const forgotten = n % 2 === 1 || n === 0 || n === 2;
    // Digits follow: 1 must not be found in 11.
    assert.equal(bytes.includes(secret(n)), !forgotten, `entry ${n}`);
    assert.equal(bytes.includes(Buffer.from(secret(n), 'utf16le')), false);
  }
  const [file] = readdirSync(join(opened.folder, 'memory')).filter((name) => /^[0-9a-f]+\.db$/.test(name));
  const database = connect(join(opened.folder, 'memory', file as string), 1000);
  const terms = database
    .prepare('SELECT term FROM word_rows')
    .all()
    .map(({ term }) => String(term));
  for (const n of [0, 1, 2, 3, 59])
    assert.equal(terms.includes(secret(n)), false, `the index has no word of entry ${n}`);
  assert.ok(terms.includes(secret(4)));
  assert.equal((database.prepare('PRAGMA integrity_check').get() as { integrity_check: string }).integrity_check, 'ok');
  database.prepare(`INSERT INTO words (words) VALUES ('integrity-check')`).run();
  database.close();
});

test('what has expired is gone from the files as well, without a request', { timeout: 60_000 }, async (t) => {
  const opened = await memoryHost(t);
  const memory = await opened.memory();
  await memory.store([
    { key: 'short', content: secret(100), ttl: 1 },
    { key: 'long', content: secret(200) },
  ]);
  for (let tries = 0; bytesBelow(opened.folder).includes(secret(100)); tries += 1) {
    assert.ok(tries < 300, 'the bytes of an expired entry are still there');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.equal((await memory.get('long'))?.content, secret(200));
});

test('a published entry that is forgotten leaves neither the space nor its old place', {
  timeout: 60_000,
}, async (t) => {
  const opened = await memoryHost(t);
  const memory = await opened.memory();
  await memory.store({ key: 'k', content: secret(300), tier: 'semantic' });
  await memory.publish('team', { keys: ['k'] });
  assert.equal((await memory.forget({ keys: ['k'], space: 'team' })).deleted, 1);
  await opened.close();
  assert.equal(bytesBelow(opened.folder).includes(secret(300)), false);
});
