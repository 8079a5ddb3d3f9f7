/** The audit that is loaded late: nothing that was recorded before is lost, and a host that was never asked leaves no trace. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLog } from '../../src/base/log.ts';
import type { AuditRecord } from '../../src/host/audit/audit.ts';
import { DeferredAudit } from '../../src/server/deferred-audit.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const record = (session: string): AuditRecord => ({
  time: 1,
  session,
  principal: 'local',
  type: 'ping',
  request_bytes: 1,
  reply_bytes: 1,
  duration_ms: 0,
  outcome: 'ok',
});

test('records from before the writer was there come first', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  const audit = new DeferredAudit({ file, maxBytes: 65_536, maxFiles: 2 }, silentLog);
  audit.record(record('one'));
  audit.record(record('two'));
  assert.equal(audit.health === undefined, true);
  await audit.open();
  audit.record(record('three'));
  await audit.close();
  const sessions = readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).session);
  assert.deepEqual(sessions, ['one', 'two', 'three']);
  assert.deepEqual([audit.health?.written, audit.health?.dropped], [3, 0]);
});

test('the end writes what no writer was loaded for, and nothing when there is nothing', async (t) => {
  const folder = temporaryFolder(t);
  const options = { file: join(folder, 'audit.jsonl'), maxBytes: 65_536, maxFiles: 2 };
  await new DeferredAudit(options, silentLog).close();
  assert.equal(existsSync(options.file), false);
  const audit = new DeferredAudit(options, silentLog);
  audit.record(record('only'));
  await audit.close();
  assert.match(readFileSync(options.file, 'utf8'), /"session":"only"/);
});

test('past what can be held records are counted, not kept', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  const audit = new DeferredAudit({ file, maxBytes: 16_777_216, maxFiles: 2 }, silentLog);
  for (let index = 0; index < 8_200; index++) audit.record(record('many'));
  await audit.open();
  await audit.close();
  assert.deepEqual([audit.health?.written, audit.health?.dropped], [8_192, 8]);
});
