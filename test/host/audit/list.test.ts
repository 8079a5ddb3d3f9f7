/**
 * Listing an audit: the newest lines over all files, also while they are written, rotated or damaged.
 */
import assert from 'node:assert/strict';
import { appendFileSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Audit, type AuditRecord, openAudit } from '../../../src/host/audit/audit.ts';
import { type AuditLine, followAudit, listAudit } from '../../../src/host/audit/list.ts';
import { verifyAudit } from '../../../src/host/audit/verify.ts';
import { temporaryFolder } from '../temporary-folder.ts';

const record = (at: number, more: Partial<AuditRecord> = {}): AuditRecord => ({
  time: 1_760_000_000_000 + at,
  session: 's_1',
  principal: at % 2 === 0 ? 'even' : 'odd',
  type: 'tool/call/req',
  request_bytes: 312,
  reply_bytes: 1200,
  duration_ms: at,
  outcome: 'ok',
  ...more,
});

/** Returns an audit with small files; about nine lines each by default. */
function auditIn(t: TestContext, maxBytes = 3200): { readonly file: string; readonly audit: Audit } {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  const audit = openAudit({ file, maxBytes, maxFiles: 50 });
  t.after(() => audit.close());
  return { file, audit };
}

const requests = (lines: readonly AuditLine[]): number[] =>
  lines.filter(({ type }) => type !== 'audit/rotated').map(({ duration_ms }) => duration_ms);
const numbers = (from: number, until: number): number[] => Array.from({ length: until - from }, (_, at) => from + at);

test('pages go back over all files and miss no line', async (t) => {
  const { file, audit } = auditIn(t);
  for (let at = 0; at < 60; at++) audit.record(record(at));
  await audit.flush();
  const pages: AuditLine[][] = [];
  let before: number | undefined;
  for (let more = true; more; ) {
    const page = await listAudit(file, { limit: 7, ...(before !== undefined && { before }) });
    assert.ok(page.lines.length <= 7);
    pages.unshift([...page.lines]);
    before = page.lines[0]?.n;
    more = page.more;
  }
  assert.ok(pages.length > 8);
  assert.deepEqual(requests(pages.flat()), numbers(0, 60));
  const odd = await listAudit(join(file, '..'), { limit: 3, principal: 'odd' });
  assert.deepEqual(requests(odd.lines), [55, 57, 59]);
  assert.deepEqual([odd.more, odd.ends.map((end) => end.file)], [true, [file]]);
});

test('files that are older than the time asked for are not read', async (t) => {
  const { file, audit } = auditIn(t);
  for (let at = 0; at < 30; at++) audit.record(record(at));
  await audit.close();
  // Damage that a reader would count.
  const old = `${file}.2`;
  writeFileSync(old, `damaged\n${readFileSync(old, 'utf8')}`);
  utimesSync(old, 1_700_000_000, 1_700_000_000);
  const sinceMs = 1_760_000_000_000 + 25;
  const page = await listAudit(file, { limit: 100, sinceMs });
  assert.deepEqual([requests(page.lines), page.unreadable], [numbers(25, 30), 0]);
  assert.equal((await listAudit(file, { limit: 100 })).unreadable, 1);
});

test('lines of a file from before the clock was set back are found, also behind a file that is too old', async (t) => {
  const { file, audit } = auditIn(t);
  for (let at = 0; at < 20; at++) audit.record(record(1000 + at));
  for (let at = 20; at < 40; at++) audit.record(record(at));
  await audit.close();
  utimesSync(`${file}.1`, 1_700_000_000, 1_700_000_000);
  const { lines } = await listAudit(file, { limit: 100, sinceMs: 1_760_000_001_000 });
  assert.deepEqual(requests(lines), numbers(1000, 1020));
});

test('damaged lines and one that is being written are left out', async (t) => {
  const { file, audit } = auditIn(t);
  for (let at = 0; at < 3; at++) audit.record(record(at));
  await audit.close();
  appendFileSync(file, 'no line\n{"n":"x"}\n{"n":9,"time":1,"ty');
  const { lines, unreadable } = await listAudit(file, { limit: 10 });
  assert.deepEqual([requests(lines), unreadable], [[0, 1, 2], 2]);
});

test('of a long file the newest lines are listed', async (t) => {
  const { file, audit } = auditIn(t, 1_000_000);
  for (let at = 0; at < 500; at++) audit.record(record(at));
  await audit.close();
  for (const limit of [1, 2, 3, 499]) {
    const { lines, more } = await listAudit(file, { limit });
    assert.deepEqual([requests(lines), more], [numbers(500 - limit, 500), true]);
  }
  assert.equal((await listAudit(file, { limit: 500 })).more, false);
});

test('a follower has every line once and in order, over rotations', async (t) => {
  const { file, audit } = auditIn(t);
  for (let at = 0; at < 5; at++) audit.record(record(at));
  await audit.flush();
  const { ends } = await listAudit(file, { limit: 1 });
  const inode = statSync(file).ino;
  const controller = new AbortController();
  const seen: AuditLine[] = [];
  const following = (async () => {
    for await (const line of followAudit(ends, { filter: {}, signal: controller.signal })) {
      seen.push(line);
      if (requests(seen).length === 100) return;
    }
  })();
  for (let at = 5; at < 105; at++) {
    audit.record(record(at));
    if (at % 20 === 0) {
      await audit.flush();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  await following;
  assert.notEqual(statSync(file).ino, inode, 'the file was rotated');
  assert.deepEqual(requests(seen), numbers(5, 105));
  const filtered = followAudit(ends, { filter: { principal: 'odd' }, signal: controller.signal });
  assert.deepEqual((await filtered.next()).value.duration_ms, 5);
  assert.deepEqual((await filtered.next()).value.duration_ms, 7);
  controller.abort(new Error('stop'));
  await assert.rejects(async () => {
    for await (const _ of filtered);
  }, /stop|abort/);
});

test('the audits of hosts that ran at the same time are listed and followed as one, by time', async (t) => {
  const { file, audit: first } = auditIn(t);
  const second = openAudit({ file, maxBytes: 3200, maxFiles: 50 });
  t.after(() => second.close());
  for (let at = 0; at < 10; at++) {
    (at % 2 === 0 ? first : second).record(record(at));
    await Promise.all([first.flush(), second.flush()]);
  }
  const both = [file, file.replace('.jsonl', '-2.jsonl')];
  assert.deepEqual(requests((await listAudit(file, { limit: 100 })).lines), [0, 2, 4, 6, 8]);
  const page = await listAudit(file, { limit: 3, everyHost: true });
  assert.deepEqual([requests(page.lines), page.more], [[7, 8, 9], true]);
  assert.deepEqual(page.ends.map((end) => end.file).sort(), both.toSorted());
  await assert.rejects(listAudit(file, { limit: 3, before: 2, everyHost: true }), {
    code: 'usage',
    message: /audit-2/,
  });
  const following = followAudit(page.ends, { filter: {}, signal: t.signal });
  for (const [at, audit] of [
    [10, first],
    [11, second],
  ] as const) {
    audit.record(record(at));
    assert.equal((await following.next()).value.duration_ms, at);
  }
  await following.return(undefined as never);
  const report = await verifyAudit(file, { everyHost: true });
  assert.deepEqual([report.ok, report.lines, report.chains.length], [true, 12, 2]);
});
