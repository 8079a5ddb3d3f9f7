/**
 * The written audit: the content of a line, rotation, restarts, crashes, several writers, and disks that fail. The
 * verifier's findings in a changed log are in `verify.test.ts`.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type AuditOptions, type AuditRecord, openAudit } from '../../../src/host/audit/audit.ts';
import { verifyAudit } from '../../../src/host/audit/verify.ts';
import { temporaryFolder } from '../temporary-folder.ts';

const fixture = fileURLToPath(import.meta.resolve('./fixtures/audit-writer.ts'));
const posixOnly = { skip: process.platform === 'win32' };

function record(more: Partial<AuditRecord> = {}): AuditRecord {
  return {
    time: 1_760_000_000_000,
    session: 's_1',
    principal: 'ci',
    type: 'tool/call/req',
    request_bytes: 312,
    reply_bytes: 1200,
    duration_ms: 3,
    outcome: 'ok',
    ...more,
  };
}

/** Writes `count` records and closes. */
async function write(file: string, count: number, options: Partial<AuditOptions> = {}) {
  const audit = openAudit({ file, maxBytes: 1024 * 1024, maxFiles: 5, now: () => 7, ...options });
  for (let i = 0; i < count; i++) {
    audit.record(record({ duration_ms: i }));
    // Several batches, as turns of the event loop make them.
    if (i % 10 === 9) await audit.flush();
  }
  await audit.close();
  return audit.health;
}

const linesOf = (file: string) => readFileSync(file, 'utf8').split('\n').slice(0, -1);
const parsed = (file: string) => linesOf(file).map((line) => JSON.parse(line) as Record<string, unknown>);

test('a record becomes one line, chained by a hash anybody can compute, in a file only its owner can read', async (t) => {
  const file = join(temporaryFolder(t), 'new', 'audit.jsonl');
  const audit = openAudit({ file, maxBytes: 65_536, maxFiles: 2 });
  audit.record(record({ tool: 'grep', peer: '127.0.0.1:5' }));
  audit.record(record({ outcome: 'error', error_code: 'tool_error', principal: 'a "b"\n\u2028é' }));
  assert.ok(!existsSync(dirname(file)), 'recording itself touches nothing');
  await audit.flush();
  const zero = '0'.repeat(64);
  const [first, second] = linesOf(file) as [string, string];
  const hashOf = (line: string) =>
    createHash('sha256')
      .update(line.slice(0, line.indexOf(',"hash":')))
      .digest('hex');
  assert.equal(
    first,
    `{"n":1,"time":1760000000000,"session":"s_1","principal":"ci","peer":"127.0.0.1:5","type":"tool/call/req","tool":"grep","request_bytes":312,"reply_bytes":1200,"duration_ms":3,"outcome":"ok","prev":"${zero}","hash":"${hashOf(first)}"}`,
  );
  assert.deepEqual(JSON.parse(second), {
    n: 2,
    ...record({ outcome: 'error', error_code: 'tool_error', principal: 'a "b"\n\u2028é' }),
    prev: hashOf(first),
    hash: hashOf(second),
  });
  assert.deepEqual(audit.health, {
    file,
    written: 2,
    queued: 0,
    dropped: 0,
    counted: 0,
    failures: 0,
    lastError: undefined,
    head: { n: 2, hash: hashOf(second) },
  });
  if (process.platform !== 'win32') {
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(statSync(dirname(file)).mode & 0o777, 0o700);
  }
  await audit.close();
});

test('texts from a peer are shortened, so that no line is long', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  const audit = openAudit({ file, maxBytes: 65_536, maxFiles: 2 });
  const long = '\u0000'.repeat(1_000_000);
  audit.record(record({ session: long, principal: long, peer: long, type: long, tool: long }));
  await audit.close();
  assert.equal(String(parsed(file)[0]?.type).length, 257);
  assert.ok(statSync(file).size < 10_000);
  assert.equal((await verifyAudit(file)).ok, true);
});

