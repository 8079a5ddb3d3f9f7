/**
 * The verifier's findings: every way to change a log that it can see, named, and the one for which it needs a noted
 * hash.
 */
import assert from 'node:assert/strict';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type AuditRecord, openAudit } from '../../../src/host/audit/audit.ts';
import { createSealer } from '../../../src/host/audit/chain.ts';
import { verifyAudit } from '../../../src/host/audit/verify.ts';
import fc from '../../support/properties.ts';
import { temporaryFolder } from '../temporary-folder.ts';

const record = (duration_ms: number): AuditRecord => ({
  time: 1_760_000_000_000,
  session: 's_1',
  principal: 'ci',
  type: 'tool/call/req',
  request_bytes: 312,
  reply_bytes: 1200,
  duration_ms,
  outcome: 'ok',
});

/** Returns an audit of some files, newest `audit.jsonl`; about ten lines each. */
async function auditOf(t: TestContext, records = 60, maxFiles = 50): Promise<string> {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  const audit = openAudit({ file, maxBytes: 3200, maxFiles });
  for (let i = 0; i < records; i++) audit.record(record(i));
  await audit.close();
  return file;
}

function change(file: string, edit: (lines: string[]) => string[]): void {
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  writeFileSync(
    file,
    edit(lines)
      .map((line) => `${line}\n`)
      .join(''),
  );
}

/** Returns the line with other content and a matching hash. */
function forged(line: string, edit: (fields: Record<string, unknown>) => object): string {
  const { hash: _, prev, ...fields } = JSON.parse(line) as Record<string, unknown>;
  return createSealer()(JSON.stringify({ ...edit(fields), prev })).line.trimEnd();
}

test('an untouched log is sound: as a file, by its folder, and by one of its rotated files', async (t) => {
  const file = await auditOf(t);
  const report = await verifyAudit(file);
  assert.deepEqual([report.ok, report.firstBreak], [true, undefined]);
  assert.ok(report.files > 4 && report.lines > 60);
  const [chain] = report.chains;
  const last = JSON.parse(readFileSync(file, 'utf8').trimEnd().split('\n').at(-1)!);
  assert.deepEqual(chain, { file, first: 1, head: { n: last.n, hash: last.hash }, tornTail: false });
  assert.deepEqual(await verifyAudit(join(file, '..')), report);
  assert.deepEqual(await verifyAudit(`${file}.2`), report);
});

test('where there is no audit it says so', async (t) => {
  const folder = temporaryFolder(t);
  for (const path of [folder, join(folder, 'audit.jsonl'), join(folder, 'gone', 'audit.jsonl')]) {
    await assert.rejects(verifyAudit(path), { code: 'usage', message: /no audit log at / });
  }
});

