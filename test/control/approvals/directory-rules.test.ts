/** Answers kept for directories survive the process and a damaged file. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { directoryRules } from '../../../src/control/approvals/directory-rules.ts';

const folder = await mkdtemp(join(tmpdir(), 'handfast-rules-'));
after(() => rmSync(folder, { recursive: true }));

const logged: string[] = [];
const log = { debug() {}, info() {}, warn() {}, error: (message: string) => void logged.push(message) };
const rule = (key: string, decision: 'allow' | 'deny' = 'allow') => ({
  key,
  words: key,
  decision,
  by: 'local',
  at: '2026-01-01T00:00:00.000Z',
});

test('a rule is in effect at once and after reopening, for its owner and its directory only', async () => {
  const file = join(folder, 'deep', 'rules.json');
  const rules = await directoryRules({ file, log });
  rules.add('local', '/project', rule('a'));
  rules.add('local', '/project', rule('b'));
  rules.add('__proto__', '/project', rule('c'));
  rules.add('local', '/project', rule('a', 'deny'));
  assert.deepEqual(
    rules.get('local', '/project').map(({ key, decision }) => `${key} ${decision}`),
    ['b allow', 'a deny'],
  );
  await rules.flushed();
  const again = await directoryRules({ file, log });
  assert.deepEqual(again.get('local', '/project'), rules.get('local', '/project'));
  assert.equal(again.get('__proto__', '/project').length, 1);
  assert.deepEqual(again.get('local', '/elsewhere'), []);
  assert.deepEqual(again.get('toString', 'constructor'), []);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(join(folder, 'deep')), ['rules.json']);
});

test('a file that cannot be read is set aside, and remembers nothing', async () => {
  const file = join(folder, 'damaged.json');
  for (const text of ['{"local":', '{"local":{"/project":7}}', 'null']) {
    writeFileSync(file, text);
    const rules = await directoryRules({ file, log, now: () => 77 });
    assert.deepEqual(rules.get('local', '/project'), []);
    assert.equal(readFileSync(`${file}.unreadable-77`, 'utf8'), text);
  }
  assert.equal(logged.length, 3);
});

test('a rule that cannot be written is reported and stays in effect', async () => {
  const file = join(folder, 'a-file', 'rules.json');
  writeFileSync(join(folder, 'a-file'), '');
  const rules = await directoryRules({ file, log });
  logged.length = 0;
  rules.add('local', '/project', rule('a'));
  await assert.rejects(rules.flushed(), { code: 'runtime_error', message: /^the answer holds until the server ends/ });
  assert.equal(rules.get('local', '/project').length, 1);
  assert.deepEqual(logged, ['a remembered answer could not be stored']);
  // Behind a later write that succeeds, all of them are stored.
  rmSync(join(folder, 'a-file'));
  rules.add('local', '/project', rule('b'));
  await rules.flushed();
  assert.equal((await directoryRules({ file, log })).get('local', '/project').length, 2);
});