test('a full file is set aside, none is longer than the limit, the oldest go, and the chain continues', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'audit.jsonl');
  await write(file, 200, { maxBytes: 4096, maxFiles: 4 });
  const files = readdirSync(folder).filter((name) => !name.endsWith('.lock'));
  assert.deepEqual(files.sort(), ['audit.jsonl', 'audit.jsonl.1', 'audit.jsonl.2', 'audit.jsonl.3']);
  for (const name of files) assert.ok(statSync(join(folder, name)).size <= 4096, name);
  const report = await verifyAudit(file);
  assert.deepEqual([report.ok, report.files], [true, 4]);
  assert.ok(report.chains[0]!.first > 100, 'the oldest lines are gone');
  // Each file opens with the oldest remaining line, so that a missing file is not mistaken for an old one.
  const [opening] = parsed(file);
  assert.equal(opening?.type, 'audit/rotated');
  assert.equal(opening?.oldest, parsed(`${file}.3`)[0]?.n);
  assert.equal(opening?.time, 7);
});

test('a file takes one line however small its limit is', async (t) => {
  const folder = temporaryFolder(t);
  const health = await write(join(folder, 'audit.jsonl'), 5, { maxBytes: 1, maxFiles: 10 });
  assert.deepEqual([health.written, health.dropped], [5 + 4, 0]);
  const report = await verifyAudit(folder);
  assert.deepEqual([report.ok, report.files, report.lines], [true, 5, 9]);
});

test('fewer files are kept once the setting says so', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'audit.jsonl');
  await write(file, 100, { maxBytes: 2048, maxFiles: 9 });
  await write(file, 10, { maxBytes: 2048, maxFiles: 3 });
  const report = await verifyAudit(file);
  assert.deepEqual([report.ok, report.files], [true, 3]);
});

test('a restart continues the chain, also right after a rotation', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  await write(file, 3);
  assert.equal((await write(file, 3)).head?.n, 6);
  // A host killed between setting a file aside and beginning the next leaves this.
  renameSync(file, `${file}.1`);
  assert.equal((await write(file, 1)).head?.n, 8);
  writeFileSync(`${file}.2`, '');
  renameSync(`${file}.1`, `${file}.2`);
  renameSync(file, `${file}.1`);
  writeFileSync(file, '');
  await write(file, 1);
  const report = await verifyAudit(file);
  assert.deepEqual([report.ok, report.files, report.chains[0]?.first, report.chains[0]?.head.n], [true, 3, 1, 10]);
});

test('a line cut short by a crash is removed at the next start', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  for (const torn of ['{"n":4,"time":17', `{"n":4${'x'.repeat(70_000)}`]) {
    await write(file, 3);
    appendFileSync(file, torn);
    const before = await verifyAudit(file);
    assert.deepEqual([before.ok, before.chains[0]?.tornTail], [torn.length < 65_536, torn.length < 65_536]);
    await write(file, 3);
    assert.deepEqual(
      parsed(file).map(({ n }) => n),
      [1, 2, 3, 4, 5, 6],
    );
    assert.equal((await verifyAudit(file)).ok, true);
    rmSync(file);
  }
  // Cut within the very first line.
  writeFileSync(file, '{"n":1');
  await write(file, 1);
  assert.deepEqual([parsed(file).length, (await verifyAudit(file)).ok], [1, true]);
});

test('a file that is no audit is set aside, not written into, and the verifier shows the seam', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  writeFileSync(file, 'dear diary\n');
  const health = await write(file, 2);
  assert.deepEqual([health.written, health.failures], [2, 0]);
  assert.equal(readFileSync(`${file}.1`, 'utf8'), 'dear diary\n');
  const { firstBreak } = await verifyAudit(file);
  assert.deepEqual(firstBreak, { file: `${file}.1`, line: 1, reason: 'unreadable_line' });
});

test('permissions of an existing file are tightened', posixOnly, async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  writeFileSync(file, '');
  chmodSync(file, 0o644);
  await write(file, 1);
  assert.equal(statSync(file).mode & 0o777, 0o600);
});

