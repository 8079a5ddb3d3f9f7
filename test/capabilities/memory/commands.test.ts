/** The commands as a user types them, against a host that the command line starts. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { root } from '../../rules/scan.ts';
import { temporaryFolder } from './support.ts';

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `handfast memory …` with a separate home; each command starts a host as its child. */
function commandLine(t: TestContext) {
  const home = temporaryFolder(t);
  const main = join(root, 'src', 'cli', 'main.ts');
  const host = [process.execPath, '-C', 'handfast-source', main, 'stdio'].map((word) => JSON.stringify(word)).join(' ');
  const env = { ...process.env, HANDFAST_HOME: home, NO_COLOR: '1' };
  return {
    home,
    run: (words: readonly string[], input = ''): Promise<Outcome> =>
      new Promise((resolve) => {
        const args = ['-C', 'handfast-source', main, 'memory', ...words, '--connect', `stdio:${host}`];
        const child = execFile(process.execPath, args, { env, cwd: home }, (error, stdout, stderr) =>
          resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
        );
        child.stdin?.end(input);
      }),
  };
}

test('add, get, search, history, forget, export and import', { timeout: 300_000 }, async (t) => {
  const { home, run } = commandLine(t);
  assert.match(
    (await run(['add', 'city', 'Ada lives in Rome', '--valid-from', '2015-01-01', '--tag', 'profile'])).stderr,
    /stored city in the semantic tier/,
  );
  assert.equal((await run(['add', 'city', 'Ada lives in Lisbon'])).code, 0);
  assert.equal((await run(['get', 'city'])).stdout, 'Ada lives in Lisbon\n');
  assert.equal((await run(['get', 'city', '--as-of', '2020-01-01'])).stdout, 'Ada lives in Rome\n');
  const found = JSON.parse((await run(['search', 'where', 'does', 'Ada', 'live', '--json'])).stdout);
  assert.equal(found.entries[0].content, 'Ada lives in Lisbon');
  assert.match((await run(['history', 'city'])).stdout, /2015-01-01T00:00:00Z .*Ada lives in Rome/);
  const nowhere = await run(['search', 'Ada', '--space', 'nowhere']);
  assert.deepEqual([nowhere.code, nowhere.stderr], [0, 'nothing is published in the space nowhere\n']);
  const exported = (await run(['export', '--json'])).stdout;
  assert.equal(exported.trim().split('\n').length, 2);
  writeFileSync(join(home, 'memory.jsonl'), `${exported}{"key":"bad","content":1,"tier":"episodic","ttl":-1}\n`);
  const imported = await run(['import', 'memory.jsonl', '--namespace', 'copy']);
  assert.equal(imported.code, 1, 'a line that was not stored is a failure');
  assert.match(imported.stderr, /2 entries stored\nline 3: ttl must not be negative/);
  assert.equal(
    (await run(['get', 'city', '--namespace', 'copy', '--as-of', '2020-01-01'])).stdout,
    'Ada lives in Rome\n',
  );
  const lived = Date.now() / 1000 - 1800;
  const line = (key: string, ttl: number) =>
    JSON.stringify({ key, content: key, tier: 'episodic', ttl, created_at: lived - 60, updated_at: lived });
  writeFileSync(join(home, 'mortal.jsonl'), `${line('half', 3600)}\n${line('over', 60)}\n${line('always', 0)}\n`);
  const mortal = await run(['import', 'mortal.jsonl', '--namespace', 'mortal']);
  assert.match(mortal.stderr, /2 entries stored/);
  const entry = JSON.parse((await run(['get', 'half', '--namespace', 'mortal', '--json'])).stdout);
  assert.equal(Math.round(entry.updated_at + entry.ttl), Math.round(lived + 3600), 'it ends when it would have ended');
  assert.equal((await run(['get', 'over', '--namespace', 'mortal'])).code, 5, 'it is not there');
  assert.equal((await run(['get', 'always', '--namespace', 'mortal'])).code, 0);
  assert.match((await run(['forget', 'city'])).stderr, /1 entry deleted/);
  const missing = await run(['get', 'city']);
  assert.notEqual(missing.code, 0);
  assert.match(missing.stderr, /no entry city in this memory; "handfast memory ls" lists the entries/);
  assert.match((await run(['forget'])).stderr, /name what to forget: keys, --tag, --source or --before/);
  assert.match((await run(['stats'])).stdout, /semantic +2 /);
});
