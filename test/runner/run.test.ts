/** `npm test` itself: files that share a process, and those that harm it, named and counted. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';

const program = join(import.meta.dirname, '..', 'run.ts');

/** Runs files of these texts in one process, in this order. */
function run(t: TestContext, texts: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-runner-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const paths = Object.entries(texts).map(([name, text]) => {
    const path = join(folder, `${name}.test.mjs`);
    writeFileSync(path, `import { after, beforeEach, test } from 'node:test';\n${text}`);
    return path;
  });
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout, status } = spawnSync(process.execPath, [program, ...paths], { env, encoding: 'utf8' });
  const count = (name: string) => Number(new RegExp(`^ℹ ${name} (\\d+)$`, 'm').exec(stdout)?.[1]);
  return { stdout, status, counts: { tests: count('tests'), pass: count('pass'), fail: count('fail') } };
}

test('the last lines of npm test name what was skipped, and why', (t) => {
  const { stdout, status } = run(t, { one: "test('needs fish', (t) => t.skip('fish is not installed'));" });
  assert.match(stdout, /^ℹ skipped 1$/m, 'the usual summary is there');
  assert.match(stdout, /\nskipped 1:\n- needs fish \(.*one\.test\.mjs\): fish is not installed\n\n$/);
  assert.equal(status, 0);
});

test('files that share a process have their hooks for themselves', (t) => {
  const { stdout, status, counts } = run(t, {
    one: "beforeEach(() => console.log('each of one')); after(() => console.log('after one')); test('a', () => {}); test('b', () => {});",
    two: "console.log('two begins'); test('c', async (t) => { await t.test('d', () => {}); });",
  });
  assert.deepEqual(counts, { tests: 4, pass: 4, fail: 0 });
  assert.deepEqual(
    stdout.split('\n').filter((line) => /^(?:each|after|two)/.test(line)),
    ['each of one', 'each of one', 'after one', 'two begins'],
  );
  assert.match(stdout, /\nno test was skipped\n$/);
  assert.equal(status, 0);
});

test('a file that fails, cannot be read or leaves its process changed is named, and hides no other', (t) => {
  const { stdout, status, counts } = run(t, {
    failing: "test('a', () => { throw new Error('no'); });",
    unreadable: 'this is not a program',
    leaking: "test('b', () => { process.env.LEFT = 'behind'; });",
    next: "test('c', () => {});",
  });
  assert.deepEqual(counts, { tests: 3, pass: 2, fail: 3 });
  const list = stdout.slice(stdout.indexOf('✖ failing tests:'));
  assert.match(list, /✖ a .*\n.*Error: no/);
  assert.match(list, /✖ .*unreadable\.test\.mjs .*\n.*SyntaxError/);
  assert.match(list, /✖ .*leaking\.test\.mjs .*\n.*leaves the process other than it was/);
  assert.match(stdout, /✔ .*next\.test\.mjs/);
  assert.equal(status, 1);
});

test('a file that ends its process is named, and the files behind it run in another', (t) => {
  const { stdout, status, counts } = run(t, {
    first: "test('a', () => {});",
    ending:
      "test('b', async () => { await new Promise((later) => setTimeout(later, 100)); process.kill(process.pid, 'SIGKILL'); });",
    last: "test('c', () => {});",
  });
  assert.deepEqual(counts, { tests: 3, pass: 2, fail: 1 });
  assert.match(stdout, /✔ .*first\.test\.mjs/);
  assert.match(stdout.slice(stdout.indexOf('✖ failing tests:')), /^✖ .*ending\.test\.mjs /m);
  assert.match(stdout, /✔ .*last\.test\.mjs/);
  assert.equal(status, 1);
});

test('words that name no test are refused', () => {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  for (const word of ['test/jurnal', 'src/nothing.ts', 'elsewhere']) {
    const { stdout, stderr, status } = spawnSync(process.execPath, [program, word], { env, encoding: 'utf8' });
    assert.deepEqual([stdout, stderr, status], ['', `no test has the name of ${word}, and its folder has none\n`, 2]);
  }
});