test('a second writer of the same setting gets a chain of its own', async (t) => {
  const folder = temporaryFolder(t);
  const options = { file: join(folder, 'audit.jsonl'), maxBytes: 65_536, maxFiles: 2 };
  const audits = [openAudit(options), openAudit(options), openAudit(options)];
  for (const audit of audits) {
    audit.record(record());
    await audit.flush();
  }
  assert.deepEqual(
    audits.map(({ health }) => basename(health.file!)),
    ['audit.jsonl', 'audit-2.jsonl', 'audit-3.jsonl'],
  );
  await audits[1]!.close();
  const next = openAudit(options);
  next.record(record());
  await next.flush();
  assert.equal(basename(next.health.file!), 'audit-2.jsonl', 'a closed chain is taken up again');
  assert.equal(next.health.head?.n, 2);
  for (const audit of [...audits, next]) await audit.close();
  const report = await verifyAudit(folder);
  assert.deepEqual([report.ok, report.chains.length, report.lines], [true, 3, 4]);
});

test('a killed writer leaves a sound chain behind, and the lock is free at once', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  let acknowledged = 0;
  for (let round = 0; round < 6; round++) {
    const child = spawn(process.execPath, [fixture, file, '8000', '3', '40', '0'], {
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: 120_000,
    });
    const exited = once(child, 'exit');
    let reports = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      const { head, file: path } = JSON.parse(line);
      assert.equal(path, file);
      acknowledged = head.n;
      if (++reports < 3 + round) continue;
      child.kill('SIGKILL');
      // The last printed line may be cut short.
      break;
    }
    await exited;
    const report = await verifyAudit(file);
    assert.equal(report.ok, true, JSON.stringify(report.firstBreak));
    assert.ok(report.chains[0]!.head.n >= acknowledged, 'nothing that was flushed is lost');
  }
  const health = await write(file, 1, { maxBytes: 8000, maxFiles: 3 });
  assert.equal(health.file, file);
  const report = await verifyAudit(file);
  assert.deepEqual([report.ok, report.chains[0]?.tornTail], [true, false]);
});

test('a disk that fails never fails the caller; it is counted, retried, and nothing is lost', async (t) => {
  const folder = temporaryFolder(t);
  const obstacle = join(folder, 'blocked');
  writeFileSync(obstacle, 'a file where the folder should be');
  const file = join(obstacle, 'audit.jsonl');
  const audit = openAudit({ file, maxBytes: 65_536, maxFiles: 2, retryMs: 1 });
  audit.record(record());
  await audit.flush();
  assert.deepEqual([audit.health.failures, audit.health.queued, audit.health.written], [1, 1, 0]);
  assert.match(audit.health.lastError ?? '', /EEXIST|ENOTDIR/);
  for (let i = 0; i < 50; i++) audit.record(record());
  rmSync(obstacle);
  await audit.close();
  assert.deepEqual(
    [audit.health.written, audit.health.queued, audit.health.dropped, audit.health.lastError],
    [51, 0, 0, undefined],
  );
  assert.equal((await verifyAudit(file)).ok, true);
});

test('a disk that comes back is noticed without a new record', async (t) => {
  const folder = temporaryFolder(t);
  const obstacle = join(folder, 'blocked');
  writeFileSync(obstacle, '');
  const audit = openAudit({ file: join(obstacle, 'audit.jsonl'), maxBytes: 65_536, maxFiles: 2, retryMs: 1 });
  t.after(() => audit.close());
  audit.record(record());
  await audit.flush();
  rmSync(obstacle);
  const deadline = performance.now() + 60_000;
  while (audit.health.written === 0 && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assert.equal(audit.health.written, 1);
});

test('what no longer fits into the queue is dropped, counted, and told in the log', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'audit.jsonl');
  const audit = openAudit({ file, maxBytes: 65_536, maxFiles: 2, queueLimit: 10, now: () => 42 });
  for (let i = 0; i < 25; i++) audit.record(record());
  assert.deepEqual([audit.health.queued, audit.health.dropped], [10, 15]);
  await audit.flush();
  audit.record(record());
  await audit.close();
  const lines = parsed(file);
  assert.equal(lines.length, 12);
  const { type, time, count } = lines[10]!;
  assert.deepEqual({ type, time, count }, { type: 'audit/dropped', time: 42, count: 15 });
  assert.equal(lines[11]?.type, 'tool/call/req');
  assert.equal((await verifyAudit(file)).ok, true);
});

