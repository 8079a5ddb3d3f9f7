/**
 * Writes of the session store that fail are errors of the table with their cause, wherever a handler meets them. The store is then among
 * the failing stores of the process.
 */
// A process of its own: it expects that no other store of the process fails.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { failingStores, onFailingStore } from '../../../src/base/failing-stores.ts';
import { openSessionStore } from '../../../src/control/sessions/store/store.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

test('each write of chats and sessions that another process holds up says so', (t) => {
  const file = join(temporaryFolder(t), 'sessions.db');
  const store = openSessionStore({ file });
  t.after(() => store.close());
  const other = new DatabaseSync(file);
  t.after(() => other.close());
  other.exec(`INSERT INTO chats VALUES (1, 'chat', '', 't', NULL, '', '', NULL, 0, 0, 1, 0, 0, '');
    INSERT INTO sessions (key, id, owner, title, cwd, backend, created, updated, messages, pending, closed, queued, approvals, seq, cursor)
      VALUES (1, 'one', '', '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0);
    BEGIN IMMEDIATE`);
  const writes: Record<string, () => unknown> = {
    'a list': () => store.catalogue.together(() => {}),
    'a title': () => store.chats.rename('chat', 'new'),
    'a removed chat': () => store.chats.remove('chat'),
    'a deleted session': () => store.catalogue.markDeleted('one'),
    'a removed session': () => store.catalogue.remove('one'),
  };
  const told: string[] = [];
  t.after(onFailingStore((failure) => told.push(failure.store)));
  for (const [name, write] of Object.entries(writes)) {
    assert.throws(write, { code: 'journal_locked', message: /^another process is writing to the session store/ }, name);
  }
  assert.deepEqual(told, ['the session store']);
  other.exec('ROLLBACK');
  for (const write of Object.values(writes)) write();
  assert.deepEqual(failingStores(), []);
});