test('each way of tampering is found and named, at its line', async (t) => {
  const oldest = (await verifyAudit(await auditOf(t))).files - 1;
  const cases: [name: string, tamper: (file: string) => void, number: string, line: number, reason: string][] = [
    ['a changed value', (f) => change(`${f}.2`, (l) => l.with(3, l[3]!.replace('"ok"', '"error"'))), '.2', 4, 'edited'],
    ['a changed blank', (f) => change(`${f}.2`, (l) => l.with(3, l[3]!.replace(':', ': '))), '.2', 4, 'edited'],
    [
      'a changed hash',
      (f) =>
        change(`${f}.2`, (l) =>
          l.with(
            3,
            l[3]!.replace(/.(?="\}$)/, (c) => (c === '0' ? '1' : '0')),
          ),
        ),
      '.2',
      4,
      'edited',
    ],
    [
      'a changed line with a hash that fits',
      (f) =>
        change(`${f}.2`, (l) =>
          l.with(
            3,
            forged(l[3]!, (x) => ({ ...x, outcome: 'error' })),
          ),
        ),
      '.2',
      5,
      'rewritten',
    ],
    ['a removed line', (f) => change(`${f}.2`, (l) => l.toSpliced(3, 1)), '.2', 4, 'missing_lines'],
    ['a removed first line of a file', (f) => change(`${f}.2`, (l) => l.slice(1)), '.2', 1, 'missing_lines'],
    ['a removed end of an older file', (f) => change(`${f}.2`, (l) => l.slice(0, 4)), '.1', 1, 'missing_lines'],
    [
      'a removed first line of all',
      (f) => change(`${f}.${oldest}`, (l) => l.slice(1)),
      `.${oldest}`,
      1,
      'missing_file',
    ],
    [
      'a forged first line of all',
      (f) => change(`${f}.${oldest}`, (l) => [forged(l[0]!, (x) => ({ ...x, outcome: 'error' })), ...l.slice(1)]),
      `.${oldest}`,
      2,
      'rewritten',
    ],
    ['two swapped lines', (f) => change(`${f}.2`, (l) => l.with(3, l[4]!).with(4, l[3]!)), '.2', 4, 'missing_lines'],
    ['a repeated line', (f) => change(`${f}.2`, (l) => l.toSpliced(3, 0, l[2]!)), '.2', 4, 'reordered'],
    [
      'an inserted line',
      (f) =>
        change(`${f}.2`, (l) =>
          l.toSpliced(
            3,
            0,
            forged(l[3]!, (x) => x),
          ),
        ),
      '.2',
      5,
      'reordered',
    ],
    ['a line that is none', (f) => change(`${f}.2`, (l) => l.toSpliced(3, 0, '{"n":1}')), '.2', 4, 'unreadable_line'],
    ['an endless line', (f) => change(f, (l) => l.toSpliced(1, 0, 'x'.repeat(100_000))), '', 2, 'unreadable_line'],
    [
      'an older file cut within a line',
      (f) => writeFileSync(`${f}.2`, readFileSync(`${f}.2`).subarray(0, 1000)),
      '.2',
      4,
      'unreadable_line',
    ],
    ['a removed file in the middle', (f) => rmSync(`${f}.2`), '.1', 1, 'missing_file'],
    [
      'a removed file whose number was filled',
      (f) => {
        rmSync(`${f}.2`);
        renameSync(`${f}.3`, `${f}.2`);
      },
      '.1',
      1,
      'missing_lines',
    ],
    ['the oldest file removed', (f) => rmSync(`${f}.${oldest}`), `.${oldest - 1}`, 1, 'missing_file'],
    [
      'two swapped files',
      (f) => {
        renameSync(`${f}.2`, `${f}.x`);
        renameSync(`${f}.1`, `${f}.2`);
        renameSync(`${f}.x`, `${f}.1`);
      },
      '.2',
      1,
      'missing_lines',
    ],
  ];
  for (const [name, tamper, number, line, reason] of cases) {
    await t.test(name, async (t) => {
      const file = await auditOf(t);
      tamper(file);
      const report = await verifyAudit(file);
      assert.equal(report.ok, false);
      assert.deepEqual(report.firstBreak, { file: `${file}${number}`, line, reason });
    });
  }
});

test('files that retention removed are not missed', async (t) => {
  const file = await auditOf(t, 100, 3);
  const report = await verifyAudit(file);
  assert.deepEqual([report.ok, report.files], [true, 3]);
  assert.ok(report.chains[0]!.first > 1);
  // The next older one now is.
  rmSync(`${file}.2`);
  assert.equal((await verifyAudit(file)).firstBreak?.reason, 'missing_file');
});

test('a cut-off end shows only against a head noted elsewhere', async (t) => {
  const file = await auditOf(t);
  const { chains } = await verifyAudit(file);
  const expectedHead = chains[0]!.head.hash;
  assert.equal((await verifyAudit(file, { expectedHead })).ok, true);
  change(file, (lines) => lines.slice(0, -1));
  assert.equal((await verifyAudit(file)).ok, true, 'as the format says');
  assert.deepEqual((await verifyAudit(file, { expectedHead })).firstBreak, { file, line: 0, reason: 'head_missing' });
});

test('a log that continued since its head was noted still proves it', async (t) => {
  const file = await auditOf(t, 20);
  const expectedHead = (await verifyAudit(file)).chains[0]!.head.hash;
  const audit = openAudit({ file, maxBytes: 3200, maxFiles: 50 });
  for (let i = 0; i < 40; i++) audit.record(record(i));
  await audit.close();
  assert.equal((await verifyAudit(file, { expectedHead })).ok, true);
  // Rewritten from its last line on, with matching hashes: only the noted head shows it.
  change(file, (lines) =>
    lines.with(
      -1,
      forged(lines.at(-1)!, (fields) => ({ ...fields, outcome: 'error' })),
    ),
  );
  const head = (await verifyAudit(file)).chains[0]!.head.hash;
  assert.equal((await verifyAudit(file, { expectedHead: head })).ok, true);
});

test('a folder with several chains is sound only when all are', async (t) => {
  const file = await auditOf(t);
  const other = file.replace('audit.jsonl', 'audit-2.jsonl');
  const oldest = (await verifyAudit(file)).files - 1;
  writeFileSync(other, readFileSync(`${file}.${oldest}`));
  const folder = join(file, '..');
  const { chains, firstBreak } = await verifyAudit(folder);
  assert.deepEqual(
    chains.map((chain) => chain.file),
    [other, file],
  );
  assert.equal(firstBreak, undefined, JSON.stringify(firstBreak));
  change(other, (lines) => lines.slice(1));
  assert.equal((await verifyAudit(folder)).firstBreak?.file, other);
});

test('any single changed byte shows', async (t) => {
  const file = await auditOf(t, 30);
  const { files } = await verifyAudit(file);
  await fc.assert(
    fc.asyncProperty(
      fc.nat(files - 1),
      fc.nat(100_000),
      fc.integer({ min: 1, max: 255 }),
      async (index, offset, flip) => {
        const path = index === 0 ? file : `${file}.${index}`;
        const original = readFileSync(path);
        const changed = Buffer.from(original);
        const at = offset % changed.length;
        changed[at] = changed[at]! ^ flip;
        writeFileSync(path, changed);
        try {
          const { ok, chains } = await verifyAudit(file);
          // Without its newline the very last line counts as one that is still being written.
          assert.ok(
            !ok || (index === 0 && at === changed.length - 1 && chains[0]!.tornTail),
            `${path} byte ${at} ^ ${flip}`,
          );
        } finally {
          writeFileSync(path, original);
        }
      },
    ),
    { numRuns: 60 },
  );
});

test('a log may be verified while it is written and rotated', async (t) => {
  const file = join(temporaryFolder(t), 'audit.jsonl');
  const audit = openAudit({ file, maxBytes: 4000, maxFiles: 6 });
  audit.record(record(0));
  await audit.flush();
  let writing = true;
  const writer = (async () => {
    for (let i = 0; i < 150; i++) {
      for (let k = 0; k < 5; k++) audit.record(record(i));
      await audit.flush();
    }
    writing = false;
  })();
  let checks = 0;
  while (writing) {
    const report = await verifyAudit(file);
    assert.ok(report.ok, JSON.stringify(report));
    checks++;
  }
  await writer;
  await audit.close();
  assert.ok(checks > 5);
});