test('what is no record is dropped and does not stop those behind it', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  const audit = openAudit({ file, maxBytes: 65_536, maxFiles: 2 });
  audit.record(record({ session: undefined as unknown as string }));
  audit.record(record({ reply_bytes: 1n as unknown as number }));
  await audit.flush();
  audit.record(record());
  await audit.close();
  assert.deepEqual([audit.health.dropped, audit.health.failures], [2, 0]);
  assert.deepEqual(
    parsed(file).map(({ type, count }) => [type, count]),
    [
      ['audit/dropped', 2],
      ['tool/call/req', undefined],
    ],
  );
});

test('after the close records are counted as dropped, and closing again is fine', async (t) => {
  const audit = openAudit({ file: join(temporaryFolder(t), 'audit.jsonl'), maxBytes: 65_536, maxFiles: 2 });
  await Promise.all([audit.close(), audit.close()]);
  audit.record(record());
  await audit.close();
  await audit.flush();
  assert.deepEqual([audit.health.dropped, audit.health.written, audit.health.file], [1, 0, undefined]);
});

test(
  'a disk that is full in the middle of a write leaves whole lines only, and the chain holds',
  posixOnly,
  async (t) => {
    const file = join(temporaryFolder(t), 'audit.jsonl');
    // The shell counts in blocks of 512 or 1,024 bytes: files may not grow past 32 or 64 KiB.
    const script = 'ulimit -f 64 && exec "$0" "$@"';
    const printed = execFileSync('sh', ['-c', script, process.execPath, fixture, file, '1000000', '9', '40', '8'], {
      encoding: 'utf8',
      timeout: 120_000,
    });
    const reports = printed
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const last = reports.at(-1);
    assert.ok(last.failures > 0, 'the limit was met');
    assert.ok(last.written > 40 && last.written < 320, printed);
    const report = await verifyAudit(file);
    assert.deepEqual([report.ok, report.lines, report.chains[0]?.tornTail], [true, last.written, false]);
    await write(file, 1);
    assert.equal((await verifyAudit(file)).chains[0]?.head.n, last.written + 1);
  },
);

test('a disk that hangs does not hold up the close', posixOnly, async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  execFileSync('mkfifo', [file]);
  const audit = openAudit({ file, maxBytes: 65_536, maxFiles: 2 });
  audit.record(record());
  audit.record(record());
  await audit.close(50);
  assert.deepEqual([audit.health.written, audit.health.queued, audit.health.dropped], [0, 0, 2]);
  // Releases the thread that waits for a reader of the pipe, or will; the descriptor stays as long as this process.
  openSync(file, 'r+');
});

test('a file that is removed or replaced while it is written is noticed', posixOnly, async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'audit.jsonl');
  let ms = 0;
  t.mock.method(performance, 'now', () => ms);
  const audit = openAudit({ file, maxBytes: 65_536, maxFiles: 3 });
  audit.record(record());
  await audit.flush();
  rmSync(file);
  ms += 5_000;
  audit.record(record());
  await audit.flush();
  await audit.close();
  assert.deepEqual(
    parsed(file).map(({ n, type }) => [n, type]),
    [
      [2, 'audit/rotated'],
      [3, 'tool/call/req'],
    ],
  );
  assert.equal((await verifyAudit(file)).firstBreak?.reason, 'missing_file');
});

test('an idle audit keeps no process alive and needs no file', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'sub'));
  const script = `
    const { openAudit } = await import(${JSON.stringify(import.meta.resolve('../../../src/host/audit/audit.ts'))});
    const audit = openAudit({ file: ${JSON.stringify(join(folder, 'sub', 'audit.jsonl'))}, maxBytes: 65536, maxFiles: 2 });
    process.on('exit', () => console.log('left alone ' + audit.health.file));
  `;
  const options = { encoding: 'utf8', timeout: 120_000 } as const;
  const printed = execFileSync(process.execPath, ['--input-type=module', '--eval', script], options);
  assert.equal(printed.trim(), 'left alone undefined');
  assert.deepEqual(readdirSync(join(folder, 'sub')), []);
});
