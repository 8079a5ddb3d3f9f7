/**
 * A flood of requests by one principal cannot push the lines of others out of the audit within its retention: its repeats
 * are counted, files that are young stay, and the chain of hashes stays whole.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type AuditOptions, type AuditRecord, openAudit } from '../../src/host/audit/audit.ts';
import { Repeats } from '../../src/host/audit/repeats.ts';
import { verifyAudit } from '../../src/host/audit/verify.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const DAY_MS = 86_400_000;
const KIB = 1024;

const record = (principal: string, more: Partial<AuditRecord> = {}): AuditRecord => ({
  time: 1_767_225_600_000,
  session: '0'.repeat(32),
  principal,
  type: 'tool/call/req',
  tool: 'read_file',
  request_bytes: 10,
  reply_bytes: 20,
  duration_ms: 1,
  outcome: 'ok',
  ...more,
});

type Line = AuditRecord & { n: number };

/** Returns every line of the audit in a folder, oldest first. */
function linesIn(folder: string): Line[] {
  return readdirSync(folder)
    .filter((name) => name.includes('.jsonl') && !name.endsWith('.lock'))
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n').filter(Boolean))
    .map((line) => JSON.parse(line) as Line)
    .sort((a, b) => a.n - b.n);
}

const sizeOf = (folder: string): number =>
  readdirSync(folder).reduce((sum, name) => sum + (name.includes('.jsonl') ? statSync(join(folder, name)).size : 0), 0);

const BOUNDS: Omit<AuditOptions, 'file'> = {
  maxBytes: 64 * KIB,
  maxFiles: 2,
  retainMs: 30 * DAY_MS,
  maxTotalBytes: 4096 * KIB,
  linesPerMinute: 10,
};

test('a flood by one token evicts no line of another, and every request of it is counted', async (t) => {
  const folder = temporaryFolder(t);
  const audit = openAudit({ file: join(folder, 'audit.jsonl'), ...BOUNDS });
  const flood = 100_000;
  for (let at = 0; at < flood; at++) {
    const refused = at % 4 === 0;
    audit.record(
      record('mallory', {
        tool: `tool-${at}`,
        ...(refused && { outcome: 'error', error_code: 'tool_denied', reason: 'protected_path' }),
      }),
    );
    if (at % 1000 === 0) {
      audit.record(record('ann', { time: at }));
      await audit.flush();
    }
  }
  await audit.close();
  const { health } = audit;
  assert.deepEqual([health.dropped, health.lastError], [0, undefined]);
  assert.ok(health.counted > flood / 2);
  const lines = linesIn(folder);
  assert.equal(lines.filter(({ principal }) => principal === 'ann').length, 100);
  const own = lines.filter(({ principal }) => principal === 'mallory');
  const burst = 100 * 10;
  assert.ok(own.length < burst + 50 + health.written * 0.2, `${own.length} lines of the flood`);
  const counted = (of: readonly Line[]) => of.reduce((sum, { count = 1 }) => sum + count, 0);
  assert.equal(counted(own), flood, 'nothing goes uncounted');
  assert.equal(counted(own.filter(({ reason }) => reason === 'protected_path')), flood / 4, 'by outcome and reason');
  const { ok, firstBreak } = await verifyAudit(folder);
  assert.equal(ok, true, JSON.stringify(firstBreak));
});

test('a principal within its budget has a line for each request', async (t) => {
  const folder = temporaryFolder(t);
  const audit = openAudit({ file: join(folder, 'audit.jsonl'), ...BOUNDS });
  for (let at = 0; at < 900; at++) audit.record(record('ann'));
  await audit.close();
  assert.equal(linesIn(folder).filter(({ principal }) => principal === 'ann').length, 900);
  assert.equal(audit.health.counted, 0);
});

test('the budget is refilled with time, and counts of many kinds are bounded', () => {
  let now = 0;
  const repeats = new Repeats(10, () => now);
  for (let at = 0; at < 1000; at++) assert.equal(repeats.admit(record('bob')), true);
  assert.equal(repeats.admit(record('bob')), false);
  assert.equal(repeats.admit(record('ann')), true, 'another has its own');
  now += 60_000;
  for (let at = 0; at < 10; at++) assert.equal(repeats.admit(record('bob')), true);
  assert.equal(repeats.admit(record('bob')), false);
  for (let at = 0; at < 1000; at++) repeats.admit(record('bob', { type: `type-${at}` }));
  const lines = repeats.take();
  assert.ok(lines.length <= 65);
  assert.equal(
    lines.reduce((sum, { count = 0 }) => sum + count, 0),
    1002,
  );
  assert.deepEqual([repeats.take(), repeats.waiting], [[], false]);
});

test('files stay while they are young, in any number, as far as all of them fit', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'audit.jsonl');
  const write = async (count: number, options: Partial<AuditOptions> = {}) => {
    const audit = openAudit({ file, ...BOUNDS, linesPerMinute: 1e9, ...options });
    for (let at = 0; at < count; at++) {
      audit.record(record('ann'));
      if (at % 100 === 99) await audit.flush();
    }
    await audit.close();
  };
  const files = () => readdirSync(folder).filter((name) => /\.jsonl(\.\d+)?$/.test(name));
  await write(2000);
  const many = files().length;
  assert.ok(many > 4, `${many} files of at least two`);
  assert.equal(linesIn(folder)[0]?.n, 1, 'the oldest line is there');
  assert.equal((await verifyAudit(folder)).ok, true);

  // The oldest two have had their time.
  for (const index of [many - 1, many - 2]) utimesSync(`${file}.${index}`, 1, 1);
  await write(300);
  assert.ok((linesIn(folder)[0]?.n as number) > 1, 'what is old goes with the next file');
  assert.equal((await verifyAudit(folder)).ok, true);

  // A clock that is set forward for a while costs the files beyond `maxFiles`, and not the newest.
  await write(300, { now: () => Date.now() + 400 * DAY_MS });
  assert.equal(files().length, 2);
  assert.equal((await verifyAudit(folder)).ok, true);

  // The bound on size has lower rank.
  await write(6000, { maxTotalBytes: 512 * KIB });
  assert.ok(sizeOf(folder) <= 512 * KIB + 64 * KIB, `${sizeOf(folder)} bytes`);
  assert.ok(files().length > 4);
  assert.equal((await verifyAudit(folder)).ok, true);
});
