/**
 * The local token: created once even when processes race, protected from other users, found by clients in the right
 * order.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { handfastHome } from '../../src/base/handfast-home.ts';
import { ensureLocalToken, tokenFromSources, tokensOf } from '../../src/config/local-token.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const TOKEN = 'a-token-that-is-long-enough';
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
const withModes = { skip: process.platform === 'win32' };

test('the first call makes 32 random bytes in a private file, later ones give the same', async (t) => {
  const home = join(temporaryFolder(t), 'a', 'home');
  const first = await ensureLocalToken({ home });
  assert.match(first.token, /^hf_[\w-]{43}$/);
  assert.equal(first.created, true);
  assert.equal(readFileSync(first.file, 'utf8'), `${first.token}\n`);
  assert.deepEqual(readdirSync(home), ['token']);
  assert.deepEqual(await ensureLocalToken({ home }), { ...first, created: false });
  if (process.platform !== 'win32') assert.deepEqual([mode(home), mode(first.file)], ['700', '600']);
  const other = await ensureLocalToken({ home: temporaryFolder(t) });
  assert.notEqual(other.token, first.token);
});

test('processes that race for the first token all get the same one, and one of them made it', async (t) => {
  const fixture = fileURLToPath(import.meta.resolve('./fixtures/local-token.ts'));
  for (let round = 0; round < 3; round++) {
    const home = join(temporaryFolder(t), 'home');
    const racers = await Promise.all(
      [1, 2].map(async () => {
        const child = spawn(process.execPath, [fixture, home], {
          stdio: ['pipe', 'pipe', 'inherit'],
          timeout: 120_000,
        });
        const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
        assert.equal((await lines.next()).value, 'ready');
        return { child, lines };
      }),
    );
    for (const { child } of racers) child.stdin.write('go\n');
    const results = await Promise.all(
      racers.map(async ({ child, lines }) => {
        const exited = once(child, 'exit');
        const { value } = await lines.next();
        await exited;
        return JSON.parse(String(value)) as { token: string; created: boolean };
      }),
    );
    assert.equal(results[0]!.token, results[1]!.token);
    assert.equal(results.filter(({ created }) => created).length, 1);
    assert.deepEqual(readdirSync(home), ['token']);
  }
});

test('many calls of one process agree too', async (t) => {
  const home = temporaryFolder(t);
  const results = await Promise.all(Array.from({ length: 20 }, () => ensureLocalToken({ home })));
  assert.equal(new Set(results.map(({ token }) => token)).size, 1);
  assert.equal(results.filter(({ created }) => created).length, 1);
});

test('a token file others can read is refused, and says what to do next', withModes, async (t) => {
  const home = temporaryFolder(t);
  const { file, token } = await ensureLocalToken({ home });
  for (const open of [0o640, 0o604, 0o620, 0o644]) {
    chmodSync(file, open);
    const refusal = { code: 'config_invalid', message: /can be read by other users; delete it .* chmod 600/ };
    await assert.rejects(ensureLocalToken({ home }), refusal);
    await assert.rejects(tokenFromSources({ env: {}, home }), refusal);
  }
  chmodSync(file, 0o600);
  assert.equal((await ensureLocalToken({ home })).token, token);
});

test('a folder others can enter is closed, because it shows no secret', withModes, async (t) => {
  const home = join(temporaryFolder(t), 'home');
  mkdirSync(home);
  chmodSync(home, 0o755);
  await ensureLocalToken({ home });
  assert.equal(mode(home), '700');
});

test('a file without a usable token, or a place where none can be, is refused', async (t) => {
  const home = temporaryFolder(t);
  for (const text of ['', '# only a comment\n', 'short\n', 'x'.repeat(100_000)]) {
    writeFileSync(join(home, 'token'), text, { mode: 0o600 });
    await assert.rejects(ensureLocalToken({ home }), {
      code: 'config_invalid',
      message: /contains no token of at least 16/,
    });
  }
  writeFileSync(join(home, 'file'), '');
  await assert.rejects(ensureLocalToken({ home: join(home, 'file') }), {
    code: 'config_invalid',
    message: /EEXIST|ENOTDIR/,
  });
  mkdirSync(join(home, 'odd', 'token'), { recursive: true });
  await assert.rejects(ensureLocalToken({ home: join(home, 'odd') }), {
    code: 'config_invalid',
    message: /not a file/,
  });
});

test('a client takes the given file, then the variable, then the local token', async (t) => {
  const home = temporaryFolder(t);
  const flagFile = join(home, 'given');
  writeFileSync(flagFile, `# rotated\n${TOKEN}-file\n${TOKEN}-old\n`);
  const env = { HANDFAST_TOKEN: ` ${TOKEN}-env\n` };
  assert.deepEqual(await tokenFromSources({ flagFile, env, home }), { token: `${TOKEN}-file`, source: 'file' });
  assert.deepEqual(await tokenFromSources({ env, home }), { token: `${TOKEN}-env`, source: 'environment' });
  assert.equal(await tokenFromSources({ env: { HANDFAST_TOKEN: '' }, home }), undefined);
  const { token } = await ensureLocalToken({ home });
  assert.deepEqual(await tokenFromSources({ env: {}, home }), { token, source: 'local' });
  // Without a home, as for addresses of other machines, the local token stays here.
  assert.equal(await tokenFromSources({ env: {} }), undefined);
});

test('a given file that is missing or empty is an error of the command line', async (t) => {
  const folder = temporaryFolder(t);
  await assert.rejects(tokenFromSources({ flagFile: join(folder, 'gone'), env: {} }), {
    code: 'usage',
    message: /it does not exist/,
  });
  writeFileSync(join(folder, 'empty'), '\n');
  await assert.rejects(tokenFromSources({ flagFile: join(folder, 'empty'), env: {} }), {
    code: 'usage',
    message: /no token/,
  });
});

test('the Handfast folder is HANDFAST_HOME, or .handfast in the home of the user', () => {
  assert.equal(handfastHome({ HANDFAST_HOME: '/x/y' }), '/x/y');
  for (const env of [{}, { HANDFAST_HOME: '' }]) assert.match(handfastHome(env), /[\\/]\.handfast$/);
});

test('a token file holds one token a line, with blank lines and comments', () => {
  assert.deepEqual(tokensOf('# a\r\n one \r\n\n#two\nthree'), ['one', 'three']);
});
